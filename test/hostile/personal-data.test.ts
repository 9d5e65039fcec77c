/** What people and clients have sent is nowhere in plain text while sign-ins, registrations and resets are under way. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Redis } from "ioredis";
import { TELEVISION } from "../flows/devices.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  type RunningService,
  startService,
  UNLIMITED,
  VAULT,
} from "../flows/running-service.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { everythingIn, type Kept } from "../cli/stage.ts";
import { openMongoServer } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { Secrets } from "./secrets-in-text.ts";

/** A server, or a folder, in which something is stored. */
interface Store {
  /** An empty one. */
  readonly url: string;
  /** Everything in it, as it is there. */
  text(): Promise<string>;
  close(): Promise<void>;
}

/** Each kind of store, and how to read it without the service. */
const STORES = {
  async sqlite(): Promise<Store> {
    const folder = mkdtempSync(join(tmpdir(), "sign-in-personal-"));
    return {
      url: `sqlite:${join(folder, "sign-in.db")}`,
      async text() {
        const files = readdirSync(folder).filter((name) => /^sign-in\.db(?!\.keys)/u.test(name));
        return files.map((name) => readFileSync(join(folder, name), "latin1")).join("\n");
      },
      close: async () => rmSync(folder, { recursive: true }),
    };
  },

  async postgresql(): Promise<Store> {
    const postgres = await openOwnPostgres();
    const url = await postgres.newDatabase();
    return {
      url,
      async text() {
        const file = join(postgres.folder, "dump.sql");
        postgres.run("pg_dump", ["--dbname", url, "--data-only", "--file", file]);
        return unescaped(readFileSync(file, "latin1"));
      },
      close: () => postgres.close(),
    };
  },

  async mongodb(): Promise<Store> {
    const mongo = await openMongoServer();
    const url = mongo.nextUrl();
    return {
      url,
      async text() {
        const database = mongo.client.db(new URL(url).pathname.slice(1));
        const texts: string[] = [];
        for (const { collectionName } of await database.collections()) {
          const documents = database.collection(collectionName).find({}, { raw: true });
          // With `raw`, a document is its bytes.
          for await (const bytes of documents) texts.push((bytes as unknown as Buffer).toString("latin1"));
        }
        return unescaped(texts.join("\n"));
      },
      close: () => mongo.close(),
    };
  },

  async redis(): Promise<Store> {
    const redis = await openOwnRedis();
    return { url: redis.url, text: () => contentsOf(redis.client), close: () => redis.close() };
  },
} as const;

/** Everything in a Redis as text. */
async function contentsOf(client: Redis): Promise<string> {
  const texts: unknown[] = [];
  for (const key of await client.keys("*")) {
    const type = await client.type(key);
    const read =
      type === "hash"
        ? client.hgetall(key)
        : type === "set"
          ? client.smembers(key)
          : type === "zset"
            ? client.zrange(key, "0", "-1")
            : client.get(key);
    texts.push(key, await read);
  }
  return unescaped(JSON.stringify(texts));
}

/** Quotes in JSON, and backslashes in a dump, would hide a value. */
const unescaped = (text: string): string => text.replaceAll("\\", "");

/** An address: nothing that is stored elsewhere than in the storage of accounts may look like one. */
const ADDRESS = /[\w.+-]+@[\w-]+\.\w+/u;

/** The kinds that may be in a store of their own. */
const ARTIFACT_KINDS = KINDS.all.filter(({ declaration }) => declaration.store === "artifacts");

/** The step of somebody at this client. */
async function at(
  url: string,
): Promise<{ visitor: JsonVisitor; step: Awaited<ReturnType<JsonVisitor["open"]>>["body"] }> {
  const visitor = new JsonVisitor();
  return { visitor, step: (await visitor.open(url)).body };
}

/** Where a service keeps things, and what was sent to it. */
interface Place {
  /** Of the storage, then of the artifacts, if those are elsewhere. */
  readonly stores: readonly Store[];
  readonly running: RunningService;
  /** What nobody has confirmed, or nobody needs: it is in no store. */
  readonly entered: Secrets;
  /** What the accounts have: it is where accounts are, and not where artifacts are. */
  readonly known: Secrets;
}

/** A service in which sign-ins, registrations and resets have come halfway. */
async function halfway(names: readonly (keyof typeof STORES)[]): Promise<Place> {
  const stores = await Promise.all(names.map((name) => STORES[name]()));
  const [storage, artifacts] = stores;
  const [entered, known] = [new Secrets(), new Secrets()];
  const running = await startService({
    config: {
      storage: storage?.url ?? "",
      // Whatever TEST_STORAGE says.
      artifacts: (artifacts ?? storage)?.url ?? "",
      ...(names[0] !== "sqlite" && { keys: { secrets: [randomBytes(32).toString("base64")] } }),
      rateLimits: UNLIMITED,
      // Mail stays where it waits.
      notifications: { worker: false },
      mail: async () => undefined,
      interactions: {
        registration: {
          fields: { username: "required", name: "required", surname: "required", date_of_birth: "required" },
        },
      },
    },
  });
  const news = clientAt(running, "openid", NEWS);
  await running.service.clients.register(TELEVISION);
  await running.service.clients.register({ ...VAULT, kind: "web" });
  for (const [name, { email, password }] of Object.entries({ ada: ADA, bob: BOB })) {
    known.add(`address of ${name}`, email);
    entered.add(`password of ${name}`, password);
  }
  known.add("surname of ada", ADA.surname ?? "");

  // A finished sign-in. Another browser sends its ID token and an address as hints.
  const { id_token } = await news.signIn(ADA, { scope: "openid email" });
  const hint = entered.add("login_hint", "hinted.person@example.org");
  await news.browser().get(
    news.authorizeUrl({
      scope: "openid",
      prompt: "login",
      login_hint: hint,
      id_token_hint: entered.add("id_token_hint", id_token),
    }),
  );
  await news.post("/oauth2/par", {
    client_id: NEWS.client_id,
    response_type: "code",
    redirect_uri: news.redirect_uri,
    scope: "openid",
    login_hint: entered.add("pushed login_hint", "pushed.person@example.org"),
  });
  await clientAt(running, "openid", TELEVISION).deviceCodes({
    login_hint: entered.add("login_hint of a device", "device.person@example.org"),
  });

  // A wrong name, a reset that waits for its code, and a registration that does.
  const wrong = await at(news.authorizeUrl());
  await wrong.visitor.act(wrong.step, "submit", {
    username: entered.add("a name without an account", "nobody.here@example.org"),
    password: entered.add("a wrong password", "a wrong password of nobody"),
  });
  const reset = await at(news.authorizeUrl());
  const asked = await reset.visitor.act(reset.step, "forgot-password");
  const waiting = await reset.visitor.act(asked.body, "submit", { username: BOB.email });
  expect(waiting.body.step).toBe("new-password");
  const fresh = await at(news.authorizeUrl());
  const form = await fresh.visitor.act(fresh.step, "register");
  const registered = await fresh.visitor.act(form.body, "submit", {
    email: entered.add("registered address", "newcomer.person@example.org"),
    password: entered.add("registered password", "a lighthouse of a newcomer"),
    username: entered.add("registered username", "newcomer-username"),
    name: entered.add("registered name", "Newcomername"),
    surname: entered.add("registered surname", "Newcomersurname"),
    date_of_birth: entered.add("date of birth", "1971-03-17"),
  });
  expect(registered.body.step).toBe("confirm-email");

  // A first factor that waits for the code to the address, and a change of address that waits for its own.
  const vault = await at(clientAt(running, "openid", VAULT).authorizeUrl({ scope: "openid" }));
  const { username, password } = BOB;
  const guarded = await vault.visitor.act(vault.step, "submit", { username, password });
  expect(guarded.body.step).toBe("enrol-confirm");
  const browser = await new Browser().get(`${running.openid}/account/email`);
  await signIn(browser, ADA);
  await browser.click("Change email address");
  await browser.submit(browser.form("email"), {
    email: entered.add("a new address", "another.ada@example.org"),
  });
  return { stores, running, entered, known };
}

/** Records as text. A parent is a record of its own. */
const textOf = (records: readonly Kept[]): string =>
  JSON.stringify(records.map(({ parent: _parent, ...record }) => record));

/** What a service stores in each kind of record, as text. */
async function kindsOf({ stores: [storage, artifacts] }: Place): Promise<Map<string, string>> {
  const everything = await everythingIn({
    storage: storage?.url ?? "",
    ...(artifacts !== undefined && { artifacts: artifacts.url }),
  });
  return new Map(Object.entries(everything).map(([kind, records]) => [kind, textOf(records)]));
}

/** Which kinds hold some of this. */
const kindsWith = (kinds: ReadonlyMap<string, string>, some: Secrets): string[] =>
  [...kinds].filter(([, text]) => some.in(text).length > 0).map(([kind]) => kind);

describe.each([
  [["sqlite", "redis"]],
  [["sqlite"]],
  [["postgresql", "redis"]],
  [["postgresql"]],
  [["mongodb", "redis"]],
  [["mongodb"]],
] as const)("halfway through every flow, in %j", (names) => {
  let place: Place;

  beforeAll(async () => {
    place = await halfway(names);
  }, 60_000);
  afterAll(async () => {
    await place.running.close();
    for (const store of place.stores) await store.close();
  });

  it("what people and clients have entered is nowhere", async () => {
    for (const store of place.stores) {
      const text = await store.text();
      expect(text).toContain(place.running.ada.sub);
      expect(place.entered.in(text)).toEqual([]);
    }
  });

  it("names and addresses are only where accounts are", async () => {
    const [storage = "", artifacts] = await Promise.all(place.stores.map((store) => store.text()));
    expect(place.known.in(storage)).toEqual(["address of ada", "address of bob", "surname of ada"]);
    expect(kindsWith(await kindsOf(place), place.known)).toEqual(["account"]);
    if (artifacts !== undefined) expect(artifacts).not.toMatch(ADDRESS);
  });

  it("what is not kept for long names accounts by their sub", async () => {
    const kinds = await kindsOf(place);
    for (const { name } of ARTIFACT_KINDS) expect(kinds.get(name)).not.toMatch(ADDRESS);
    for (const name of ["interaction", "session", "pushed-authorization-request", "device-code"])
      expect([name, kinds.get(name)]).toEqual([name, expect.stringMatching(/^\[\{/u)]);
  });
});
