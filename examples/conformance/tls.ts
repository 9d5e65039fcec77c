/** Terminates TLS in front of the bundled server, for the conformance suite. */
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { createProxy } from "../cluster/proxy.ts";
import { parseArguments, toPort } from "../arguments.ts";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import { notFree } from "../../cli/server/listener.ts";
import { endWith } from "../ending.ts";

const USAGE = `Usage: npx node examples/conformance/tls.ts --cert FILE --key FILE [options]

  --cert FILE   certificate, PEM
  --key FILE    private key, PEM
  --port N      port to listen on; default: 9443
  --to N        port of the bundled server on this machine; default: 3000
  --help        show this help
`;

function pem(option: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const { code = "unknown" } = cause as NodeJS.ErrnoException;
    throw new CommandFailure(`${option}: ${path} can't be read: ${code}.`, { cause });
  }
}

function start(args: readonly string[]): void {
  const {
    help = false,
    cert,
    key,
    port = "9443",
    to = "3000",
  } = parseArguments(args, {
    help: { type: "boolean", short: "h" },
    cert: { type: "string" },
    key: { type: "string" },
    port: { type: "string" },
    to: { type: "string" },
  });
  if (help) {
    console.log(USAGE);
    return;
  }
  if (cert === undefined || key === undefined) {
    throw new CommandFailure("--cert and --key are required. See --help.", { code: "invalid_configuration" });
  }
  const target = { port: toPort(to) };
  const identity = { cert: pem("--cert", cert), key: pem("--key", key) };
  const server = createServer(identity, createProxy([target]));
  server.once("error", (error) =>
    endWith(
      notFree(error, {
        port: toPort(port),
        host: undefined,
        words: { choose: "choose another one with --port N", host: "" },
      }),
    ),
  );
  // On all addresses: the suite runs in containers, and reaches this machine from outside.
  server.listen(toPort(port), () => console.log(`forwarding https on port ${port} to port ${target.port}`));
}

try {
  start(process.argv.slice(2));
} catch (error) {
  endWith(error);
}
