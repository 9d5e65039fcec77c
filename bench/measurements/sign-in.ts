/** Whole sign-ins, from the authorization endpoint to the code, against what the password hash alone allows. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns } from "../rounds.ts";
import { CALLBACK, CLIENT } from "../servers/people.ts";
import { signInOver } from "../session.ts";
import { startSide } from "../side.ts";
import { openWire } from "../wire.ts";

/** Browsers that sign in at the same time: enough for the hash never to wait for one of them. */
const BROWSERS = 8;

export const signIns: Measurement = {
  name: "sign-in",
  async run(effort, folder) {
    // One core is left for everything that is not hashing; both sides hash on equally many.
    const parallel = Math.max(1, availableParallelism() - 1);
    const options = { file: join(folder, "sign-in.db"), parallel };
    const service = await startSide("service", { options, core: "any" });
    const hashing = await startSide("hashing", { options, core: "any" });
    try {
      const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
      const url = `${service.ready["base"] ?? ""}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
      const signInAll = async (): Promise<number> => {
        let left = effort.signIns;
        const began = performance.now();
        const browser = async (): Promise<void> => {
          const wire = await openWire(Number(new URL(url).port));
          while (left > 0) {
            left -= 1;
            await signInOver(wire, url);
          }
          wire.close();
        };
        await Promise.all(Array.from({ length: BROWSERS }, browser));
        return effort.signIns / ((performance.now() - began) / 1000);
      };
      const hashAll = async (): Promise<number> =>
        Number(await (await fetch(`${hashing.ready["base"] ?? ""}/${effort.signIns}`)).text());
      const rates = await inTurns(effort, { service: signInAll, hash: hashAll });
      return [
        {
          work: "whole sign-ins",
          against: `the password hash alone, ${parallel} at once`,
          value: rates.service / rates.hash,
          unit: "×",
          target: 0.95,
          raw: `${perSecond(rates.service)} to ${perSecond(rates.hash)}`,
        },
      ];
    } finally {
      await Promise.all([service.stop(), hashing.stop()]);
    }
  },
};
