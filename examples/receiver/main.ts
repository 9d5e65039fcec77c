/** Runs the demo receiver: npx node examples/receiver/main.ts --help */
import { readConfigFile } from "../../cli/server/config-file.ts";
import { listen, type Listener } from "../../cli/server/listener.ts";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import { endOnSignal, endWith } from "../ending.ts";
import { createReceiver } from "./application.ts";
import { type CommandLine, readCommandLine, USAGE } from "./command-line.ts";
import { type SeededEndpoints, seededEndpoints } from "./seeded-endpoints.ts";
import { createFaultInjector } from "./faults.ts";

/** How long running requests may take when the receiver stops. */
const DRAIN_MS = 1_000;

function say(line: string): void {
  console.log(line);
}

async function endpointsOf({
  config,
  client_id,
  client_secret,
  signing_secret,
}: CommandLine): Promise<SeededEndpoints> {
  if (config === undefined) {
    return { origin: "http://127.0.0.1:4000", endpoints: [{ client_id, client_secret, signing_secret }] };
  }
  const found = seededEndpoints((await readConfigFile(config)).seed);
  if (found !== undefined) return found;
  throw new CommandFailure(`${config} has no receiver in its seed with an http URL on this machine.`);
}

async function main(args: readonly string[]): Promise<void> {
  let listener: Listener | undefined;
  endOnSignal(async () => listener?.stop(DRAIN_MS));
  try {
    const asked = readCommandLine(args);
    if (asked.help) {
      console.log(USAGE);
      process.exit(0);
    }
    const { origin, endpoints } = await endpointsOf(asked);
    const app = createReceiver({ endpoints, faults: createFaultInjector(asked.faults, say), say });
    listener = await listen(asked.port ?? Number(new URL(origin).port || 80), "127.0.0.1", {
      choose: "choose another one with --port N",
      host: "127.0.0.1",
    });
    const answer = app.callback();
    listener.serve((request, response) => void answer(request, response));
    const { port } = listener;
    const paths = new Set(endpoints.map(({ path = "/" }) => `http://127.0.0.1:${port}${path}`));
    console.log(`receiving notifications at ${[...paths].join(" and ")}`);
  } catch (error) {
    endWith(error);
  }
}

await main(process.argv.slice(2));
