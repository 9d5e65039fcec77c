/**
 * Two processes of the service compared with one: the value of another core. Measured with complete sign-ins, in
 * which the service does most of the computing: the load and Redis, which share the two cores, take a sixteenth.
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { startRedis } from "../redis.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns } from "../rounds.ts";
import { CALLBACK, CLIENT } from "../servers/people.ts";
import { signInMany } from "../session.ts";
import { canPin, type Core, SERVER_CORE, type Side, startSide } from "../side.ts";

/** Parallel sign-ins, enough to keep all processes busy. */
const BROWSERS = 32;
/**
 * The factor by which rounds are longer than in other measurements, because at the end of a round some processes are
 * idle.
 */
const ROUND = 3;
/** Sign-ins of each process until its code is compiled. */
const WARM_UP = 500;

/**
 * Parameters that count as equally strong as the default, with less memory. Two parallel hashes with 19 MiB may exceed
 * the cache of the machine, and then its memory would be measured. Without a service, two threads computed 1.7 times as
 * many hashes as one thread with the default, and 1.97 times as many with these parameters.
 */
const COST = { memory: 7_168, passes: 5 };

/** On a machine with two cores: one process on one core, and two on both. */
const CORES: readonly Core[] = [SERVER_CORE, "any", "any"];

async function compare(effort: Parameters<Measurement["run"]>[0], sides: readonly Side[]) {
  const [first = "", ...others] = sides.map(({ ready }) => ready["base"] ?? "");
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const url = `${first}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
  const signIns = (bases: readonly string[], each: number): Promise<number> =>
    signInMany({ url, bases, browsers: BROWSERS, count: each * bases.length });
  await signIns([first], WARM_UP);
  await signIns(others, WARM_UP);
  const each = ROUND * effort.signIns;
  return inTurns(effort, { one: () => signIns([first], each), two: () => signIns(others, each) });
}

export const processes: Measurement = {
  name: "processes",
  async run(effort, folder) {
    if (availableParallelism() !== 2 || !canPin()) {
      console.error("processes: only on a machine of two cores");
      return [];
    }
    const redis = await startRedis(folder, "any");
    const sides: Side[] = [];
    try {
      for (const core of CORES) {
        // All have the same address, as behind a proxy.
        const url = sides[0]?.ready["base"];
        const own = { file: join(folder, "processes.db"), redis: redis.url, parallel: 1, cost: COST };
        sides.push(await startSide("service", { options: { ...own, ...(url && { url }) }, core }));
      }
      const rates = await compare(effort, sides);
      return [
        {
          work: "whole sign-ins, two processes",
          against: "one process",
          value: rates.two / rates.one,
          unit: "×",
          target: 1.7,
          raw: `${perSecond(rates.two)} to ${perSecond(rates.one)}`,
        },
      ];
    } finally {
      await Promise.all(sides.map((side) => side.stop()));
      await redis.stop();
    }
  },
};
