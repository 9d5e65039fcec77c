/** The arguments of the example receiver. */
import { misused, parseArguments, toConfigFile, toPort } from "../server/arguments.ts";
import { readTrouble } from "./trouble-options.ts";
import type { Trouble } from "./trouble.ts";

/** What the command line asks for. */
export interface CommandLine {
  readonly help: boolean;
  /** The configuration file of the service; its receivers on this machine are what is stood in for. */
  readonly config: string | undefined;
  /** 0 to 65535; 0: a free one. `undefined`: the one of the configuration file, else 4000. */
  readonly port: number | undefined;
  readonly client_id: string;
  readonly client_secret: string;
  /** Without one signatures are not checked. */
  readonly signing_secret: string | undefined;
  readonly trouble: Trouble;
}

/** What `--help` prints. */
export const USAGE = `Usage: node examples/receiver/main.ts [options]

Takes notifications, prints them, and makes the trouble that it is asked for.

  --config FILE           a configuration of the service: stands in for the receivers in its seed
  --port N                the port on 127.0.0.1; default that of the file, else 4000; 0 for a free one

Without --config it takes notifications at every path.

  --client-id TEXT        the Basic credentials that it expects; default: receiver
  --client-secret TEXT    default: receiver-secret
  --signing-secret TEXT   whsec_ and Base64; without it signatures are not checked

  --fail N        the first N requests meet trouble; default: all, when a trouble is named
  --status S      trouble: they are answered with this status; default 503
  --slow SECONDS  trouble: they wait so long, and then for their answer or the other trouble
  --close         trouble: their connection is closed without an answer
  --help          this text
`;

/** What Basic credentials can hold: no colon in the first half, and neither half empty. */
function toCredential(name: string, text: string, form: RegExp): string {
  if (form.test(text)) return text;
  throw misused(`${name} must not be empty${form.test("a:b") ? "" : ", and must have no colon"}`);
}

function isSigningSecret(text: string): boolean {
  const encoded = /^whsec_(.+)$/.exec(text)?.[1] ?? "";
  return encoded !== "" && Buffer.from(encoded, "base64").toString("base64") === encoded;
}

function toSigningSecret(text: string | undefined): string | undefined {
  if (text === undefined || text.split(" ").every(isSigningSecret)) return text;
  throw misused("--signing-secret must be whsec_ and Base64, or two of that with a space between them");
}

/** @throws StartFailure with exit code 2. */
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
    client_secret: toCredential("--client-secret", values["client-secret"] ?? "receiver-secret", /./),
    signing_secret: toSigningSecret(values["signing-secret"]),
    trouble: readTrouble("--", values),
  };
}
