/** What people allow clients that nobody has registered, and how it ends: by themselves and by operators. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { isCurrent, currentGenerations } from "../../../provider/account.ts";
import type { Asked } from "../../../accounts/documents/documents.ts";
import { createAsking } from "../../../accounts/documents/asking.ts";
import { DOCUMENT, documentId, type StoredDocument } from "../../../records/directory/document-kinds.ts";
import { beforeTests } from "../../closing.ts";
import { openAdministration } from "../../administration/stage.ts";

const API = "https://articles.example";
const HOST = "agent.example.com";
const ADDRESS = `https://${HOST}/client.json`;
const CALLER = { actor: { kind: "command_line" } } as const;
const REDIRECTS = { redirect_uris: [`https://${HOST}/callback`] };

/** What every host answers. */
let answered = 500;

const stage = beforeTests(async () => {
  const opened = await openAdministration({
    clients: { metadataDocuments: { allow: "any" } },
    fetch: async () => new Response(null, { status: answered }),
    mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
  });
  const { accounts, directory, documents, services, storage } = opened;
  await directory.services.put("news", { name: "News" });
  await directory.apis.put(API, {
    name: "Articles",
    service: "news",
    scopes: { "articles:read": "Read your articles" },
    unregistered: ["articles:read"],
  });
  if (documents === undefined) throw new Error("it is off");
  const api = await storage.directory.findApi(API);
  if (api === undefined) throw new Error("there is no API");
  const { sub } = await accounts.create({ email: "ada@example.com", password: "correct horse battery" });
  async function allow(url = ADDRESS): Promise<void> {
    const client = await documents!.client(url);
    const account = await accounts.record(sub);
    if (client === undefined || account === undefined) throw new Error("it is gone");
    const { sessions_generation: sessionsGeneration } = account;
    const allowed = {
      client,
      api: api!,
      scopes: ["articles:read"],
      how: "https",
      sessionsGeneration,
    } as const;
    await accounts.allowDocument(sub, allowed, CALLER);
  }
  /** What codes and tokens of the client carry if they are issued now; a test of whether they are still valid. */
  async function issued(url = ADDRESS): Promise<() => Promise<boolean>> {
    const look = async () => [await accounts.record(sub), await documents!.client(url)] as const;
    const [account, client] = await look();
    if (account === undefined || client === undefined) throw new Error("it is gone");
    const generations = currentGenerations(account, client);
    return async () => {
      const [after, now] = await look();
      return (
        after !== undefined && now !== undefined && isCurrent(generations, after, now, services.configuration)
      );
    };
  }
  return { ...opened, documents, sub, allow, issued };
});

const keep = (url: string) =>
  stage.documents.keep(url, REDIRECTS, { fresh_until: stage.clock.now() + 60_000 });
const consents = async () => (await stage.accounts.record(stage.sub))?.consents ?? {};
const mails = async () => (await stage.storage.outbox.waiting()).count;

beforeEach(async () => {
  await keep(ADDRESS);
});

describe("what a person allows a client that nobody has registered", () => {
  it("is kept with its host, mailed at the first grant of the host, and replaced by the next [D-DOC-42, D-DOC-43]", async () => {
    const before = await mails();
    await stage.allow();
    expect(await mails()).toBe(before + 1);
    const id = documentId(ADDRESS);
    expect((await consents())[id]).toMatchObject({
      apis: { [API]: ["articles:read"] },
      document: { url: ADDRESS },
    });
    await keep(`https://${HOST}/other.json`);
    await stage.allow(`https://${HOST}/other.json`);
    await stage.allow();
    expect(await mails()).toBe(before + 1);
    const { items } = await stage.accounts.consents(stage.sub).then((all) => ({ items: all }));
    expect(items.filter(({ client }) => client === ADDRESS)).toMatchObject([{ name: HOST }]);
    const { items: audit } = await stage.calls.audit.list({ action: "account.consented" });
    expect(audit[0]).toMatchObject({ client: id, detail: { host: HOST } });
    // The person reads no hash.
    const data = await stage.accounts.data(stage.sub);
    expect(data.audit.find(({ action }) => action === "account.consented")).toMatchObject({ client: HOST });
    expect(data.audit.map(({ client }) => client)).not.toContain(id);
  });

  it("ends codes and tokens when the person ends it, for good [D-DOC-44]", async () => {
    await stage.allow();
    const isValid = await stage.issued();
    expect(await isValid()).toBe(true);
    stage.clock.advance(1_000);
    await stage.allow();
    expect(await isValid()).toBe(true);
    expect(await stage.accounts.endDocument(stage.sub, documentId(ADDRESS), CALLER)).toBe(true);
    expect(await isValid()).toBe(false);
    expect(await stage.accounts.endDocument(stage.sub, documentId(ADDRESS), CALLER)).toBe(false);
    stage.clock.advance(1_000);
    await stage.allow();
    expect(await isValid()).toBe(false);
  });

  it("is bounded: beyond a hundred, the one that was allowed first ends [D-DOC-45]", async () => {
    await stage.allow();
    const isValid = await stage.issued();
    for (let index = 0; index < 100; index++) {
      stage.clock.advance(1_000);
      await keep(`https://${HOST}/${index}.json`);
      await stage.allow(`https://${HOST}/${index}.json`);
    }
    expect(Object.keys(await consents())).toHaveLength(100);
    expect(await isValid()).toBe(false);
  });

  it("is forgotten when its last token has ended [D-DOC-42]", async () => {
    await stage.allow();
    stage.clock.advance(32 * 86_400_000);
    expect(await stage.accounts.consents(stage.sub)).toEqual([]);
    await keep(ADDRESS);
    await stage.allow();
    expect(Object.keys(await consents())).toEqual([documentId(ADDRESS)]);
  });
});

describe("a block", () => {
  it.each([ADDRESS, `https://${HOST}`])(
    "of %s ends codes and tokens in one commit, and what it ended stays ended [D-DOC-46]",
    async (blocked) => {
      const { calls, documents } = stage;
      await stage.allow();
      const isValid = await stage.issued();
      await calls.documents.block(blocked);
      expect(await isValid()).toBe(false);
      expect(await documents.client(ADDRESS)).toBeUndefined();
      expect(await documents.client(documentId(ADDRESS))).toBeUndefined();
      expect(await keep(ADDRESS)).toBeUndefined();
      await expect(calls.documents.find(ADDRESS)).resolves.toMatchObject({
        state: "blocked",
        blocked,
        host: HOST,
      });
      await calls.documents.unblock(blocked);
      await keep(ADDRESS);
      expect(await documents.client(ADDRESS)).toBeDefined();
      expect(await isValid()).toBe(false);
      await stage.allow();
      expect(await (await stage.issued())()).toBe(true);
      await expect(calls.documents.unblock(blocked)).rejects.toMatchObject({ code: "not_applicable" });
      const { items } = await calls.audit.list({ action: "document.blocked" });
      expect(items[0]).toMatchObject({ detail: { address: blocked } });
    },
  );

  it("meets a person who is about to allow: nobody allows a blocked client anything [D-DOC-46]", async () => {
    const client = await stage.documents.client(ADDRESS);
    await stage.calls.documents.block(ADDRESS);
    const account = await stage.accounts.record(stage.sub);
    const api = await stage.storage.directory.findApi(API);
    const sessionsGeneration = account!.sessions_generation;
    const allowed = {
      client: client!,
      api: api!,
      scopes: ["articles:read"],
      how: "https",
      sessionsGeneration,
    } as const;
    await expect(stage.accounts.allowDocument(stage.sub, allowed, CALLER)).rejects.toThrow("no longer known");
    await stage.calls.documents.unblock(ADDRESS);
  });

  it.each([
    "agent.example.com",
    "https://agent.example.com/?x",
    "http://agent.example.com/c.json",
    "https://u@a.example/c",
    "javascript:alert(1)",
    `https://a.example/${"a".repeat(600)}`,
    "",
  ])("takes an address or an origin, not %j [D-DOC-47]", async (address) => {
    await expect(stage.calls.documents.block(address)).rejects.toThrow(TypeError);
    await expect(stage.calls.documents.find(address)).resolves.toBeUndefined();
  });
});

it("ends with the tokens of the client alone, which operators name by its address [D-DOC-103]", async () => {
  const [one, other] = [`https://${HOST}/one.json`, `https://${HOST}/other.json`];
  for (const url of [one, other]) {
    await keep(url);
    await stage.allow(url);
  }
  const [isValid, isOther] = [await stage.issued(one), await stage.issued(other)];
  await stage.calls.accounts.revokeTokens(stage.sub, one);
  expect([await isValid(), await isOther()]).toEqual([false, true]);
  expect(Object.keys(await consents())).toContain(documentId(other));
  expect(Object.keys(await consents())).not.toContain(documentId(one));
  for (const wrong of ["http://agent.example.com/c.json", `https://${HOST}`, documentId(other)])
    await expect(stage.calls.accounts.revokeTokens(stage.sub, wrong)).rejects.toThrow(
      "address of a document",
    );
});

describe("the list", () => {
  it("has pages, each with one read of clients however many there are [D-DOC-102]", async () => {
    const { store } = stage.storage.records;
    const reads: string[] = [];
    const list = store.list.bind(store);
    store.list = async (queries) => {
      reads.push(...queries.flatMap(({ kind, limit }) => (kind === "document" ? [`${kind} ${limit}`] : [])));
      return list(queries);
    };
    const urls = Array.from({ length: 7 }, (_, index) => `https://page${index}.example.com/c.json`);
    for (const [index, url] of urls.entries()) {
      // Two came at the same time.
      if (index !== 3) stage.clock.advance(1);
      await keep(url);
      await stage.allow(url);
    }
    await stage.calls.documents.block("https://page1.example.com");
    await stage.calls.documents.block("https://zzz.example");
    const seen: string[] = [];
    let after: string | undefined;
    do {
      reads.length = 0;
      const page = await stage.calls.documents.list({ limit: 2, ...(after !== undefined && { after }) });
      expect([page.items.length <= 2, reads.length <= 1]).toEqual([true, true]);
      seen.push(...page.items.map(({ address }) => address));
      after = page.next ?? undefined;
    } while (after !== undefined);
    store.list = list;
    expect(seen.toSorted()).toEqual([...new Set(seen)].toSorted());
    expect(seen).toEqual(expect.arrayContaining([...urls, "https://zzz.example"]));
    expect(seen.slice(0, 3)).toEqual([urls[6], urls[5], urls[4]]);
    expect((await stage.calls.documents.find(urls[1]!))?.state).toBe("blocked");
    for (const wrong of ["x", "1.x", "12.document:", "0 1", "https://", "1e9.document:x"])
      await expect(stage.calls.documents.list({ after: wrong })).rejects.toThrow("must be `next`");
    for (const url of ["https://page1.example.com", "https://zzz.example"])
      await stage.calls.documents.unblock(url);
  });

  it("has who was here, and what is blocked [D-DOC-47]", async () => {
    await stage.allow();
    await stage.calls.documents.block("https://bad.example");
    const { items } = await stage.calls.documents.list();
    const found = items.find(({ address }) => address === ADDRESS);
    expect(found).toMatchObject({
      host: HOST,
      state: "allowed",
      people: 1,
      called_apis: [API],
      redirect_uris: REDIRECTS.redirect_uris,
    });
    const blocked = await stage.calls.documents.list({ state: "blocked" });
    expect(blocked.items.map(({ address, blocked: what }) => [address, what])).toEqual([
      ["https://bad.example", "https://bad.example"],
    ]);
  });
});

it.each([
  ["strangers", () => undefined],
  ["signed-in accounts", (index: number) => `account${index}`],
])(
  "%s make it ask 300 addresses in an hour, however many hosts and networks they have [D-DOC-105]",
  async (_who, subOf) => {
    answered = 404;
    const ask = (index: number): Promise<Asked> =>
      stage.documents.ask(`https://flood${index}.example.net/c.json`, {
        sub: async () => subOf(index),
        address: `198.51.${index >> 8}.${index & 255}`,
      });
    const kinds: string[] = [];
    for (let index = 0; index < 310; index += 1) kinds.push((await ask(index)).kind);
    // Others of this file have asked in this hour, too.
    expect(kinds.indexOf("wait")).toBeGreaterThan(250);
    expect(kinds.slice(300)).toEqual(Array.from({ length: 10 }, () => "wait"));
    // A copy that counts goes on.
    await keep(ADDRESS);
    const asker = { sub: async () => undefined, address: "198.51.100.1" };
    expect((await stage.documents.ask(ADDRESS, asker)).kind).toBe("client");
    stage.clock.advance(3_601);
    expect((await ask(400)).kind).toBe("fault");
  },
);

describe("the daily look at documents", () => {
  const { signal } = new AbortController();

  it.each([
    [404, false],
    [410, false],
    [500, true],
  ])(
    "that are answered with %i on seven days leaves what they have: %s [D-DOC-82]",
    async (status, isLeft) => {
      answered = status;
      await stage.allow();
      const isValid = await stage.issued();
      for (let day = 0; day < 7; day += 1) {
        expect([day, await isValid()]).toEqual([day, true]);
        stage.clock.advance(86_400);
        // A day counts once.
        for (let pass = 0; pass < 2; pass += 1) await stage.documents.refreshDue(signal);
      }
      expect(await isValid()).toBe(isLeft);
    },
  );

  it("removes the copies without a grant that are beyond the newest ones [D-DOC-83]", async () => {
    answered = 500;
    const urls = [1, 2, 3, 4].map((each) => `https://unused.example.com/${each}.json`);
    for (const url of urls) {
      stage.clock.advance(1);
      await keep(url);
    }
    const { configuration } = stage.services;
    const { storage, clock, documents } = stage;
    const nothing = {} as never;
    const events = { emit: () => undefined } as never;
    const asking = createAsking(
      { configuration, storage, clock, limits: nothing, events, telemetry: undefined },
      { allow: "any", schemes: [] },
      { ...documents, end: nothing, look: nothing },
      2,
    );
    await asking.refreshDue(signal);
    const left = await storage.records.list<StoredDocument>(DOCUMENT.where("kept", "unused"));
    expect(left.map(({ value }) => value.url).toSorted()).toEqual(urls.slice(2));
  });
});
