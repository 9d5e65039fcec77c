import { beforeEach, describe, expect, it } from "@jest/globals";
import { generateKeyPairSync } from "node:crypto";
import { pino } from "pino";
import { SEEDED } from "../../records/directory/directory-kinds.ts";
import { ConfigurationError } from "../../core/errors.ts";
import { applySeed, type Seed, type SeededServices } from "../../lib/seed.ts";
import { openDomain, type Domain } from "../accounts/open-domain.ts";

const receiver = {
  url: "http://127.0.0.1:4000/g",
  client_id: "g",
  client_secret: "s",
  types: ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE", "PROFILE_CHANGED"],
} as const;
const SECRET = "news-secret-news-secret";

const seed = {
  portals: { main: { name: "Main portal", receiver: { ...receiver, types: ["DELETE_ACCOUNT"] } } },
  groups: { media: { name: "Media", receiver } },
  services: {
    "1": { name: "News", group: "media" },
    "2": { name: "Video", group: "media" },
    "3": { name: "Shop", receiver },
  },
  clients: [
    {
      client_id: "news",
      client_secret: SECRET,
      redirect_uris: ["http://127.0.0.1:3001/callback"],
      service: "1",
      password_grant: true,
    },
  ],
  accounts: [
    {
      email: "ada@example.com",
      username: "ada",
      password: "correct horse",
      name: "Ada",
      portal: "main",
      services: { "1": 1102020202, "2": null },
    },
  ],
} satisfies Seed;

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
});

/** Everything that is stored, sealed texts and hashes included. */
async function everything({ storage: { directory, deliveries, audit } }: Domain): Promise<string> {
  return JSON.stringify([
    await directory.listAccounts({ limit: 1000 }),
    await directory.listClients(),
    ...(await Promise.all(
      (["service", "group", "portal"] as const).map((kind) => directory.listEntries(kind)),
    )),
    await deliveries.list({ limit: 1000 }),
    await audit.list({ limit: 1000 }),
  ]);
}

/** Which of these secrets the client has. */
async function secretsOf(client_id: string, ...secrets: readonly string[]): Promise<unknown[]> {
  const record = await domain.clients.record(client_id);
  return secrets.map((secret) => domain.clients.secretMatches(record, secret));
}

const newKeys = () => {
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { keys: [publicKey.export({ format: "jwk" }) as Readonly<Record<string, string>>] };
};

/** What the log says at the start with a seed: levels and texts. */
async function saidBy(input: Seed): Promise<readonly (readonly [level: number, text: string])[]> {
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  await applySeed({ ...domain, logger }, input);
  return lines.map((line) => {
    const { level, msg } = JSON.parse(line) as { level: number; msg: string };
    return [level, msg] as const;
  });
}

async function problemsOf(input: unknown): Promise<readonly string[]> {
  try {
    await applySeed(domain, input as Seed);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("a seed", () => {
  it("can't change how the ID tokens of a client are signed", async () => {
    await applySeed(domain, seed);
    const [first, ...others] = seed.clients;
    const changed = { ...seed, clients: [{ ...first, id_token_signed_response_alg: "ES256" }, ...others] };
    await expect(problemsOf(changed)).resolves.toEqual([
      expect.stringContaining("registered with RS256, and its id_token_signed_response_alg can't be changed"),
    ]);
  });

  it("creates its entries; a client without a name gets that of its service [D-RUN-2]", async () => {
    await applySeed(domain, seed);
    expect(await domain.accounts.findByLogin("ADA")).toMatchObject({
      name: "Ada",
      portal: "main",
      services: { "1": 1102020202, "2": null },
    });
    expect((await domain.accounts.authenticate("ada", "correct horse")).ok).toBe(true);
    expect(await domain.clients.find("news")).toMatchObject({
      name: "News",
      service: "1",
      password_grant: true,
    });
    expect(domain.clients.secretMatches(await domain.clients.record("news"), SECRET)).toBe("chosen");
    expect(await domain.directory.services.find("2")).toMatchObject({ name: "Video", group: "media" });
    expect(await domain.bodies()).toEqual([]);
    await applySeed(domain, undefined);
    await applySeed(domain, {});
  });

  it("applied again changes nothing in the storage [D-RUN-2]", async () => {
    await applySeed(domain, seed);
    const before = await everything(domain);
    domain.clock.seconds += 1000;
    await applySeed(domain, seed);
    expect(await everything(domain)).toBe(before);
  });

  it("updates directory and clients to its values, and keeps everything else [D-RUN-2]", async () => {
    await domain.directory.services.put("1", { name: "Old", receiver });
    await domain.directory.services.put("9", { name: "Other" });
    const uris = ["https://old.example/cb"];
    await domain.clients.register({
      client_id: "news",
      client_secret: "another-secret-another",
      name: "x",
      service: "9",
      redirect_uris: uris,
      error_status: "standard",
      backchannel_logout_uri: "https://old.example/bc",
    });
    await domain.clients.register({ client_id: "other", name: "Other", service: "9", redirect_uris: uris });
    await applySeed(domain, seed);
    expect(await domain.directory.services.find("1")).toEqual({
      key: "1",
      name: "News",
      group: "media",
      roles: [],
      receiver: null,
    });
    // Only the members of a client that the seed names are set, and never its secret.
    expect(await domain.clients.find("news")).toMatchObject({
      name: "x",
      service: "1",
      redirect_uris: ["http://127.0.0.1:3001/callback"],
      error_status: "standard",
      backchannel_logout_uri: "https://old.example/bc",
      password_grant: true,
    });
    expect(await secretsOf("news", "another-secret-another", SECRET)).toEqual(["chosen", undefined]);
    expect(await domain.clients.find("other")).toMatchObject({ name: "Other", service: "9" });
    const clients = seed.clients.map((client) => ({ ...client, password_grant: false }));
    await applySeed(domain, { ...seed, clients });
    expect((await domain.clients.find("news"))?.password_grant).toBe(false);
    await domain.clients.disable("news");
    await applySeed(domain, seed);
    expect((await domain.clients.find("news"))?.disabled).toBe(true);
  });

  it("keeps what an operator has set of a client that it does not name [D-SEED-3]", async () => {
    await applySeed(domain, seed);
    const set = { first_party: false, password_grant: false } as const;
    await domain.clients.update("news", set);
    const looks = {
      second_factor: "required",
      error_status: "standard",
      refresh_tokens: { rotate: false, reuseWindow: 5 },
      client_uri: "https://news.example/",
      name: "Daily News",
    } as const;
    await domain.clients.update("news", looks);
    const [client] = seed.clients;
    const { password_grant: _grant, ...plain } = client!;
    await applySeed(domain, { ...seed, clients: [{ ...plain, refresh_tokens: { rotate: true } }] });
    expect(await domain.clients.find("news")).toMatchObject({
      ...set,
      ...looks,
      refresh_tokens: { rotate: true, reuseWindow: 5 },
    });
  });

  it("says in the log and in the audit which members of a client it has changed [D-SEED-3]", async () => {
    await applySeed(domain, seed);
    await domain.clients.update("news", { redirect_uris: ["https://old.example/cb"], password_grant: false });
    await domain.directory.services.put("2", { name: "Old" });
    const said = await saidBy(seed);
    expect(said).toEqual([
      [30, "seed: service 2 is brought to its values"],
      [30, "seed: client news is brought to its values: redirect_uris, grant_types"],
    ]);
    const { items: records } = await domain.storage.audit.list({ limit: 1 });
    expect(records).toMatchObject([
      {
        action: "client.updated",
        actor: { kind: "system" },
        subject: "news",
        detail: { fields: "redirect_uris grant_types" },
      },
    ]);
    expect(await saidBy(seed)).toEqual([]);
  });

  it("never brings back a secret that was rotated, and says so [D-SEED-2]", async () => {
    await applySeed(domain, seed);
    const { client_secret } = await domain.clients.rotateSecret("news");
    const warning = [
      40,
      expect.stringMatching(/^seed: the secret or the keys of client news differ .*--from-seed$/),
    ];
    for (let start = 0; start < 2; start += 1) {
      expect(await saidBy(seed)).toEqual([warning]);
      expect(await secretsOf("news", client_secret, SECRET)).toEqual(["generated", undefined]);
    }
    // While both work, nothing is wrong.
    await domain.clients.update("news", { client_secret: SECRET });
    await domain.clients.rotateSecret("news", { keepOldFor: 3600 });
    expect(await saidBy(seed)).toEqual([]);
  });

  it("never brings back keys of a client, nor a secret in place of its keys [D-SEED-2]", async () => {
    const [first, second] = [newKeys(), newKeys()];
    const machine = { client_id: "job", kind: "machine", service: "3", name: "Job" } as const;
    await applySeed(domain, { ...seed, clients: [{ ...machine, jwks: first }] });
    const stored = (await domain.clients.find("job"))?.jwks;
    await domain.clients.update("job", { jwks: second });
    const now = (await domain.clients.find("job"))?.jwks;
    expect(now).not.toEqual(stored);
    for (const credentials of [{ jwks: first }, { client_secret: SECRET }]) {
      const said = await saidBy({ clients: [{ ...machine, ...credentials }] });
      expect(said).toEqual([[40, expect.stringContaining("keys of client job differ")]]);
      expect((await domain.clients.find("job"))?.jwks).toEqual(now);
    }
  });

  it("does not make again what was removed since, nor people who were deleted, and names them [D-SEED-1]", async () => {
    await applySeed(domain, seed);
    const { sub } = (await domain.accounts.findByLogin("ada"))!;
    await domain.accounts.delete(sub);
    await domain.clients.remove("news");
    for (const key of ["1", "2"]) await domain.directory.services.remove(key);
    await domain.directory.groups.remove("media");
    const before = await everything(domain);
    for (let start = 0; start < 2; start += 1) {
      expect(await saidBy(seed)).toEqual([
        [
          40,
          "seed: removed since, and not made again: group media, service 1, service 2, client news, config.seed.accounts[0] (take it out of the seed, or make it with a command)",
        ],
      ]);
      expect(await everything(domain)).toBe(before);
    }
    // What an operator makes again is a part of the seed again.
    await domain.directory.groups.put("media", { name: "Old" });
    await domain.directory.services.put("1", { name: "Old" });
    await domain.accounts.create({ email: "ada@example.com" });
    await saidBy(seed);
    expect(await domain.directory.groups.find("media")).toMatchObject({ name: "Media" });
    expect(await domain.directory.services.find("1")).toMatchObject({ name: "News", group: "media" });
    expect((await domain.accounts.findByLogin("ada@example.com"))?.username).toBeNull();
  });

  it("remembers what it has found, and keeps no address of a deleted person [D-SEED-1]", async () => {
    const { sub } = await domain.accounts.create({ email: "ADA@example.com" });
    await applySeed(domain, seed);
    await domain.accounts.delete(sub);
    await saidBy(seed);
    expect(await domain.accounts.findByLogin("ada@example.com")).toBeUndefined();
    const { store } = domain.storage.records;
    const marks = (await store.scan(SEEDED.name, undefined, 100)).records;
    expect(marks).toHaveLength(7);
    expect(JSON.stringify(marks.map(({ key, value }) => [key, value]))).not.toMatch(
      /ada|example|news|media/iu,
    );
  });

  it("finds a person who was deleted by the sub, too, whatever address the seed has now [D-SEED-1]", async () => {
    const sub = "0190b8e2-7c4d-7abc-8def-0123456789ab";
    const ada = seed.accounts[0]!;
    await applySeed(domain, { ...seed, accounts: [{ ...ada, sub }] });
    await domain.accounts.delete(sub);
    const moved = { ...ada, sub, email: "countess@example.com", username: "countess" };
    for (const accounts of [[moved], [{ ...moved, user_id: 1, sub: undefined, email: "third@example.com" }]])
      expect(await saidBy({ accounts })).toEqual([[40, expect.stringContaining("config.seed.accounts[0]")]]);
    expect((await domain.accounts.list()).items).toEqual([]);
  });

  it("leaves as it is what refers to something that was removed [D-SEED-1]", async () => {
    await applySeed(domain, seed);
    const accounts = [
      ...seed.accounts,
      { email: "bob@example.com", portal: "main", services: { "1": null } },
    ];
    await domain.directory.services.put("1", { name: "News" });
    await domain.directory.services.put("2", { name: "Video" });
    await domain.directory.groups.remove("media");
    await domain.clients.update("news", { service: "3" });
    await domain.accounts.unassign((await domain.accounts.findByLogin("ada"))?.sub ?? "", ["1", "2"]);
    await domain.directory.services.remove("1");
    expect(await saidBy({ ...seed, accounts })).toEqual([
      [40, expect.stringContaining("not made again: group media, service 1 (")],
      [
        40,
        "seed: not applied: service 2 (it needs group media), client news (it needs service 1), config.seed.accounts[1] (it needs service 1)",
      ],
    ]);
    expect(await domain.directory.services.find("2")).toMatchObject({ name: "Video", group: null });
    expect(await domain.clients.find("news")).toMatchObject({ service: "3" });
    expect(await domain.accounts.findByLogin("bob@example.com")).toBeUndefined();
  });

  it("never changes an existing account, found by address or username [D-RUN-2]", async () => {
    for (const existing of [{ email: "ADA@example.com" }, { email: "else@example.com", username: "ADA" }]) {
      const { sub } = await domain.accounts.create({ ...existing, password: "my own password" });
      const before = await domain.accounts.record(sub);
      await applySeed(domain, seed);
      expect(await domain.accounts.record(sub)).toEqual(before);
      expect((await domain.accounts.list()).items).toHaveLength(1);
      await domain.accounts.delete(sub);
    }
    expect(await domain.bodies()).toEqual([]);
  });

  it("works when many processes start at once [D-RUN-2, D-SEED-4]", async () => {
    const lines: string[] = [];
    const logger = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
    const processes = Array.from({ length: 8 }, () => ({ ...domain.reopen(), logger }));
    await Promise.all(processes.map((each) => applySeed(each, seed)));
    // None of them takes what another one has just made for removed.
    expect(lines).toEqual([]);
    expect(
      [await domain.accounts.list(), await domain.clients.list()].map(({ items }) => items.length),
    ).toEqual([1, 1]);
    expect((await domain.accounts.findByLogin("ada"))?.services).toEqual({ "1": 1102020202, "2": null });
    expect(domain.clients.secretMatches(await domain.clients.record("news"), SECRET)).toBe("chosen");
    const before = await everything(domain);
    await applySeed(domain, seed);
    expect(await everything(domain)).toBe(before);
  });
});

/** So many identifiers, in their order. */
const others = (count: number): string[] => Array.from({ length: count }, (_, i) => `other-${100 + i}`);

describe("registered clients that are not in the seed", () => {
  const client = seed.clients[0]!;
  const lines: string[] = [];

  /** The domain with a captured log. */
  const logged = (): SeededServices => {
    lines.length = 0;
    const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    return { ...domain, logger };
  };
  const entries = (): unknown => lines.map((line) => JSON.parse(line)).map(({ level, msg }) => [level, msg]);

  it("are logged at each start, at most twenty; they keep working", async () => {
    await applySeed(logged(), seed);
    expect(entries()).toEqual([]);
    await applySeed(logged(), { clients: [{ ...client, client_id: "video" }] });
    const advice = "(they stay registered; remove them with clients.remove)";
    expect(entries()).toEqual([[30, `registered, but not in the seed: news ${advice}`]]);
    expect(domain.clients.secretMatches(await domain.clients.record("news"), SECRET)).toBe("chosen");
    for (const client_id of others(23)) await domain.clients.register({ ...client, name: "x", client_id });
    await applySeed(logged(), seed);
    const twenty = others(20).join(", ");
    expect(entries()).toEqual([[30, `registered, but not in the seed: ${twenty} and 4 more ${advice}`]]);
  });

  it("are not logged for a seed without clients", async () => {
    await applySeed(domain, seed);
    await applySeed(logged(), { services: seed.services });
    await applySeed(logged(), { ...seed, clients: [] });
    expect(entries()).toEqual([]);
  });
});

describe("an invalid seed", () => {
  it("is refused with all problems at once, each with its path, before anything is written", async () => {
    const problems = await problemsOf({
      portals: { "a b": { name: "P" } },
      groups: [],
      services: {
        "1": { name: "", grup: "media", receiver: { ...receiver, url: "nowhere", types: ["DELETED"] } },
        "2": { name: "ok" },
      },
      clients: [{ client_id: "news", redirect_uris: ["http://a.example/"], service: "1" }, "client"],
      accounts: [{ email: "ada", password: "x", password_hash: "y", services: { "1": "7" } }],
      users: [],
    });
    const paths = problems.map((problem) => problem.slice(0, problem.indexOf(": ")));
    expect(paths.toSorted()).toEqual([
      "config.seed",
      "config.seed.accounts[0].email",
      "config.seed.accounts[0].password_hash",
      "config.seed.accounts[0].services.1",
      "config.seed.clients[0].client_secret",
      "config.seed.clients[0].redirect_uris[0]",
      "config.seed.clients[1]",
      "config.seed.groups",
      "config.seed.portals[a name of 3 characters]",
      "config.seed.services.1",
      "config.seed.services.1.name",
      "config.seed.services.1.receiver.types[0]",
      "config.seed.services.1.receiver.url",
    ]);
    expect(problems).toContain("config.seed.services.1: unknown key grup; did you mean group?");
    expect(problems).toContain("config.seed.clients[0].client_secret: is required");
    expect((await domain.directory.services.list()).items).toEqual([]);
    for (const input of [null, "seed", 5, []])
      expect(await problemsOf(input)).toEqual(["config.seed: must be an object"]);
  });

  it("reports the path also for problems that only the service can find", async () => {
    const [client] = seed.clients;
    expect(await problemsOf({ services: { "1": { name: "x", group: "nowhere" } } })).toEqual([
      expect.stringMatching(/^config\.seed\.services\.1: .*nowhere/),
    ]);
    expect(await problemsOf({ clients: [{ ...client, service: "9" }] })).toEqual([
      expect.stringMatching(/^config\.seed\.clients\[0\]: .*service.* is not known$/),
    ]);
    expect(await problemsOf({ accounts: [{ email: "a@b", password: "secret" }] })).toEqual([
      "config.seed.accounts[0]: a password must have at least 8 characters",
    ]);
    domain = domain.reopen({ production: true });
    expect(await problemsOf({ services: seed.services, groups: seed.groups, clients: [client] })).toEqual([
      "config.seed.clients[0]: client.client_secret: must have at least 32 characters",
    ]);
  });
});
