/** A receiver to try things out with: node examples/receiver/main.ts --help */
import { listen, type Listener } from "../server/listener.ts";
import { FAILED, StartFailure } from "../server/start-failure.ts";
import { onStopSignal } from "../server/stop-signals.ts";
import { createReceiver } from "./application.ts";
import { readCommandLine, USAGE } from "./command-line.ts";

/** Milliseconds for running requests to be answered. */
const PATIENCE = 1_000;

async function main(args: readonly string[]): Promise<void> {
  let listener: Listener | undefined;
  onStopSignal(async () => listener?.stop(PATIENCE));
  try {
    const { help, port, ...options } = readCommandLine(args);
    if (help) {
      console.log(USAGE);
      process.exit(0);
    }
    const app = createReceiver({ ...options, say: (line) => console.log(line) });
    listener = await listen(port, "127.0.0.1");
    const answer = app.callback();
    listener.serve((request, response) => void answer(request, response));
    console.log(`receiving notifications at http://127.0.0.1:${listener.port}/`);
  } catch (error) {
    if (!(error instanceof StartFailure) && !(error instanceof TypeError)) throw error;
    console.error(error.message);
    process.exit(error instanceof StartFailure ? error.exitCode : FAILED);
  }
}

await main(process.argv.slice(2));
