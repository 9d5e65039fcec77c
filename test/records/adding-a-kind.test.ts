/** Follows the page about adding a kind on each storage. */
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { openMongo } from "../../adapters/mongodb/record-store.ts";
import { openPostgres } from "../../adapters/postgresql/record-store.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { openRedis } from "../../adapters/redis/record-store.ts";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { type AnyKind, collectKinds } from "../../records/kinds.ts";
import { Changes, Records } from "../../records/records.ts";
import { account, ManualClock } from "./rules/stage.ts";
import { namedBlock, ROOT } from "../examples/documents.ts";
import { openMongoServer } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";

interface Bookmark {
  readonly id: string;
  readonly url: string;
}

/** The exports of the page's file. */
interface Page {
  readonly BOOKMARK: AnyKind;
  createBookmarks(records: Records): {
    add(sub: string, url: string): Promise<Bookmark>;
    list(sub: string): Promise<Bookmark[]>;
    move(id: string, url: string): Promise<boolean>;
    remove(id: string): Promise<void>;
  };
}

const FOLDER = join(ROOT, ".cache/adding-a-kind");
const YEAR = 365 * 86_400_000;
let page: Page;

beforeAll(async () => {
  const file = namedBlock("records/bookmarks.ts");
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, "bookmarks.ts");
  writeFileSync(
    path,
    file.code
      .replaceAll('from "./', 'from "../../records/')
      .replaceAll('from "../core/', 'from "../../core/'),
  );
  page = (await import(pathToFileURL(path).href)) as Page;
});
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

/** An empty store, and what closes its server. */
interface Opened {
  readonly store: RecordStore;
  readonly close: () => Promise<void>;
}

async function onSqlite(clock: ManualClock): Promise<Opened> {
  return { store: await openSqlite({ path: ":memory:", clock }), close: () => Promise.resolve() };
}

async function onPostgres(clock: ManualClock): Promise<Opened> {
  const server = await openOwnPostgres();
  const store = await openPostgres({ url: await server.newDatabase(), clock });
  return { store, close: () => server.close() };
}

async function onMongo(clock: ManualClock): Promise<Opened> {
  const server = await openMongoServer();
  const store = await openMongo({ url: server.nextUrl(), clock });
  return { store, close: () => server.close() };
}

async function onRedis(clock: ManualClock): Promise<Opened> {
  const server = await openOwnRedis();
  const url = `${server.url}?prefix=${randomBytes(6).toString("hex")}:`;
  const store = await openRedis({ url, clock });
  return { store, close: () => server.close() };
}

/** Adds the kind as the page describes, and checks its functions. */
async function useBookmarks(open: (clock: ManualClock) => Promise<Opened>): Promise<void> {
  const clock = new ManualClock();
  const { store, close } = await open(clock);
  try {
    const records = new Records(store, clock, collectKinds([...KINDS.all, page.BOOKMARK]));
    const bookmarks = page.createBookmarks(records);
    const people = new Changes();
    for (const [index, sub] of ["ada", "bob"].entries())
      people.add(ACCOUNT.record(account(index + 1, { sub })));
    await records.commit(people);

    const first = await bookmarks.add("ada", "https://news.example/1");
    clock.advance(1_000);
    const second = await bookmarks.add("ada", "https://news.example/2");
    const other = await bookmarks.add("bob", "https://shop.example/");
    await expect(bookmarks.list("ada")).resolves.toEqual([second, first]);
    await expect(bookmarks.add("nobody", "https://x.example/")).rejects.toMatchObject({
      code: "not_found",
    });

    await expect(
      Promise.all(["a", "b", "c"].map((path) => bookmarks.move(first.id, `https://news.example/${path}`))),
    ).resolves.toEqual([true, true, true]);
    await bookmarks.remove(second.id);
    await expect(bookmarks.move(second.id, "https://news.example/")).resolves.toBe(false);
    await expect(bookmarks.list("ada")).resolves.toEqual([
      { ...first, url: expect.stringMatching(/^https:\/\/news\.example\/[abc]$/) },
    ]);

    // Bookmarks are removed with their account, and after a year.
    const removal = new Changes();
    removal.drop(ACCOUNT.ref("ada"));
    await records.commit(removal);
    await expect(bookmarks.list("ada")).resolves.toEqual([]);
    clock.advance(YEAR - 1);
    await expect(bookmarks.list("bob")).resolves.toEqual([other]);
    clock.advance(1);
    await expect(bookmarks.list("bob")).resolves.toEqual([]);
  } finally {
    await store.close();
    await close();
  }
}

describe("the kind that the documentation adds", () => {
  it("works on SQLite", () => useBookmarks(onSqlite));
  it("works on PostgreSQL", () => useBookmarks(onPostgres), 60_000);
  it("works on Redis", () => useBookmarks(onRedis), 60_000);

  describe("on a server of its own", () => {
    it("works on MongoDB", () => useBookmarks(onMongo), 60_000);
  });

  it("can't be written before the list of kinds has it", async () => {
    const clock = new ManualClock();
    const { store } = await onSqlite(clock);
    const records = new Records(store, clock, KINDS);
    await records.transact((tx) => tx.create(ACCOUNT.record(account(1, { sub: "ada" }))));
    const bookmarks = page.createBookmarks(records);
    await expect(bookmarks.add("ada", "https://news.example/")).rejects.toThrow(
      "the kind bookmark is not declared",
    );
    await store.close();
  });
});
