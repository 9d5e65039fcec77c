/** The search for people among many: how long the first page takes, on a storage of each kind. */
import { createSecretKey, type KeyObject } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type AccountSearch, createAccountSearch } from "../../accounts/search/search.ts";
import { openStores } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { SignInError } from "../../core/errors.ts";
import { KINDS } from "../../records/all-kinds.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { SEARCH_INDEX } from "../../records/directory/search-kinds.ts";
import { Records } from "../../records/records.ts";
import { startPostgres } from "../postgres.ts";
import type { Measurement, Row } from "../result.ts";
import { type Effort, median } from "../rounds.ts";
import { type Bulk, postgresBulk, sqliteBulk } from "./bulk.ts";
import { peopleMaker, recordsOf } from "./people.ts";

const clock = { now: Date.now };
/** Of the hashes in the index. */
const KEY: KeyObject = createSecretKey(Buffer.alloc(32, 1));
/** The first page may take as long. */
const MARK_MS = 50;
/** A page of the command line. */
const LIMIT = 50;

/** What searches among these people can be for. */
export interface Sample {
  /** Some of them, picked evenly. */
  readonly people: readonly AccountRecord[];
  /** How many have a surname. */
  readonly surnames: ReadonlyMap<string, number>;
}

const SAMPLED = 2_000;

/** Opens a storage, and creates its tables. */
export async function openMain(storage: string): Promise<RecordStore> {
  const { main } = await openStores({
    storage,
    artifacts: storage,
    clock,
    sharedKinds: [],
    watchedKinds: [],
  });
  return main;
}

/** Fills storages whose tables exist. */
export async function fillPeople(bulks: readonly Bulk[], size: number): Promise<Sample> {
  const make = peopleMaker();
  const people: AccountRecord[] = [];
  const surnames = new Map<string, number>();
  const every = Math.ceil(size / SAMPLED);
  for (let index = 0; index < size; index += 1) {
    const account = make(index);
    const { surname = "" } = account as { readonly surname?: string };
    surnames.set(surname, (surnames.get(surname) ?? 0) + 1);
    if (index % every === 0) people.push(account);
    const records = recordsOf(account, KEY);
    for (const bulk of bulks) await bulk.add(records);
  }
  for (const bulk of bulks) {
    await bulk.add([SEARCH_INDEX.record({ complete: true })]);
    await bulk.finish();
  }
  return { people, surnames };
}

/** The search over a store that {@link fillPeople} has filled. */
export function searchOf(store: RecordStore): AccountSearch {
  return createAccountSearch(new Records(store, clock, KINDS), KEY);
}

type Wanted = Parameters<AccountSearch["list"]>[0];

/** Surnames with fewer candidates than are too many, though most are found by address and by surname. */
const FREQUENT = { from: 300, to: 480 };
/** Those with the most that are read. */
const MOST = { from: 700, to: 900 };

const pick = (some: readonly string[], at: number): string => some[at % some.length] ?? "";
const letters = (text: string, count: number): string => Array.from(text).slice(0, count).join("");
const first = (term: string): Wanted => ({ search: term, limit: LIMIT, after: undefined });

/** What somebody wants, by a description of it. Each is another one for every `at`. */
export function searchesOf({ people, surnames }: Sample): Readonly<Record<string, (at: number) => Wanted>> {
  const person = (at: number): AccountRecord => people[(at * 7) % people.length] as AccountRecord;
  const counted = [...surnames].toSorted(([, one], [, other]) => other - one);
  const among = (from: number, to: number): readonly string[] => {
    const some = counted.filter(([, count]) => count >= from && count <= to).map(([surname]) => surname);
    return some.length === 0 ? [counted[0]?.[0] ?? ""] : some;
  };
  const [rare, frequent] = [among(1, 5), among(FREQUENT.from, FREQUENT.to)];
  const most = among(MOST.from, MOST.to);
  const tooMany = among(1_001, Infinity);
  const surnameOf = (at: number): string => person(at).surname ?? "";
  return {
    "whole address": (at) => first(person(at).email),
    sub: (at) => first(person(at).sub),
    user_id: (at) => first(String(person(at).user_id)),
    "rare surname": (at) => first(pick(rare, at)),
    "frequent surname": (at) => first(pick(frequent, at)),
    "frequent surname, one service": (at) => ({ ...first(pick(frequent, at)), service: "rare" }),
    "frequent surname, one portal": (at) => ({ ...first(pick(frequent, at)), portal: "main" }),
    "frequent surname, disabled": (at) => ({ ...first(pick(frequent, at)), disabled: true }),
    "frequent surname, nobody passes": (at) => ({ ...first(pick(frequent, at)), service: "none" }),
    "surname of nearly too many": (at) => first(pick(most, at)),
    "nearly too many, nobody passes": (at) => ({ ...first(pick(most, at)), service: "none" }),
    "surname of too many": (at) => first(pick(tooMany, at)),
    "three letters": (at) => first(letters(surnameOf(at), 3)),
    "four letters": (at) => first(letters(surnameOf(at), 4)),
    "six letters": (at) => first(letters(surnameOf(at), 6)),
    "eight letters of an address": (at) => first(letters(person(at).email, 8)),
    "name and surname": (at) => first(`${person(at).name} ${surnameOf(at)}`),
    "half a name and a surname": (at) =>
      first(`${letters(person(at).name ?? "", 3)} ${letters(surnameOf(at), 4)}`),
  };
}

/** Milliseconds of each search, and how many were too wide. */
interface Times {
  readonly milliseconds: readonly number[];
  readonly wide: number;
}

async function timesOf(list: (at: number) => Promise<unknown>, count: number): Promise<Times> {
  const milliseconds: number[] = [];
  let wide = 0;
  for (let at = 0; at < count; at += 1) {
    const began = performance.now();
    try {
      await list(at);
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      wide += 1;
    }
    milliseconds.push(performance.now() - began);
  }
  return { milliseconds, wide };
}

function row(work: string, against: string, { milliseconds, wide }: Times): Row {
  const worst =
    milliseconds.toSorted((one, other) => one - other)[Math.floor(milliseconds.length * 0.95)] ?? 0;
  return {
    work,
    against,
    value: median(milliseconds),
    unit: "ms",
    target: MARK_MS,
    atMost: true,
    raw: `${median(milliseconds).toFixed(1)} ms; 95 %: ${worst.toFixed(1)} ms; too wide: ${wide} of ${milliseconds.length}`,
  };
}

/** Measures all searches on a filled storage. */
export async function measureSearch(
  accounts: AccountSearch,
  sample: Sample,
  { against, count }: { readonly against: string; readonly count: number },
): Promise<Row[]> {
  const rows: Row[] = [];
  const searches = searchesOf(sample);
  // Compiles the code.
  for (const wanted of Object.values(searches)) await timesOf((at) => accounts.list(wanted(at + count)), 3);
  for (const [name, wanted] of Object.entries(searches))
    rows.push(row(name, against, await timesOf((at) => accounts.list(wanted(at)), count)));
  const frequent = searches["frequent surname"] as (at: number) => Wanted;
  const firsts = await Promise.all(Array.from({ length: count }, (_each, at) => accounts.list(frequent(at))));
  const second = (at: number): Promise<unknown> =>
    accounts.list({ ...frequent(at), after: firsts[at]?.next });
  rows.push(row("frequent surname, second page", against, await timesOf(second, count)));
  return rows;
}

/** @param size number of accounts. */
export function search(size: number): Measurement {
  return {
    name: "search",
    async run({ rounds }: Effort, folder) {
      mkdirSync(folder, { recursive: true });
      const postgres = await startPostgres(folder);
      try {
        const file = join(folder, "search.db");
        const places = { SQLite: `sqlite:${file}`, PostgreSQL: await postgres.newDatabase() };
        for (const address of Object.values(places)) await (await openMain(address)).close();
        console.error(`filling ${size} accounts …`);
        const sample = await fillPeople([sqliteBulk(file), await postgresBulk(places.PostgreSQL)], size);
        const rows: Row[] = [];
        for (const [name, address] of Object.entries(places)) {
          const store = await openMain(address);
          const against = `${name}, ${size.toLocaleString("en")} accounts`;
          rows.push(...(await measureSearch(searchOf(store), sample, { against, count: 20 * rounds })));
          await store.close();
        }
        return rows;
      } finally {
        await postgres.stop();
      }
    },
  };
}
