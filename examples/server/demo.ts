/** The demo: `demo.json` moved to the ports that there are, and what is printed about it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SignInService } from "../../lib/index.ts";
import { checkConfigFile, type ConfigFile, type Seed } from "./config-file.ts";

/** The configuration of the demo, at its usual ports. */
export const DEMO_FILE: string = join(import.meta.dirname, "demo.json");
const SERVER = "http://127.0.0.1:3000";
const CLIENT = "http://127.0.0.1:3001";
const RECEIVER = "http://127.0.0.1:3002";

/** Where the demo listens. */
export interface DemoPlaces {
  /** Origin of the server. */
  readonly server: string;
  /** Origin of the client. */
  readonly client: string;
  /** Origin of the receivers. */
  readonly receiver: string;
}

/** The port of the demo when nobody says another one; its client takes the next, its receiver the one after it. */
export const DEMO_PORT = 3000;

/** The seed of the demo, as it is in the file. */
export function demoSeed(): Seed {
  return seedIn(DEMO_FILE);
}

/** What is printed in the examples: the seed of the demo, with the clients of the conformance suite. */
export function printedSeed(): Seed {
  const demo = demoSeed();
  const { clients = [] } = seedIn(join(import.meta.dirname, "../conformance/server.json")) ?? {};
  return { ...demo, clients: [...(demo?.clients ?? []), ...clients] };
}

function seedIn(file: string): Seed {
  return (JSON.parse(readFileSync(file, "utf8")) as { seed: Seed }).seed;
}

/** The configuration of the demo at these places. */
export function demoConfig({ server, client, receiver }: DemoPlaces): Promise<ConfigFile> {
  const moved: unknown = JSON.parse(readFileSync(DEMO_FILE, "utf8"), (_key, value: unknown) =>
    typeof value === "string"
      ? value.replace(SERVER, server).replace(CLIENT, client).replace(RECEIVER, receiver)
      : value,
  );
  return checkConfigFile(moved);
}

/** What the demo prints when it is ready. @param beside what was started beside the server. */
export async function banner(
  { accounts, configuration }: SignInService,
  seed: Seed,
  { client, receiver }: Partial<DemoPlaces>,
): Promise<string> {
  const { oauth2, openid } = configuration.deployments;
  const [user] = seed?.accounts ?? [];
  const login = user?.username ?? "";
  const account = await accounts.findByLogin(login);
  const isUnchanged = await accounts.verifyPassword(account?.sub ?? "", user?.password ?? "");
  const rows = [
    ...(client === undefined ? [] : [["Open", client]]),
    ["User", login],
    ["Password", isUnchanged ? (user?.password ?? "") : "the one that you have set"],
    [],
    ["OAuth 2.0", oauth2?.url ?? ""],
    ["OpenID Connect", openid?.url ?? ""],
    ["Deliveries", `${oauth2?.url ?? ""}/account/deliveries`],
    ...(receiver === undefined ? [] : [["Receiver", `${receiver} (prints each notification here)`]]),
    ["Health", `${oauth2?.url ?? ""}/health`],
    ["Data", configuration.storage.replace("sqlite:", "")],
  ];
  const lines = rows.map(([label = "", value = ""]) => (label === "" ? "" : `  ${label.padEnd(16)}${value}`));
  return `\nThe sign-in service is running.\n\n${lines.join("\n")}\n\nCtrl+C stops it.\n`;
}
