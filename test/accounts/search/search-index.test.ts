/** The index of the search: what a change writes, and that it finds everybody, on each storage. */
import { hash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { buildSearchIndex, isIndexComplete, openSearchIndex } from "../../../accounts/search/search-index.ts";
import { searchRecord } from "../../../accounts/search/search-words.ts";
import type { Commit, RecordData } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import {
  CURRENT_INDEX,
  SEARCH_WORDS,
  type StoredSearchWords,
} from "../../../records/directory/search-kinds.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { BACKENDS, type Ground } from "../../adapters/backends.ts";
import { DatabaseFiles } from "../../adapters/sqlite/database-files.ts";
import { closing } from "../../closing.ts";
import { codeOf, type Domain, openDomain, withCommit } from "../open-domain.ts";

const clock = createSystemClock();

const found = async ({ accounts }: Domain, search: string): Promise<string[]> =>
  (await accounts.list({ search })).items.map(({ email }) => email);

describe("a search among many", () => {
  let domain: Domain;
  beforeAll(async () => {
    domain = await openDomain();
    for (let n = 1; n <= 1_000; n += 1)
      await domain.accounts.create({ email: `info@n${n}.example`, surname: `Info${n}` });
  });

  it("looks through 1,000 candidates, and shows none of 1,001 [D-ADM-173]", async () => {
    const first = await domain.accounts.list({ search: "inf", limit: 200 });
    expect([first.items.length, first.next]).toEqual([200, "200"]);
    expect(await found(domain, "exam info999")).toEqual(["info@n999.example"]);
    await domain.accounts.create({ email: "info@other.example", username: "example" });
    expect(await codeOf(domain.accounts.list({ search: "inf" }))).toBe("search_too_wide");
    expect(await codeOf(domain.accounts.list({ search: "inf exa", after: "3" }))).toBe("search_too_wide");
    expect(await codeOf(domain.accounts.list({ search: "inf", service: "news" }))).toBe("search_too_wide");
    // A word with fewer, the whole text, or a whole name.
    expect(await found(domain, "inf oth")).toEqual(["info@other.example"]);
    expect(await found(domain, "info@ot")).toEqual(["info@other.example"]);
    expect(await found(domain, "example")).toEqual(["info@other.example"]);
    expect(await found(domain, "info@n7.example")).toEqual(["info@n7.example"]);
  });

  it("lists by a filter in pages of bounded work, the last of which has no next [D-ADM-172]", async () => {
    const last = await domain.accounts.findByLogin("info@other.example");
    await domain.accounts.disable(last!.sub);
    const first = await domain.accounts.list({ disabled: true, limit: 5 });
    expect([first.items, first.next]).toEqual([[], "1000"]);
    const second = await domain.accounts.list({ disabled: true, limit: 5, after: "1000" });
    expect([second.items.length, second.next]).toEqual([1, null]);
  });
});

describe("a change of an account", () => {
  /** The entries that a commit adds to the index of the search, of those that the account had. */
  let added: string[];
  let had: readonly string[] = [];
  let domain: Domain;
  beforeAll(async () => {
    domain = await openDomain({
      storage: (storage) =>
        withCommit(
          storage,
          async ({ put = [] }: Commit) => {
            const words = put
              .find(({ kind }: RecordData) => kind === SEARCH_WORDS.name)
              ?.index?.map(({ at, order }) => `${at} ${order}`);
            added = words?.filter((at) => !had.includes(at)) ?? [];
            had = words ?? had;
          },
          ACCOUNT,
        ),
    });
  });

  /** The fields that change, and how many words of them are new, with the whole fields. */
  const CHANGES = [
    [{ surname: "Hopper" }, 1],
    [{ name: "Grace", gender: "female", email_verified: true }, 0],
    [{ surname: "HOPPER" }, 0],
    [{ surname: "Hopper-Murray" }, 2],
    [{ email: "ada.lovelace@example.org" }, 2],
    [{ email: "ada.king@example.org" }, 2],
    [{ username: "an_unusually_long_username" }, 5],
    [{ surname: null }, 0],
    [{ surname: "aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd eeeeeeeeee ffffffffff gggggggggg" }, 7],
  ] as const;

  it("writes at most four rows for each word that it changes, and none without one [D-ADM-174, D-ADM-309]", async () => {
    const { sub } = await domain.accounts.create({ email: "ada.lovelace@example.com", surname: "Lovelace" });
    // Lovelace, example and com; the address, which begins with ada; the surname.
    expect(added).toHaveLength(5);
    for (const [change, words] of CHANGES) {
      await domain.accounts.update(sub, change);
      expect([change, added.length <= words]).toEqual([change, true]);
    }
    await domain.accounts.disable(sub);
    await domain.accounts.setPassword(sub, "correct horse battery");
    expect(added).toEqual([]);
    // Four words that begin alike: the second to the fourth have rows for their longer beginnings.
    await domain.accounts.update(sub, { surname: "Anna Annabella Anneliese Annunziata" });
    expect(added.length).toBeLessThanOrEqual(1 + 3 * 3);
  });
});

/** Whether each account has the words that it should have, and nothing else has. */
async function flaws({ storage, keys }: Domain): Promise<string[]> {
  const { records } = storage;
  const accounts = await records.all<AccountRecord>(ACCOUNT.name);
  const words = await records.all<StoredSearchWords>(SEARCH_WORDS.name);
  const own = new Map(words.map((each) => [each.sub, each]));
  return [
    ...accounts
      .filter((account) => !isDeepStrictEqual(searchRecord(account, keys.search).value, own.get(account.sub)))
      .map(({ sub }) => `wrong ${sub}`),
    ...words
      .filter(({ sub }) => accounts.every((account) => account.sub !== sub))
      .map(({ sub }) => `left ${sub}`),
  ];
}

const ACCOUNTS = 130;

describe.each(BACKENDS.filter(({ name }) => name !== "Redis"))("the index in $name", (backend) => {
  let ground: Ground;
  let storage: Storage;
  let domain: Domain;
  let subs: string[];
  beforeAll(async () => {
    ground = await backend.start();
    const address = await ground.newAddress();
    storage = closing(await openStorage({ storage: address, artifacts: address, clock }));
    domain = await openDomain({ storage: () => storage });
  });
  afterAll(() => ground.close());

  it("follows what happens to an account [D-ADM-175]", async () => {
    expect(await openSearchIndex(storage.records)).toBe(true);
    const { sub } = await domain.accounts.create({ email: "ada@example.com", surname: "Lovelace" });
    const { sub: other } = await domain.accounts.create({ email: "grace@example.com", surname: "Hopper" });
    await domain.accounts.update(sub, { surname: "King", username: "countess" });
    await expect(
      domain.accounts.update(other, { username: "COUNTESS", surname: "Murray" }),
    ).rejects.toMatchObject({ code: "name_taken" });
    const finds = async (...typed: string[]): Promise<string[]> => {
      const all: string[] = [];
      for (const each of typed) all.push(...(await found(domain, each)));
      return all;
    };
    expect(await finds("lovel", "murr")).toEqual([]);
    expect(await finds("kin", "count", "exam", "hopp")).toEqual([
      "ada@example.com",
      "ada@example.com",
      "ada@example.com",
      "grace@example.com",
      "grace@example.com",
    ]);
    await domain.accounts.delete(sub);
    expect(await finds("kin", "count", "ada")).toEqual([]);
    expect([(await storage.records.all(SEARCH_WORDS.name)).length, await flaws(domain)]).toEqual([1, []]);
  });

  /** The storage as an earlier version has left it. */
  async function forgetIndex(): Promise<void> {
    const words = await storage.records.all<StoredSearchWords>(SEARCH_WORDS.name);
    const refs = [CURRENT_INDEX, ...words.map(({ sub }) => SEARCH_WORDS.ref(sub))];
    for (let at = 0; at < refs.length; at += 10)
      await storage.records.store.commit({
        id: randomUUID(),
        deadline: clock.now() + 60_000,
        remove: refs.slice(at, at + 10),
      });
  }

  interface RunOptions {
    /** Before each commit of words. */
    readonly beforeCommit?: () => Promise<void>;
    readonly onProgress?: (done: number) => void;
    readonly signal?: AbortSignal;
  }
  /** What `storage reindex` does, in another process. */
  function reindex({ beforeCommit, onProgress = () => undefined, signal }: RunOptions = {}): Promise<number> {
    const watched = withCommit(storage, async () => beforeCommit?.(), SEARCH_WORDS);
    return buildSearchIndex(watched, domain.keys.search, {
      signal: signal ?? new AbortController().signal,
      onProgress,
      event: { actor: { kind: "command_line" }, action: "storage.reindexed" },
    });
  }

  it("is built beside a service that changes the same accounts [D-ADM-176]", async () => {
    subs = [];
    for (let n = 0; n < ACCOUNTS; n += 1)
      subs.push(
        (await domain.accounts.create({ email: `person${n}@many.example`, surname: `Before${n}` })).sub,
      );
    await forgetIndex();
    expect(await openSearchIndex(storage.records)).toBe(false);
    let changes = 0;
    const change = async (): Promise<void> => {
      changes += 1;
      // Accounts of the page that is being written, whichever it is, and others.
      for (const sub of subs.splice(0, 5)) await domain.accounts.delete(sub);
      for (const [index, sub] of subs.entries())
        if (index % 10 === changes % 10) await domain.accounts.update(sub, { surname: `After${changes}` });
      subs.push((await domain.accounts.create({ email: `new${changes}@many.example` })).sub);
    };
    await reindex({ beforeCommit: async () => (changes < 4 ? change() : undefined) });
    expect(changes).toBe(4);
    expect([await flaws(domain), await isIndexComplete(storage.records)]).toEqual([[], true]);
    expect((await domain.accounts.list({ search: "after", limit: 1 })).items).toHaveLength(1);
    const { records } = await storage.audit
      .list({ action: "storage.reindexed", limit: 10 })
      .then(({ items }) => ({ records: items }));
    expect(records).toMatchObject([
      { actor: { kind: "command_line" }, detail: { accounts: expect.any(Number) } },
    ]);
  });

  it("says that it lacks accounts instead of finding too few, and continues where a run was stopped [D-ADM-177]", async () => {
    await forgetIndex();
    const stop = new AbortController();
    const onProgress = (done: number): void => (done > 0 ? stop.abort() : undefined);
    await expect(reindex({ onProgress, signal: stop.signal })).rejects.toThrow("aborted");
    const [first] = await storage.records.all<StoredSearchWords>(SEARCH_WORDS.name);
    expect(await codeOf(domain.accounts.list({ search: "person" }))).toBe("search_incomplete");
    const { email } = (await domain.accounts.find(first!.sub))!;
    expect(await found(domain, email)).toEqual([email]);
    // A change meanwhile writes its words, and a whole name finds it.
    await domain.accounts.update(subs.at(-1)!, { username: "unmistakable" });
    expect(await found(domain, "UNMISTAKABLE")).toEqual([(await domain.accounts.find(subs.at(-1)!))!.email]);
    const seen: number[] = [];
    const total = await reindex({ onProgress: (done) => void seen.push(done) });
    expect([seen[0], total]).toEqual([100, (await storage.records.all(ACCOUNT.name)).length]);
    expect([await flaws(domain), await isIndexComplete(storage.records)]).toEqual([[], true]);
    // Once more, from the beginning, on an index that stays complete: nothing is written.
    let commits = 0;
    await reindex({
      beforeCommit: async () => void (commits += 1),
      onProgress: (done) => void seen.push(done),
    });
    expect(commits).toBe(0);
  });
});

it("no readable name is in the index of a database file [D-ADM-178]", async () => {
  const files = new DatabaseFiles();
  const file = files.next();
  const storage = closing(
    await openStorage({ storage: `sqlite:${file}`, artifacts: `sqlite:${file}`, clock }),
  );
  const domain = await openDomain({ storage: () => storage });
  const person = {
    email: "zyxwvuts.ponmlkj@quokka.example",
    username: "wombatherder",
    surname: "Numbat-Bilby",
  };
  const { sub } = await domain.accounts.create(person);
  // What is left of the account is not what this is about.
  await storage.records.store.commit({
    id: randomUUID(),
    deadline: clock.now() + 60_000,
    put: [
      ACCOUNT.record({ ...(await domain.accounts.record(sub))!, email: "", username: null, surname: null }),
    ],
  });
  // Without what pages still hold of the account.
  const copy = files.next();
  const database = new DatabaseSync(file);
  database.prepare("VACUUM INTO ?").run(copy);
  database.close();
  const text = readFileSync(copy, "latin1").toLowerCase();
  expect(text).toContain("search-words");
  for (const word of ["zyx", "pon", "quo", "womba", "numba", "bilb"]) {
    expect([word, text.includes(word)]).toEqual([word, false]);
    // Nor a hash that others can make.
    for (const field of ["", "email\0", "username\0", "surname\0"])
      expect(text).not.toContain(
        hash("sha256", field + word, "base64url")
          .slice(0, 8)
          .toLowerCase(),
      );
  }
});
