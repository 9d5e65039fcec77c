/** The configuration of the demo, on the chosen ports, and the text it prints. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SignInService } from "../../lib/index.ts";
import { MAILBOX_PATH } from "../../testing/mailbox.ts";
import { databaseFile } from "../../config/storage-address.ts";
import { checkConfigFile, type ConfigFile, type Seed } from "../server/config-file.ts";

/** The configuration of the demo, on the default ports. */
export const DEMO_FILE: string = join(import.meta.dirname, "demo.json");
const SERVER = "http://localhost:3000";
const CLIENT = "http://localhost:3001";
const RECEIVER = "http://127.0.0.1:3002";

/** The origins of the parts of the demo. */
interface DemoOrigins {
  readonly server: string;
  readonly client: string;
  readonly receiver: string;
  readonly console: string;
}

/** The configuration of the demo at these origins. */
export function demoConfig({ server, client, receiver }: Omit<DemoOrigins, "console">): Promise<ConfigFile> {
  const moved: unknown = JSON.parse(readFileSync(DEMO_FILE, "utf8"), (_key, value: unknown) =>
    typeof value === "string"
      ? value.replace(SERVER, server).replace(CLIENT, client).replace(RECEIVER, receiver)
      : value,
  );
  return checkConfigFile(moved);
}

/** The text that the demo prints when it is ready. */
export async function banner(
  { accounts, configuration }: SignInService,
  seed: Seed,
  { client, receiver, console: administration = "" }: Partial<DemoOrigins>,
): Promise<string> {
  const { oauth2, openid } = configuration.deployments;
  const [user] = seed?.accounts ?? [];
  const login = user?.username ?? "";
  const account = await accounts.findByLogin(login);
  const isUnchanged = await accounts.verifyPassword(account?.sub ?? "", user?.password ?? "");
  const rows = [
    ...(client === undefined ? [] : [["Open", client]]),
    ["User", login],
    ["Password", isUnchanged ? (user?.password ?? "") : "the one you have set"],
    [],
    ["OAuth 2.0", oauth2?.url ?? ""],
    ["OpenID Connect", openid?.url ?? ""],
    ["Deliveries", `${oauth2?.url ?? ""}/account/deliveries`],
    ["Console", `${administration} (add an authenticator app or a passkey to the account first)`],
    ...(receiver === undefined ? [] : [["Receiver", `${receiver} (prints each notification here)`]]),
    ["Mail", `${oauth2?.url ?? ""}${MAILBOX_PATH} (what the service sends to people)`],
    ["Health", `${oauth2?.url ?? ""}/health`],
    ["Data", databaseFile(configuration.storage) ?? configuration.storage],
  ];
  const lines = rows.map(([label = "", value = ""]) => (label === "" ? "" : `  ${label.padEnd(16)}${value}`));
  return `\nThe sign-in service is running.\n\n${lines.join("\n")}\n\nCtrl+C stops it.\n`;
}
