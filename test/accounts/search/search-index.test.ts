/** The index of the search: what a change writes, and that it finds everybody, on each storage. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Commit, RecordData } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { databaseFile } from "../../../config/storage-address.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { SEARCH_INDEX, SEARCH_WORDS } from "../../../records/directory/search-kinds.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { buildSearchIndex, isIndexComplete, openSearchIndex } from "../../../accounts/search/search-index.ts";
import { BACKENDS, type Ground } from "../../adapters/backends.ts";
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
              ?.index?.map(({ at }) => at);
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

  it("writes at most four rows for each word that it changes, and none without one [D-ADM-174]", async () => {
    const { sub } = await domain.accounts.create({ email: "ada.lovelace@example.com", surname: "Lovelace" });
    // ada, lovelace, example, com, the address; Lovelace.
    expect(added.length).toBeLessThanOrEqual(4 * 6);
    for (const [change, words] of CHANGES) {
      await domain.accounts.update(sub, change);
      expect([change, added.length <= 4 * words]).toEqual([change, true]);
    }
    await domain.accounts.disable(sub);
    await domain.accounts.setPassword(sub, "correct horse battery");
    expect(added).toEqual([]);
  });
});

const USERS = 30;

describe.each(BACKENDS.filter(({ name }) => name !== "Redis"))("the index in $name", (backend) => {
  let ground: Ground;
  let address: string;
  let storage: Storage;
  let domain: Domain;
  beforeAll(async () => {
    ground = await backend.start();
    address = await ground.newAddress();
    storage = closing(await openStorage({ storage: address, artifacts: address, clock }));
    domain = await openDomain({ storage: () => storage });
  });
  afterAll(() => ground.close());

  it("follows what happens to an account [D-ADM-175]", async () => {
    await openSearchIndex(storage.records);
    const { sub } = await domain.accounts.create({ email: "ada@example.com", surname: "Lovelace" });
    const { sub: other } = await domain.accounts.create({ email: "grace@example.com", surname: "Hopper" });
    await domain.accounts.update(sub, { surname: "King", username: "countess" });
    await expect(
      domain.accounts.update(other, { username: "COUNTESS", surname: "Murray" }),
    ).rejects.toThrow();
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
    expect(await storage.records.all(SEARCH_WORDS.name)).toHaveLength(1);
  });
});
void [
  ACCOUNT,
  SEARCH_INDEX,
  randomUUID,
  readFileSync,
  databaseFile,
  buildSearchIndex,
  isIndexComplete,
  USERS,
];
