/** Seeds without secrets, as `seed export` writes them. */
import { generateKeyPairSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { openReceiver } from "../../accounts/receivers.ts";
import { applySeed, checkSeed, type Seed } from "../../lib/seed.ts";
import { openDomain, type Domain } from "../accounts/open-domain.ts";

const receiver = {
  url: "http://127.0.0.1:4000/g",
  client_id: "g",
  client_secret: "s",
  types: ["DELETE_ACCOUNT", "PROFILE_CHANGED"],
} as const;
const SECRET = "news-secret-news-secret";
const signing_secret = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
});

/** What the log says at the start with a seed, from warnings on. */
async function saidBy(seed: Seed): Promise<readonly string[]> {
  const lines: string[] = [];
  const logger = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  await applySeed({ ...domain, logger }, seed);
  return lines.map((line) => (JSON.parse(line) as { readonly msg: string }).msg);
}

/** Which of these secrets the client has. */
async function secretsOf(...secrets: readonly string[]): Promise<unknown[]> {
  const record = await domain.clients.record("news");
  return secrets.map((secret) => domain.clients.secretMatches(record, secret));
}

/** The receiver of the service with its secrets. */
async function opened(): Promise<unknown> {
  const [entry] = await domain.storage.directory.listEntries("service");
  return entry?.receiver && openReceiver(domain.sealer, "service", "1", entry.receiver);
}

/** Everything that a seed writes, with what is sealed. */
async function everything(): Promise<string> {
  const { directory, audit } = domain.storage;
  const [clients, services] = [await directory.listClients(), await directory.listEntries("service")];
  return JSON.stringify([clients, services, await audit.list({ limit: 1000 })]);
}

/** The service with a receiver. */
const services = (named: NonNullable<Seed["services"]>[string]["receiver"]): Seed["services"] => ({
  "1": { name: "News", receiver: named },
});

describe("a seed with null in place of a secret", () => {
  const client = {
    client_id: "news",
    client_secret: null,
    redirect_uris: ["http://127.0.0.1:3001/callback"],
    service: "1",
  };
  const withoutSecret = { ...receiver, client_secret: null };

  it("leaves the secrets of what exists [D-ADM-189, D-ADM-190]", async () => {
    const clients = [{ ...client, client_secret: SECRET }];
    await applySeed(domain, { services: services({ ...receiver, signing_secret }), clients });
    const before = await everything();
    expect(await saidBy({ services: services(withoutSecret), clients: [client] })).toEqual([]);
    expect(await everything()).toBe(before);
    const moved = { ...withoutSecret, url: "http://127.0.0.1:4000/moved" };
    await applySeed(domain, { services: services(moved) });
    expect(await opened()).toEqual({ ...receiver, url: moved.url, signing_secret });
    expect(await secretsOf(SECRET)).toEqual(["chosen"]);
  });

  it("never takes the secrets of a receiver to another origin [D-ADM-190]", async () => {
    await applySeed(domain, { services: services(receiver) });
    const elsewhere = { services: services({ ...withoutSecret, url: "http://127.0.0.1:4001/g" }) };
    const warning = expect.stringContaining("seed: without credentials: service 1 (");
    expect(await saidBy(elsewhere)).toEqual([warning]);
    await expect(opened()).rejects.toMatchObject({ code: "unusable_secrets" });
    // Nor back.
    expect(await saidBy({ services: services(withoutSecret) })).toEqual([warning]);
    await expect(opened()).rejects.toMatchObject({ code: "unusable_secrets" });
    const before = await everything();
    expect(await saidBy({ services: services(withoutSecret) })).toEqual([warning]);
    expect(await everything()).toBe(before);
    expect(await saidBy({ services: services(receiver) })).toEqual([]);
    expect(await opened()).toEqual(receiver);
  });

  it("makes a client whose secret nobody knows, and a receiver that waits for its credentials [D-ADM-189, D-ADM-190]", async () => {
    expect(await saidBy({ services: services(withoutSecret), clients: [client] })).toEqual([
      expect.stringContaining("seed: without credentials: service 1, client news ("),
    ]);
    expect(await secretsOf(SECRET, "", "null")).toEqual([undefined, undefined, undefined]);
    const { client_secret } = await domain.clients.rotateSecret("news");
    expect(await saidBy({ clients: [client] })).toEqual([]);
    expect(await secretsOf(client_secret)).toEqual(["generated"]);
  });

  it("has to say null, and nothing beside it [D-ADM-189, D-ADM-190]", () => {
    const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwks = { keys: [publicKey.export({ format: "jwk" })] };
    const { client_secret: _client, ...noSecret } = client;
    const { client_secret: _receiver, ...noPassword } = receiver;
    const seed = {
      portals: { main: { name: "M", receiver: { ...withoutSecret, signing_secret } } },
      services: { "1": { name: "N", receiver: noPassword } },
      clients: [noSecret, { ...client, jwks }],
    };
    expect(() => checkSeed(seed)).toThrow(
      expect.objectContaining({
        problems: [
          "config.seed.portals.main.receiver.signing_secret: must not be set when client_secret is null",
          expect.stringContaining("config.seed.services.1.receiver.client_secret: "),
          "config.seed.clients[0].client_secret: is required",
          "config.seed.clients[1].jwks: must not be set together with client_secret",
        ],
      }),
    );
  });
});
