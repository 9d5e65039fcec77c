/** How often a request waits for a store: sequential round trips, counted on the connection. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startMongo } from "../mongo.ts";
import { type OauthSide, startService, type Stores } from "../oauth-side.ts";
import { freePort, startRedis } from "../redis.ts";
import type { Measurement, Row } from "../result.ts";
import type { LoadRequest } from "../load.ts";
import { LOAD_CORE } from "../side.ts";
import { inSequence, openTap, QUIET, type Tap } from "../tap.ts";
import { openWire } from "../wire.ts";

/** Requests of each kind. The most frequent number counts, because there are health checks in between. */
const REPEATS = 9;

interface Endpoint {
  readonly work: string;
  /** Where a commit is one round trip. */
  readonly most: number;
  readonly commits: number;
  /** Requests of this kind. */
  readonly requests: (side: OauthSide, count: number) => Promise<readonly LoadRequest[]>;
}

const REFRESH_TOKEN = /"refresh_token":"([^"]+)"/;

async function refreshes(side: OauthSide, count: number): Promise<readonly LoadRequest[]> {
  const [code = ""] = await side.codes(1);
  const wire = await openWire(Number(new URL(side.base).port));
  const answer = await wire.ask(side.exchange(code));
  wire.close();
  return Array.from({ length: count }, () => side.refresh(REFRESH_TOKEN.exec(answer)?.[1] ?? ""));
}

/** The endpoints that matter most, and the most round trips of each. */
const ENDPOINTS: readonly Endpoint[] = [
  {
    work: "userinfo",
    most: 1,
    commits: 0,
    async requests(side, count) {
      const token = await side.accessToken();
      return Array.from({ length: count }, () => side.userinfo(token));
    },
  },
  {
    work: "authorize with a session",
    most: 5,
    commits: 2,
    requests: async (side, count) => Array.from({ length: count }, () => side.authorize),
  },
  {
    work: "code exchange",
    most: 3,
    commits: 1,
    requests: async (side, count) => (await side.codes(count)).map((code) => side.exchange(code)),
  },
  { work: "refresh", most: 3, commits: 1, requests: refreshes },
];

async function tripsOf(side: OauthSide, taps: readonly Tap[], { requests }: Endpoint): Promise<number> {
  const wire = await openWire(Number(new URL(side.base).port));
  const counts: number[] = [];
  for (const request of await requests(side, REPEATS)) {
    await pause(QUIET);
    for (const tap of taps) tap.take();
    const answer = await wire.ask(request);
    if (!/^HTTP\/1\.1 [23]/.test(answer)) throw new Error(`an unexpected answer: ${answer}`);
    counts.push(inSequence(taps.flatMap((tap) => tap.take())));
  }
  wire.close();
  return counts.toSorted((a, b) => a - b)[Math.floor(REPEATS / 2)] ?? Number.NaN;
}

/** A commit on MongoDB reads, marks, writes records, writes their entries, and commits the transaction. */
const MONGO_COMMIT = 5;

/** @param commit round trips of one. */
async function rowsOn(against: string, stores: Stores, taps: readonly Tap[], commit = 1): Promise<Row[]> {
  const side = await startService(stores);
  try {
    const rows: Row[] = [];
    for (const endpoint of ENDPOINTS) {
      const value = await tripsOf(side, taps, endpoint);
      const { work, most, commits } = endpoint;
      const target = most + commits * (commit - 1);
      rows.push({ work, against, value, unit: "trips", target, raw: "round trips in sequence" });
    }
    return rows;
  } finally {
    await side.stop();
  }
}

export const roundTrips: Measurement = {
  name: "round-trips",
  async run(_effort, folder) {
    const redis = await startRedis(folder, LOAD_CORE);
    const mongo = await startMongo(await freePort(), join(folder, "mongodb"));
    const taps = [await openTap(redis.port), await openTap(mongo.port)] as const;
    const [toRedis, toMongo] = taps;
    const artifacts = { url: `redis://127.0.0.1:${toRedis.port}` };
    const storage = mongo.url.replace(`:${mongo.port}/`, `:${toMongo.port}/`);
    const onMongo = { folder, storage };
    const together = { folder, storage: storage.replace("/sign-in?", "/beside-redis?"), redis: artifacts };
    try {
      return [
        ...(await rowsOn("SQLite and Redis", { folder, redis: artifacts }, taps)),
        ...(await rowsOn("MongoDB and Redis", together, taps)),
        ...(await rowsOn("MongoDB", onMongo, taps, MONGO_COMMIT)),
      ];
    } finally {
      for (const tap of taps) tap.close();
      await Promise.all([redis.stop(), mongo.stop()]);
    }
  },
};
