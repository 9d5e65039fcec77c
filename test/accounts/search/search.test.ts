/** Finding people by the beginnings of their names, on each storage. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { NewAccount } from "../../../accounts/account-schema.ts";
import type { AccountFilter } from "../../../accounts/operations/accounts.ts";
import { openSearchIndex } from "../../../accounts/search/search-index.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { openStorage } from "../../../records/storage.ts";
import { BACKENDS, type Ground } from "../../adapters/backends.ts";
import { DatabaseFiles } from "../../adapters/sqlite/database-files.ts";
import { closing } from "../../closing.ts";
import { codeOf, type Domain, openDomain } from "../open-domain.ts";

const clock = createSystemClock();
let domain: Domain;

/** Redis holds the artifacts of a storage, never the accounts. */
const PLACES = BACKENDS.map(({ name, start }) => ({
  name: name === "Redis" ? "an SQLite file beside Redis" : name,
  start,
  isBeside: name === "Redis",
}));

async function open(artifacts: string, isBeside: boolean): Promise<void> {
  const storage = isBeside ? `sqlite:${new DatabaseFiles().next()}` : artifacts;
  const opened = closing(await openStorage({ storage, artifacts, clock }));
  await openSearchIndex(opened.records);
  domain = await openDomain({ storage: () => opened });
}

/** Creates accounts without passwords. */
async function create(...accounts: readonly NewAccount[]): Promise<void> {
  for (const each of accounts) await domain.accounts.create(each);
}

/** The addresses of all accounts that a search finds. Each page is full or the last one. */
async function found(filter: AccountFilter, limit = 100): Promise<string[]> {
  const emails: string[] = [];
  for (let after: string | null | undefined; after !== null;) {
    const page = await domain.accounts.list({ ...filter, limit, ...(after !== undefined && { after }) });
    emails.push(...page.items.map(({ email }) => email));
    expect([page.next, page.items.length]).toEqual([
      page.next,
      page.next === null ? page.items.length : limit,
    ]);
    after = page.next;
  }
  return emails;
}

const ADA = "ada.lovelace@example.com";
const GRACE = "grace@navy.example";
const WEISS = "weiß@xn--bcher-kva.example";
const VINCENT = "vincent@example.org";
const INFO = "info@example.com";
const WU = "wu@cn.test";
const ONE = "one.two.three.four.five.six@seven.test";
const ANNA = "anna@alike.test";
const EVERYBODY = [ADA, GRACE, WEISS, VINCENT, INFO, WU, ONE, ANNA];

const PEOPLE: readonly NewAccount[] = [
  { email: ADA, username: "ada", name: "Augusta", surname: "King-Lovelace" },
  { email: GRACE, username: "grace_hopper", surname: "Hopper" },
  { email: "weiß@bücher.example", surname: "Zażółć Gęślą" },
  { email: VINCENT, surname: "van  der Berg" },
  { email: INFO, username: "office", surname: "O'Brien" },
  { email: WU, surname: "吴小明" },
  { email: ONE, surname: "Ǆamonja" },
  { email: ANNA, surname: "Anna Annabella-Annalisa Anneliese" },
];

/** What somebody types, and whom it finds. */
const SEARCHES: readonly (readonly [typed: string, ...emails: readonly string[]])[] = [
  ["lov", ADA],
  ["LOVEL", ADA],
  ["ｌｏｖｅ", ADA],
  ["  lovelace ", ADA],
  ["lovelaces"],
  ["ovelace"],
  ["augusta"],
  ["ada.lov", ADA],
  ["ada.lovelace@ex", ADA],
  ["ada.lovelace@example.co", ADA],
  [ADA.toUpperCase(), ADA],
  ["lovelace@exam", ADA],
  ["king-l", ADA],
  ["lovel king", ADA],
  ["lovel grace"],
  ["grace hop", GRACE],
  ["hop gra", GRACE],
  ["gr hopper", GRACE],
  ["exam", ADA, GRACE, WEISS, VINCENT, INFO],
  ["weiß@büch", WEISS],
  ["weiß@bücher.example", WEISS],
  ["weiß@xn--bcher-kva.example", WEISS],
  ["bücher", WEISS],
  ["zażó", WEISS],
  ["zaz\u0307o\u0301", WEISS],
  ["gęś", WEISS],
  ["van der b", VINCENT],
  ["berg", VINCENT],
  ["ber vin", VINCENT],
  ["o'br", INFO],
  ["office", INFO],
  ["吴小明", WU],
  ["two three", ONE],
  ["six", ONE],
  // The seventh word of a field is found by the field alone.
  ["seven"],
  ["one.two.three.four.five.six@sev", ONE],
  ["ǆamo", ONE],
  ["ǅAM", ONE],
  // Words that begin alike.
  ["ann", ANNA],
  ["annab", ANNA],
  ["annali", ANNA],
  ["annel", ANNA],
  ["anneliese", ANNA],
  ["annel annabella", ANNA],
  ["annabellb"],
  ["annu"],
  ["%%%"],
  ["a%c"],
  [".*.*"],
  ["__proto__"],
  ["\0\0\0"],
  ["\ud800\ud800\ud800"],
  ["' OR 1=1 --"],
];

describe.each(PLACES)("a search in $name", ({ start, isBeside }) => {
  let ground: Ground;
  beforeAll(async () => {
    ground = await start();
    await open(await ground.newAddress(), isBeside);
    await domain.directory.services.put("news", { name: "News" });
    await domain.directory.portals.put("main", { name: "Main" });
    await create(...PEOPLE);
    const grace = await domain.accounts.findByLogin(GRACE);
    await domain.accounts.assign(grace!.sub, "news");
    await domain.accounts.disable(grace!.sub);
    await domain.accounts.update((await domain.accounts.findByLogin(ADA))!.sub, { portal: "main" });
  });
  afterAll(() => ground.close());

  it.each(SEARCHES)(
    "for %j finds those whose names have words that begin so [D-ADM-170]",
    async (typed, ...emails) => {
      expect(await found({ search: typed })).toEqual(emails);
      expect(await found({ search: typed }, 1)).toEqual(emails);
    },
  );

  it("finds by sub and user_id, exactly [D-ADM-171]", async () => {
    const ada = await domain.accounts.findByLogin(ADA);
    expect(await found({ search: ada!.sub.toUpperCase() })).toEqual([ADA]);
    expect(await found({ search: ada!.sub.slice(0, -1) })).toEqual([]);
    expect(await found({ search: String(ada!.user_id) })).toEqual([ADA]);
    for (const typed of ["0", "-1", "1e0", "9".repeat(17)])
      expect(await codeOf(found({ search: typed })).catch(() => "nobody")).toMatch(
        /nobody|three characters/u,
      );
  });

  it("needs three characters of one word [D-ADM-170]", async () => {
    for (const typed of ["lo", "a.", "..", "\u{1f600}\u{1f600}", " l "])
      expect([typed, await codeOf(found({ search: typed }))]).toEqual([
        typed,
        "TypeError filter.search: must have at least three characters",
      ]);
    expect(await codeOf(found({ search: "  " }))).toBe("TypeError filter.search: must not be empty");
    expect(await codeOf(found({ search: "x".repeat(255) }))).toContain("must have at most 254 characters");
    // Eighteen times as long in its normal form.
    expect(await found({ search: "\ufdfa".repeat(254) })).toEqual([]);
  });

  it("holds with filters, which also list without a search [D-ADM-172]", async () => {
    expect(await found({ search: "exam", service: "news" })).toEqual([GRACE]);
    expect(await found({ search: "exam", portal: "main" })).toEqual([ADA]);
    expect(await found({ search: "exam", disabled: true })).toEqual([GRACE]);
    expect(await found({ search: "exam", disabled: false }, 2)).toEqual([ADA, WEISS, VINCENT, INFO]);
    expect(await found({ search: GRACE, service: "other" })).toEqual([]);
    expect(await found({ service: "news" })).toEqual([GRACE]);
    expect(await found({ portal: "main" })).toEqual([ADA]);
    expect(await found({ portal: "main", service: "news" })).toEqual([]);
    expect(await found({ disabled: true })).toEqual([GRACE]);
    const confirmed = await found({ search: "exam", email_verified: true }, 2);
    const others = await found({ search: "exam", email_verified: false }, 2);
    expect([...confirmed, ...others].toSorted()).toEqual((await found({ search: "exam" })).toSorted());
    expect(await found({ service: "__proto__" })).toEqual([]);
    expect(await found({}, 3)).toEqual(EVERYBODY);
  });

  it("shows those first that it names exactly [D-ADM-171]", async () => {
    await create({ email: "zz@last.test", username: "lovelace" });
    expect(await found({ search: "lovelace" })).toEqual(["zz@last.test", ADA]);
    expect(await found({ search: "lovelace" }, 1)).toEqual(["zz@last.test", ADA]);
  });
});
