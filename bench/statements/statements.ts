/** `npm run bench -- statements`: what each operation costs each storage. The counts are the same on every machine. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startMongo } from "../mongo.ts";
import { startPostgres } from "../postgres.ts";
import { freePort, startRedis } from "../redis.ts";
import { countMongo, countPostgres, countRedis, countSqlite, type Figures } from "./counters.ts";
import { type Counts, countOperations, OPERATIONS } from "./operations.ts";

/** The counts of every storage. Redis holds the artifacts of the SQLite file beside it. */
export const STORAGES = ["SQLite", "PostgreSQL", "MongoDB", "SQLite beside Redis", "Redis"] as const;
export type CountedStorage = (typeof STORAGES)[number];
export type AllCounts = Readonly<Record<CountedStorage, Counts>>;

/** The last counts. `docs/internals/scale.md` is written from them, and tests use them as upper bounds. */
const FILE = join(import.meta.dirname, "counts.json");

export function readCounts(): AllCounts {
  return JSON.parse(readFileSync(FILE, "utf8")) as AllCounts;
}

export async function sqliteCounts(folder: string): Promise<Counts> {
  const counter = countSqlite();
  try {
    const [counts] = await countOperations({ storage: `sqlite:${join(folder, "alone.db")}` }, [counter]);
    return counts as Counts;
  } finally {
    await counter.close();
  }
}

/** @param url of an empty database, whose user may create triggers. */
export async function postgresCounts(url: string): Promise<Counts> {
  const counter = await countPostgres(url);
  try {
    const [counts] = await countOperations({ storage: counter.url }, [counter], () => counter.begin());
    return counts as Counts;
  } finally {
    await counter.close();
  }
}

async function mongoCounts(folder: string): Promise<Counts> {
  const server = await startMongo(await freePort(), join(folder, "mongodb"));
  const counter = await countMongo(server.url);
  try {
    const [counts] = await countOperations({ storage: counter.url }, [counter]);
    return counts as Counts;
  } finally {
    await counter.close();
    await server.stop();
  }
}

async function redisCounts(folder: string): Promise<readonly Counts[]> {
  const server = await startRedis(folder, "any");
  const counters = [countSqlite(), await countRedis(server.url)] as const;
  try {
    const addresses = { storage: `sqlite:${join(folder, "beside.db")}`, artifacts: counters[1].url };
    return await countOperations(addresses, counters);
  } finally {
    for (const counter of counters) await counter.close();
    await server.stop();
  }
}

async function countAll(folder: string): Promise<AllCounts> {
  const postgres = await startPostgres(folder);
  try {
    const [beside, redis] = await redisCounts(folder);
    return {
      SQLite: await sqliteCounts(folder),
      PostgreSQL: await postgresCounts(await postgres.newDatabase()),
      MongoDB: await mongoCounts(folder),
      "SQLite beside Redis": beside as Counts,
      Redis: redis as Counts,
    };
  } finally {
    await postgres.stop();
  }
}

const HEADS: Readonly<Record<keyof Figures, string>> = {
  statements: "Statements",
  roundTrips: "Round trips",
  indexRows: "Index rows",
  commits: "Commits",
  bytes: "Bytes",
};

/** The counts of one storage, in Markdown. */
export function countTable(counts: Counts): string {
  const [first] = Object.values(counts);
  const figures = (Object.keys(HEADS) as (keyof Figures)[]).filter((name) => first?.[name] !== undefined);
  const rows = OPERATIONS.map((operation) => {
    const shown = figures.map((name) => (counts[operation][name] ?? 0).toLocaleString("en"));
    return [operation[0]?.toUpperCase() + operation.slice(1)].concat(shown);
  });
  const heads = ["Operation", ...figures.map((name) => HEADS[name])];
  const line = ["---", ...figures.map(() => "---:")];
  return [heads, line, ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Counts, and writes the file from which the documentation is made. @returns the tables. */
export async function statements(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-bench-"));
  try {
    const counts = await countAll(folder);
    writeFileSync(FILE, `${JSON.stringify(counts, undefined, 2)}\n`);
    return STORAGES.map((name) => `${name}\n\n${countTable(counts[name])}`).join("\n\n");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
