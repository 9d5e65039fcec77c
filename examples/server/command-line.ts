/** The arguments of `npm start -- …`. */
import { NO_TROUBLE, type Trouble } from "../receiver/trouble.ts";
import { readTrouble } from "../receiver/trouble-options.ts";
import { misused, parseArguments, toConfigFile, toPort } from "./arguments.ts";

/** What the command line asks for. */
export interface CommandLine {
  readonly help: boolean;
  /** The configuration file; without one the demo is started. */
  readonly config: string | undefined;
  /** 0 to 65535; wins over the environment and the file. */
  readonly port: number | undefined;
  /** 0 to 65535; wins over `metrics.port` of the file. */
  readonly metricsPort: number | undefined;
  /** Whether the demo client is started beside the demo server. */
  readonly client: boolean;
  /** What the receiver of the demo does at first; `undefined`: it is not started. */
  readonly receiver: Trouble | undefined;
}

/** What `--help` prints. */
export const USAGE = `Usage: npm start -- [options]
       node examples/server/main.ts [options]

Without --config, starts a demo at http://127.0.0.1:3000 with one user, a client on the next port, and a receiver on
the port after that. The receiver prints each notification to this terminal.

  --config FILE  the configuration as JSON, with "port" and "seed" (docs/configuration.md)
  --port N       the port to listen on; the demo moves its addresses along, 0 for free ones
  --metrics-port N
                 a port of its own for health and metrics; needs --config
  --help         this text

For the demo alone:

  --no-client              without its client
  --no-receiver            without its receiver: what is sent to it waits
  --receiver-fail N        the first N notifications meet trouble; default: all, when a trouble is named
  --receiver-status S      trouble: they are answered with this status; default 503
  --receiver-slow SECONDS  trouble: they wait so long, and then for their answer or the other trouble
  --receiver-close         trouble: their connection is closed without an answer

Environment: PORT, HOST (default: 127.0.0.1 for the demo, else all addresses), LOG_LEVEL.
Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong arguments.
`;

/** @throws StartFailure with exit code 2. */
export function readCommandLine(args: readonly string[]): CommandLine {
  const values = parseArguments(args, {
    help: { type: "boolean", short: "h" },
    config: { type: "string" },
    port: { type: "string" },
    "metrics-port": { type: "string" },
    "no-client": { type: "boolean" },
    "no-receiver": { type: "boolean" },
    "receiver-fail": { type: "string" },
    "receiver-status": { type: "string" },
    "receiver-slow": { type: "string" },
    "receiver-close": { type: "boolean" },
  });
  const { help = false, port, "no-client": noClient = false, "no-receiver": noReceiver = false } = values;
  const config = toConfigFile(values.config);
  const metricsPort = values["metrics-port"];
  if (config === undefined && metricsPort !== undefined) throw misused("--metrics-port needs --config");
  const demoOnly = Object.keys(values).find((name) => /^no-|^receiver-/.test(name));
  if (config !== undefined && demoOnly !== undefined) {
    throw misused(`--${demoOnly} is for the demo, which --config replaces`);
  }
  const trouble = Object.keys(values).find((name) => name.startsWith("receiver-"));
  if (noReceiver && trouble !== undefined) throw misused(`--${trouble} needs the receiver`);
  const asked = readTrouble("--receiver-", {
    fail: values["receiver-fail"],
    status: values["receiver-status"],
    slow: values["receiver-slow"],
    close: values["receiver-close"],
  });
  return {
    help,
    config,
    port: port === undefined ? undefined : toPort(port),
    metricsPort: metricsPort === undefined ? undefined : toPort(metricsPort, "--metrics-port"),
    client: !noClient,
    receiver: noReceiver ? undefined : trouble === undefined ? NO_TROUBLE : asked,
  };
}
