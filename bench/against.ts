/** Compares this checkout with another one of the same project: the same measurements on both, alternating. */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { HERE, build } from "./build.ts";
import { changedUsers, drain } from "./drain.ts";
import { CONNECTIONS } from "./load.ts";
import { authorizeLoad } from "./measurements/authorize.ts";
import { exchangeLoad } from "./measurements/exchange.ts";
import { refreshLoad } from "./measurements/refresh.ts";
import { startSignIns } from "./measurements/sign-in.ts";
import { userinfoLoad } from "./measurements/userinfo.ts";
import { KINDS, onStage } from "./notifying-sides.ts";
import { type OauthLoad, withOther } from "./oauth-side.ts";
import { startRedis } from "./redis.ts";
import { type Measurement, type Row } from "./result.ts";
import {
  type Effort,
  inPairs,
  mediansOf,
  type Pair,
  ratioOf,
  type Sample,
  shownInterval,
  WARM,
} from "./rounds.ts";
import { LOAD_CORE } from "./side.ts";

/** The lowest allowed ratio to the other checkout. */
const MARKS = { request: 0.9, delivered: 0.85 } as const;

/**
 * Many short rounds: each gives a ratio of two figures that were measured close together, whatever else the machine
 * does.
 */
function shortened(effort: Effort): Effort {
  return {
    rounds: 6 * effort.rounds,
    seconds: effort.seconds / 4,
    requests: effort.requests / 4,
    signIns: effort.signIns / 2,
  };
}

/** The stores of a comparison. The queue of `delivered` is on Redis too, if there is one. */
interface Ground {
  readonly name: string;
  readonly folder: string;
  readonly redis?: { readonly url: string };
}

/** Microseconds of CPU per response on one side. */
function cpuOf(samples: readonly Sample[]): number {
  const sum = (figure: "cpu" | "answered"): number =>
    samples.reduce((total, sample) => total + sample[figure], 0);
  return (sum("cpu") * 1000) / sum("answered");
}

function row(work: string, ground: string, pairs: readonly Pair<Sample>[], target: number): Row {
  const { ratio, interval } = ratioOf(pairs, ({ perSecond }) => perSecond);
  const rates = mediansOf(pairs, ({ perSecond }) => perSecond).map((each) => `${Math.round(each)}/s`);
  // Over all rounds, because the CPU clock of a process ticks only every 10 ms.
  const [here, other] = [cpuOf(pairs.map(([each]) => each)), cpuOf(pairs.map(([, each]) => each))];
  const cpu = `${Math.round(here)} to ${Math.round(other)} µs (${(other / here).toFixed(2)} ×)`;
  return {
    work,
    against: `the other checkout, ${ground}`,
    value: ratio,
    unit: "×",
    target,
    interval,
    raw: `${rates.join(" to ")}; ${shownInterval(interval)}; CPU of one: ${cpu}`,
  };
}

/**
 * Measures with SQLite for everything, then with Redis for the artifacts. Redis shares the core of the load, so it
 * takes nothing from the server, as if it ran on another machine.
 */
async function onBothGrounds(folder: string, work: (ground: Ground) => Promise<Row>): Promise<Row[]> {
  const redis = await startRedis(folder, LOAD_CORE);
  try {
    return [await work({ name: "SQLite", folder }), await work({ name: "SQLite + Redis", folder, redis })];
  } finally {
    await redis.stop();
  }
}

function requestsTo(name: string, load: OauthLoad): (other: string) => Measurement {
  return (checkout) => ({
    name,
    run: (effort, folder) =>
      onBothGrounds(folder, (ground) =>
        withOther(ground, checkout, async (here, other) => {
          const short = shortened(effort);
          const sides = {
            here: await load(here, short, CONNECTIONS),
            other: await load(other, short, CONNECTIONS),
          };
          return row(name, ground.name, await inPairs(short, sides, WARM), MARKS.request);
        }),
      ),
  });
}

async function signInPairs(
  { folder, redis }: Ground,
  checkout: string,
  effort: Effort,
): Promise<Pair<Sample>[]> {
  const place = (side: string, database: number): Record<string, string> => ({
    file: join(folder, `${side}${redis === undefined ? "" : "-redis"}.db`),
    ...(redis === undefined ? {} : { redis: `${redis.url}/${database}` }),
  });
  const here = await startSignIns(place("here", 0));
  try {
    const other = await startSignIns(place("other", 1), checkout);
    try {
      const { rounds, signIns: count } = shortened(effort);
      return await inPairs(
        { rounds },
        {
          here: () => here.signIn(count),
          other: () => other.signIn(count),
        },
      );
    } finally {
      await other.stop();
    }
  } finally {
    await here.stop();
  }
}

function signInsTo(checkout: string): Measurement {
  return {
    name: "sign-in",
    run: (effort, folder) =>
      onBothGrounds(folder, async (ground) =>
        row("sign-in", ground.name, await signInPairs(ground, checkout, effort), MARKS.request),
      ),
  };
}

/** The deliveries are in SQLite; BullMQ adds Redis. */
function delivered(checkout: string): Measurement {
  return {
    name: "delivered",
    run: (effort, folder) =>
      onStage(folder, async ({ receiver, notifying }) => {
        const count = effort.requests;
        const rounds = 4 * effort.rounds;
        const receivers = { 1: "/take/1" };
        const rows: Row[] = [];
        for (const kind of KINDS) {
          const backlog = async (side: string, of?: string): Promise<() => Promise<Sample>> => {
            const place = join(folder, side);
            mkdirSync(place, { recursive: true });
            const file = join(place, `${kind}.db`);
            const queue = await changedUsers(await notifying({ kind, file, receivers, checkout: of }), count);
            return () => drain(receiver, queue, count);
          };
          const sides = { here: await backlog("here"), other: await backlog("other", checkout) };
          const ground = kind === "bullmq" ? "SQLite + Redis" : "SQLite";
          rows.push(row(`delivered, ${kind}`, ground, await inPairs({ rounds }, sides), MARKS.delivered));
        }
        return rows;
      }),
  };
}

const COMPARED: Readonly<Record<string, (checkout: string) => Measurement>> = {
  userinfo: requestsTo("userinfo", userinfoLoad),
  refresh: requestsTo("refresh", refreshLoad),
  exchange: requestsTo("exchange", exchangeLoad),
  authorize: requestsTo("authorize", authorizeLoad),
  "sign-in": signInsTo,
  delivered,
};

/** The names of the measurements that compare two checkouts. */
export const COMPARED_NAMES: readonly string[] = Object.keys(COMPARED);

/** The files that a checkout must have. */
const NEEDED = ["bench/tsconfig.json", "bench/servers/service.ts", "build/copy-assets.mjs", "node_modules"];

/** Why a folder can't be measured; `undefined` if it can. */
export function notACheckout(folder: string): string | undefined {
  const missing = NEEDED.find((path) => !existsSync(join(folder, path)));
  return missing === undefined
    ? undefined
    : `${folder} is not a checkout that can be measured: ${missing} is missing`;
}

/** Compiles the other checkout, which writes only to its `.cache`, and prepares all comparisons with it. */
export function against(folder: string): Measurement[] {
  const checkout = resolve(folder);
  if (checkout !== resolve(HERE)) build(checkout);
  return Object.values(COMPARED).map((prepare) => prepare(checkout));
}
