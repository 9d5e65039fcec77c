/** Complete sign-ins, from the authorization endpoint to the code, compared with the password hash alone. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { metered } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate, type Sample } from "../rounds.ts";
import { CALLBACK, CLIENT } from "../servers/people.ts";
import { signInMany } from "../session.ts";
import { startSide } from "../side.ts";

/** Parallel sign-ins: enough to keep the hash threads busy. */
const BROWSERS = 8;

/** One core is reserved for everything except hashing. */
const PARALLEL = Math.max(1, availableParallelism() - 1);

/** A sign-in is slow, so there are many short rounds: the speed of the machine changes from second to second. */
const ROUNDS_EACH = 2;
/** Sign-ins before the measurement, after which the code is compiled. */
const WARM_UP = 400;

/**
 * Starts a service and prepares sign-ins.
 * @param place where it stores its data.
 */
export async function startSignIns(
  place: Readonly<Record<string, string>>,
  checkout?: string,
): Promise<{ readonly signIn: (count: number) => Promise<Sample>; readonly stop: () => Promise<void> }> {
  const service = await startSide("service", {
    options: { ...place, parallel: PARALLEL },
    core: "any",
    checkout,
  });
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const base = service.ready["base"] ?? "";
  const url = `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
  const signIn = (count: number): Promise<Sample> =>
    metered(service, async () => {
      const speed = await signInMany({ url, bases: [base], browsers: BROWSERS, count });
      return { perSecond: speed, answered: count };
    });
  await signIn(WARM_UP);
  return { signIn, stop: () => service.stop() };
}

export const signIns: Measurement = {
  name: "sign-in",
  async run(effort, folder) {
    const file = join(folder, "sign-in.db");
    const service = await startSignIns({ file });
    const hashing = await startSide("hashing", { options: { parallel: PARALLEL }, core: "any" });
    try {
      const hashAll = async (): Promise<number> =>
        Number(await (await fetch(`${hashing.ready["base"] ?? ""}/${effort.signIns}`)).text());
      const rates = await inTurns(
        { rounds: effort.rounds * ROUNDS_EACH + 1 },
        {
          service: rate(() => service.signIn(effort.signIns)),
          hash: hashAll,
        },
      );
      return [
        {
          work: "whole sign-ins",
          against: `the password hash alone, ${PARALLEL} at once`,
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
