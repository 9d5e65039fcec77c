/** `seed export` and `seed diff`: what one service has, another gets, without secrets. */
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SeedDifference } from "../../lib/seed-export.ts";
import { createSignInService, type Seed, type SignInService } from "../../lib/index.ts";
import { configFile, newPlace } from "./backup-stage.ts";
import { here, type Outcome } from "./here.ts";
import { Workshop } from "./stage.ts";

/** A seed with all its parts. */
type WholeSeed = { readonly [Part in keyof Seed]-?: NonNullable<Seed[Part]> };

const workshop = new Workshop();
const BASE = "http://127.0.0.1:39997";
const DEPLOYMENTS = { oauth2: { url: `${BASE}/oauth2` }, openid: { url: `${BASE}/openid` } };
const LOGO = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");

const SECRETS = {
  client: "the secret of a client, which is long",
  receiver: "the secret of a receiver",
  signing: `whsec_${Buffer.alloc(32, 3).toString("base64")}`,
};
const RECEIVER = {
  url: "https://receiver.example/?a=1&b=%22",
  client_id: "'; DROP TABLE records; --",
  client_secret: SECRETS.receiver,
  signing_secret: SECRETS.signing,
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"],
} as const;
const NAME = '"<script>\\u0000{{7*7}}%s 🏳️‍🌈 Ünï';
const API = "https://api.example/?q='%22%3B";
const CALLBACK = "https://app.example/cb?x=%0A&y='%22";

/** A service in a place of its own, and the command beside it. */
class Installation {
  readonly service: SignInService;
  readonly folder: string;
  readonly log: string[];
  readonly #config: string;

  private constructor(service: SignInService, folder: string, config: string, log: string[]) {
    this.service = service;
    this.folder = folder;
    this.log = log;
    this.#config = config;
  }

  static async open(): Promise<Installation> {
    const { folder, storage } = newPlace(workshop);
    const config = { storage, deployments: DEPLOYMENTS };
    const log: string[] = [];
    const service = await createSignInService({
      ...config,
      notifications: { worker: false },
      logger: pino({ level: "warn" }, { write: (line: string) => void log.push(line) }),
    });
    return new Installation(service, folder, configFile(folder, config), log);
  }

  cli(...words: readonly string[]): Promise<Outcome> {
    return here([...words, "--config", this.#config]);
  }

  /** The differences between a seed and the service. */
  async diff(seed: unknown): Promise<{ readonly code: number; readonly lines: readonly object[] }> {
    const file = join(this.folder, "compared.json");
    writeFileSync(file, JSON.stringify({ seed }));
    const { code, out } = await this.cli("seed", "diff", file, "--json");
    expect(out).not.toMatch(/secret of a|whsec_/u);
    const lines = out.split("\n").filter((line) => line !== "");
    return { code, lines: lines.map((line) => JSON.parse(line) as object) };
  }
}

let one: Installation;
let other: Installation;
beforeAll(async () => {
  [one, other] = [await Installation.open(), await Installation.open()];
  const { directory, clients } = one.service;
  const { portals, groups, services, apis } = directory;
  await portals.put("-", { name: NAME, receiver: RECEIVER });
  await groups.put("hasOwn", { name: NAME, receiver: RECEIVER });
  for (const key of ["10", "9", "_z", "A"]) await services.put(key, { name: NAME, group: "hasOwn" });
  await services.put("9", { name: NAME, roles: ["b", "a"], receiver: RECEIVER });
  const scopes = { "z:1": NAME, "a.b": "A" };
  await apis.put(API, { name: NAME, service: "9", scopes });
  await apis.put("https://jwt.example", { name: "J", service: "10", scopes, tokens: "jwt", assign: true });
  const common = { name: NAME, service: "9", redirect_uris: [CALLBACK, "https://app.example/a"] };
  await clients.register({
    ...common,
    client_id: "~web",
    client_secret: SECRETS.client,
    password_grant: true,
    refresh_tokens: { sliding: false, maxAge: 77, rotate: true },
    backchannel_logout_uri: "https://app.example/logout",
    logo: LOGO,
    apis: { [API]: ["z:1", "a.b"] },
  });
  await clients.register({ ...common, client_id: "generated" });
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = publicKey.export({ format: "jwk" }) as Readonly<Record<string, string>>;
  await clients.register({
    ...common,
    client_id: "keys",
    jwks: { keys: [key] },
    first_party: false,
    second_factor: "required",
  });
  await clients.register({
    ...common,
    client_id: "a.public",
    kind: "public",
    native: true,
    redirect_uris: ["com.example.app:/cb"],
    origins: [],
  });
  await clients.register({ kind: "device", name: NAME, service: "A", client_id: "0" });
  for (const client_id of ["machine", "off"])
    await clients.register({ kind: "machine", name: NAME, service: "A", client_id });
  await apis.update(API, { introspection: ["off", "machine", "~web"] });
  await clients.disable("off");
}, 60_000);
afterAll(() => Promise.all([one.service.close(), other.service.close()]));

it("an export has no secrets, no internal and no disabled clients, and is the same text each time [D-ADM-185, D-ADM-186]", async () => {
  const { code, out, err } = await one.cli("seed", "export");
  expect(code).toBe(0);
  expect((await one.cli("seed", "export")).out).toBe(out);
  expect(out).not.toMatch(/secret of a|whsec_|sealed|hash|sign-in-service\.|"off"/u);
  expect(err.split("\n")).toEqual([
    "Left out, because a seed would register them enabled: off",
    "Without their logos, whose paths a seed names: ~web",
    "",
  ]);
  const { seed } = JSON.parse(out) as { seed: WholeSeed };
  expect(Object.keys(seed)).toEqual(["apis", "clients", "groups", "portals", "services"]);
  expect(seed.clients.map(({ client_id, client_secret }) => [client_id, client_secret])).toEqual([
    ["0", undefined],
    ["a.public", undefined],
    ["generated", null],
    ["keys", undefined],
    ["machine", null],
    ["~web", null],
  ]);
  const { signing_secret: _signing, ...shown } = RECEIVER;
  expect(seed.portals).toEqual({ "-": { name: NAME, receiver: { ...shown, client_secret: null } } });
  expect(seed.apis[API]?.introspection).toEqual(["machine", "~web"]);
  const file = join(one.folder, "seed.json");
  expect((await one.cli("seed", "export", "--output", file)).code).toBe(0);
  expect(readFileSync(file, "utf8")).toBe(out);
  expect(statSync(file).mode & 0o077).toBe(0);
  const again = await one.cli("seed", "export", "--output", file);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("exists already")]);
  const same = await one.cli("seed", "diff", file);
  expect([same.code, same.out]).toEqual([0, "The seed and the service are the same.\n"]);
});

it("an empty service takes an export, and then there is no difference [D-ADM-187]", async () => {
  const { out } = await one.cli("seed", "export");
  const { seed } = JSON.parse(out) as { seed: WholeSeed };
  expect((await other.diff(seed)).code).toBe(1);
  await other.service.applySeed(seed);
  expect(await other.diff(seed)).toEqual({ code: 0, lines: [] });
  const theirs = JSON.parse((await other.cli("seed", "export")).out) as { seed: WholeSeed };
  // Only the logo stays behind.
  const clients = theirs.seed.clients.map(({ logo: _logo, ...client }) => client);
  const { clients: ours, ...directory } = seed;
  expect({ ...theirs.seed, clients }).toEqual({
    ...directory,
    clients: ours.map(({ logo: _logo, ...client }) => client),
  });
  expect(other.log.join("")).toContain(
    "without credentials: portal -, group hasOwn, service 9, client generated, client machine, client ~web",
  );
  // It changes nothing where it comes from, except that what is written in another order is stored so.
  const before = await one.cli("seed", "export");
  await one.service.applySeed(seed);
  expect((await one.cli("seed", "export")).out).toBe(before.out);
  expect(one.log.join("")).not.toContain("without credentials");
});

it("a difference is a line with the names of members, and exit code 1 [D-ADM-188]", async () => {
  const { seed } = JSON.parse((await one.cli("seed", "export")).out) as { seed: WholeSeed };
  const [first, ...clients] = seed.clients;
  const changed = {
    ...seed,
    portals: {},
    groups: { hasOwn: { name: "G", receiver: { ...RECEIVER, client_secret: SECRETS.receiver } } },
    services: { ...seed.services, new: { name: "N" }, "9": { name: NAME, roles: ["b", "a"] } },
    apis: { ...seed.apis, [API]: { ...seed.apis[API], introspection: ["machine"], scopes: { "z:1": "Z" } } },
    clients: [
      ...clients.map((client) =>
        client.client_id === "generated"
          ? {
              client_id: "generated",
              client_secret: SECRETS.client,
              service: "9",
              redirect_uris: [CALLBACK],
              password_grant: true,
              grant_types: ["authorization_code", "refresh_token"],
            }
          : client,
      ),
      // A disabled client is compared as soon as the seed names it.
      { client_id: "off", kind: "machine", client_secret: null, service: "A", name: NAME },
      { client_id: "nobody", kind: "machine", client_secret: null, service: "A" },
    ],
  };
  const { code, lines } = await one.diff(changed);
  const api = ["introspection", "scopes"];
  expect(code).toBe(1);
  expect(
    lines.map((line) => {
      const { difference, kind, name, members } = line as SeedDifference;
      return [difference, kind, name, members.toSorted()];
    }),
  ).toEqual([
    ["changed", "group", "hasOwn", ["name"]],
    ["changed", "service", "9", ["receiver"]],
    ["missing", "service", "new", []],
    ["changed", "api", API, api],
    ["changed", "client", "generated", ["grant_types", "password_grant", "redirect_uris"]],
    ["missing", "client", "nobody", []],
    ["added", "portal", "-", []],
    ["added", "client", first?.client_id, []],
  ]);
  const file = join(one.folder, "changed.json");
  writeFileSync(file, JSON.stringify({ seed: changed }));
  const shown = await one.cli("seed", "diff", file);
  expect([shown.code, shown.err]).toEqual([1, "The seed and the service differ.\n"]);
  expect(shown.out.split("\n")).toHaveLength(10);
});

it.each<[string, string, string]>([
  ["no seed", "{}", "has no seed"],
  ["no JSON", "{", "is not valid JSON"],
  ["no object", '{"seed": []}', "config.seed: must be an object"],
  ["an unknown key", '{"seed": {"__proto__": {}, "server": {}}}', "config.seed: unknown key"],
  ["a hostile key", '{"seed": {"services": {"constructor": {"name": "C"}}}}', "config.seed.services"],
  ["a missing logo", '{"seed": {"clients": [{"logo": "none.png"}]}}', "config.seed.clients[0].logo"],
])("a file with %s is refused with exit code 2 [D-ADM-188]", async (_what, text, message) => {
  const file = join(one.folder, "wrong.json");
  writeFileSync(file, text);
  const { code, out, err } = await one.cli("seed", "diff", file);
  expect([code, out, err]).toEqual([2, "", expect.stringContaining(message)]);
});
