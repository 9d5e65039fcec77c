/** The arguments of the demo receiver. */
import { misused } from "../../cli/program/command-failure.ts";
import { parseArguments, toConfigFile, toPort } from "../arguments.ts";
import { type Faults, readFaults } from "./faults.ts";

/** The parsed arguments. */
export interface CommandLine {
  readonly help: boolean;
  /** The configuration file of the service, whose receivers on this machine are used. */
  readonly config: string | undefined;
  /** 0 to 65535; 0 chooses a free port. `undefined`: the port in the configuration file, else 4000. */
  readonly port: number | undefined;
  readonly client_id: string;
  readonly client_secret: string;
  /** Without it, signatures are not checked. */
  readonly signing_secret: string | undefined;
  readonly faults: Faults;
}

/** What `--help` prints. */
export const USAGE = `Usage: node examples/receiver/main.ts [options]

Accepts notifications and prints them. Can also fail, to test retries.

  --config FILE           configuration of the service: plays the receivers in its seed
  --port N                port on 127.0.0.1; default: the port in the file, else 4000; 0 for a free port

Without --config, it accepts notifications at every path.

  --client-id TEXT        expected Basic credentials; default: receiver
  --client-secret TEXT    default: receiver-secret-1843
  --signing-secret TEXT   whsec_ and Base64; without it, signatures are not checked

  --fail N        fail the first N requests; default: all, with one of the options below
  --status S      fail by responding with this status; default: 503
  --slow SECONDS  wait before responding or failing
  --close         fail by closing the connection
  --help          show this help
`;

/** Basic credentials can't be empty, and the first half can't contain a colon. */
function toCredential(name: string, text: string, form: RegExp): string {
  if (form.test(text)) return text;
  throw misused(`${name} must not be empty${form.test("a:b") ? "" : " or contain a colon"}`);
}

function isSigningSecret(text: string): boolean {
  const encoded = /^whsec_(.+)$/.exec(text)?.[1] ?? "";
  return encoded !== "" && Buffer.from(encoded, "base64").toString("base64") === encoded;
}

function toSigningSecret(text: string | undefined): string | undefined {
  if (text === undefined || text.split(" ").every(isSigningSecret)) return text;
  throw misused("--signing-secret must be whsec_ and Base64, or two of these with a space between them");
}

/** @throws CommandFailure with exit code 2. */
export function readCommandLine(args: readonly string[]): CommandLine {
  const values = parseArguments(args, {
    help: { type: "boolean", short: "h" },
    config: { type: "string" },
    port: { type: "string" },
    "client-id": { type: "string" },
    "client-secret": { type: "string" },
    "signing-secret": { type: "string" },
    fail: { type: "string" },
    status: { type: "string" },
    slow: { type: "string" },
    close: { type: "boolean" },
  });
  return {
    help: values.help ?? false,
    config: toConfigFile(values.config),
    port: values.port === undefined ? undefined : toPort(values.port),
    client_id: toCredential("--client-id", values["client-id"] ?? "receiver", /^[^:]+$/),
    client_secret: toCredential("--client-secret", values["client-secret"] ?? "receiver-secret-1843", /./),
    signing_secret: toSigningSecret(values["signing-secret"]),
    faults: readFaults("--", values),
  };
}
