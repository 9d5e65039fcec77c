/** Two processes of the service beside one: what one core more is worth. */
import { join } from "node:path";
import { once } from "../load.ts";
import { startService } from "../oauth-side.ts";
import { startRedis } from "../redis.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns } from "../rounds.ts";
import { startSide } from "../side.ts";

export const processes: Measurement = {
  name: "processes",
  async run(effort, folder) {
    const redis = await startRedis(folder, "any");
    const stores = { folder, redis };
    const first = await startService(stores);
    // The other one has the same address: as behind a proxy, where it does not matter who answers.
    const options = { file: join(folder, "service-redis.db"), redis: `${redis.url}/0`, url: first.base };
    const second = await startSide("service", { options, core: 1 });
    try {
      const load = async (bases: readonly string[]): Promise<number> => {
        const requests = Array.from({ length: effort.requests }, () => first.authorize);
        const status = first.redirectStatus;
        const rates = await Promise.all(bases.map((base) => once(base, requests, { status, core: "any" })));
        return rates.reduce((sum, { perSecond: rate }) => sum + rate, 0);
      };
      const rates = await inTurns(effort, {
        one: () => load([first.base]),
        two: () => load([first.base, second.ready["base"] ?? ""]),
      });
      return [
        {
          work: "authorize, two processes",
          against: "one process",
          value: rates.two / rates.one,
          unit: "×",
          target: 1.7,
          raw: `${perSecond(rates.two)} to ${perSecond(rates.one)}`,
        },
      ];
    } finally {
      await Promise.all([first.stop(), second.stop()]);
      await redis.stop();
    }
  },
};
