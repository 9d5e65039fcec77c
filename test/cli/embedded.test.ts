/** The keys that docs/embed/command-line.md lists are all that the command line needs beside a service that is configured in code. */
import { createServer } from "node:http";
import { chmodSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { nodesOf } from "../../config/documented-schema.ts";
import { configurationSchema } from "../../config/schema.ts";
import { createLogger } from "../../core/logger.ts";
import { createSignInService, type SignInService, type SignInServiceConfig } from "../../lib/index.ts";
import { tableAfter } from "../examples/documents.ts";
import { here } from "./here.ts";
import { newFolder, closing } from "../closing.ts";

const DAY = 86_400;
const folder = newFolder();
const file = join(folder, "sign-in.json");

/** What the code of the application says: nothing but the storage is as by default. */
const CONFIG = {
  deployments: { openid: { url: "http://127.0.0.1:39998/openid" } },
  interactions: { theme: { name: "Example", accent: "#123456" }, locales: ["en", "pl"] },
  storage: `sqlite:${join(folder, "sign-in.db")}`,
  mail: { from: "sign-in@example.com", url: "smtp://127.0.0.1:9" },
  passwords: { minLength: 20 },
  notifications: { allowedReceivers: ["127.0.0.1"], worker: false },
  lifetimes: { idToken: 600, session: 100 * DAY, sessionMax: 200 * DAY },
  audit: { retention: 1000 * DAY },
} satisfies SignInServiceConfig;

/** The keys in the first column of the table. */
const KEYS = tableAfter("docs/embed/command-line.md", "with the values of your code:\n\n")
  .map(([names = "", why = ""]) => [names, /also (\S+)/u.exec(why)?.[1] ?? ""].join(", "))
  .flatMap((names) => names.split(", "))
  .filter((name) => name !== "");

/** The same configuration with these keys only. */
function picked(): object {
  const found: Record<string, unknown> = {};
  for (const key of KEYS) {
    const path = key.split(".");
    const value = path.reduce<unknown>((at, name) => Reflect.get(Object(at), name), CONFIG);
    if (value === undefined) continue;
    let at = found;
    for (const name of path.slice(0, -1)) at = (at[name] ??= {}) as Record<string, unknown>;
    at[path.at(-1) ?? ""] = value;
  }
  return found;
}

let service: SignInService;
const receiver = createServer((_request, response) => void response.writeHead(204).end());

beforeAll(async () => {
  await new Promise<void>((resolve) => void receiver.listen(0, "127.0.0.1", resolve));
  service = closing(await createSignInService({ ...CONFIG, logger: createLogger({ level: "silent" }) }));
  chmodSync(join(folder, "sign-in.db"), 0o600);
  writeFileSync(file, JSON.stringify(picked()), { mode: 0o600 });
});
afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
});

const command = (words: string, context = {}) => here([...words.split(" "), "--config", file], context);

describe("the keys that the command line needs beside an embedded service", () => {
  it("are keys of the configuration, and leave out what only the service needs", () => {
    const known = nodesOf(configurationSchema).map(({ path }) => path.join("."));
    expect(KEYS.filter((key) => !known.some((each) => each === key || each.startsWith(`${key}.`)))).toEqual(
      [],
    );
    expect(JSON.stringify(picked())).not.toMatch(/accent|locales|worker/u);
  });

  it("let doctor and receivers test say what is true", async () => {
    const { port } = receiver.address() as AddressInfo;
    const types = ["DELETE_ACCOUNT"] as const;
    const settings = {
      url: `http://127.0.0.1:${port}/`,
      client_id: "a",
      client_secret: "a secret of a",
      types,
    };
    await service.directory.services.put("news", { name: "News", receiver: settings });
    expect(await command("doctor")).toMatchObject({ code: 0, err: "0 problems, 0 warnings.\n" });
    expect(await command("receivers test service:news")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^status +204$/mu),
    });
  });

  it("make a command write what the service would: password, mail, audit and keys", async () => {
    const { sub } = await service.accounts.create({ email: "ada@example.com", password: "x".repeat(20) });
    const set = (password: string) =>
      command(`accounts set-password ${sub}`, { readInput: async () => password });
    expect(await set("nineteen characters")).toMatchObject({ code: 2, err: expect.stringContaining("20") });
    expect(await set("twenty-one characters")).toMatchObject({ code: 0 });
    expect(await service.metrics()).toMatch(/^sign_in_mail_outbox 1$/mu);

    const database = new DatabaseSync(join(folder, "sign-in.db"), { readOnly: true });
    const [record] = database
      .prepare(
        "SELECT value, expires_at AS ends FROM records WHERE kind = 'audit' AND value LIKE '%password_changed%'",
      )
      .all();
    database.close();
    const days = Math.round((Number(record?.["ends"]) - Date.now()) / 1000 / DAY);
    expect(days).toBe(1000);

    expect(await command("keys rotate signing")).toMatchObject({ code: 0 });
    const { items: keys } = await service.keys.list();
    const until = Math.max(...keys.map(({ published_until }) => published_until ?? 0));
    expect(Math.round((until - Date.now() / 1000) / DAY)).toBe(200);
  });
});
