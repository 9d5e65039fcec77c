/** The arguments of `npm start -- …`. */
import { parseArgs } from "node:util";
import { MISUSED, StartFailure } from "./start-failure.ts";

/** What the command line asks for. */
export interface CommandLine {
  readonly help: boolean;
  /** The configuration file; without one the demo is started. */
  readonly config: string | undefined;
  /** 0 to 65535; wins over the environment and the file. */
  readonly port: number | undefined;
  /** Whether the demo client is started beside the demo server. */
  readonly client: boolean;
}

/** What `--help` prints. */
export const USAGE = `Usage: npm start -- [options]
       node examples/server/main.ts [options]

Without --config: a demo at http://127.0.0.1:3000 with a client at the next port and one user.

  --config FILE  the configuration as JSON, with "port" and "seed" (docs/configuration.md)
  --port N       the port to listen on; the demo moves its addresses along
  --no-client    the demo without its client
  --help         this text

Environment: PORT, HOST (default: 127.0.0.1 for the demo, else all addresses), LOG_LEVEL.
Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong arguments.
`;

/** @throws StartFailure with exit code 2. */
export function readCommandLine(args: readonly string[]): CommandLine {
  const { help = false, config, port, "no-client": noClient = false } = parse(args);
  if (config === "") throw misused("--config needs the name of a file");
  return { help, config, port: port === undefined ? undefined : toPort(port), client: !noClient };
}

interface Values {
  help?: boolean;
  config?: string;
  port?: string;
  "no-client"?: boolean;
}

function parse(args: readonly string[]): Values {
  try {
    return parseArgs({
      args: [...args],
      options: {
        help: { type: "boolean", short: "h" },
        config: { type: "string" },
        port: { type: "string" },
        "no-client": { type: "boolean" },
      },
    }).values;
  } catch (cause) {
    // Node's own sentences, without the advice about positional arguments that follows.
    const [sentence = ""] = (cause as Error).message.split(/\.\s|\n/);
    throw misused(sentence, cause);
  }
}

function toPort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw misused("--port must be a whole number from 0 to 65535");
  }
  return Number(text);
}

function misused(sentence: string, cause?: unknown): StartFailure {
  return new StartFailure(`${sentence}. See --help.`, MISUSED, { cause });
}
