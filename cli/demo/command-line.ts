/** The arguments of `npm start -- …`. */
import { NO_TROUBLE, type Trouble } from "../../examples/receiver/trouble.ts";
import { readTrouble } from "../../examples/receiver/trouble-options.ts";
import { misused, parseArguments, toConfigFile, toPort } from "../server/arguments.ts";

/** The parsed arguments. */
export interface CommandLine {
  readonly help: boolean;
  /** The configuration file. `undefined` starts the demo. */
  readonly config: string | undefined;
  /** 0 to 65535. Overrides the environment and the file. */
  readonly port: number | undefined;
  /** 0 to 65535. Overrides `metrics.port` in the file. */
  readonly metricsPort: number | undefined;
  /** Whether to start the demo client. */
  readonly client: boolean;
  /** How the demo receiver fails at first. `undefined` doesn't start it. */
  readonly receiver: Trouble | undefined;
}

/** What `--help` prints. */
export const USAGE = `Usage: npm start -- [options]
       node cli/server/main.ts [options]

Without --config, starts a demo at http://127.0.0.1:3000 with one user, a client on the next port, and a receiver on
the port after that. The receiver prints each notification to this terminal.

  --config FILE  configuration as JSON, with "port" and "seed" (docs/configuration.md)
  --port N       port to listen on; the demo also uses the two ports after it; 0 for free ports
  --metrics-port N
                 separate port for health and metrics; requires --config
  --help         show this help

Options for the demo:

  --no-client              don't start the client
  --no-receiver            don't start the receiver: its notifications wait
  --receiver-fail N        fail the first N notifications; default: all, with one of the options below
  --receiver-status S      fail by responding with this status; default: 503
  --receiver-slow SECONDS  wait before responding or failing
  --receiver-close         fail by closing the connection

Environment: PORT, HOST (default: 127.0.0.1 for the demo, all addresses with --config), LOG_LEVEL.
Exit codes: 0 stopped by a signal, 1 could not start, 2 invalid arguments.
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
  if (config === undefined && metricsPort !== undefined) throw misused("--metrics-port requires --config");
  const demoOnly = Object.keys(values).find((name) => /^no-|^receiver-/.test(name));
  if (config !== undefined && demoOnly !== undefined) {
    throw misused(`--${demoOnly} can't be used with --config`);
  }
  const trouble = Object.keys(values).find((name) => name.startsWith("receiver-"));
  if (noReceiver && trouble !== undefined) throw misused(`--${trouble} can't be used with --no-receiver`);
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
