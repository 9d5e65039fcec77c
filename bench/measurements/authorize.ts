/** The authorization endpoint for a signed-in user: one code per request. */
import { once } from "../load.ts";
import { metered, type OauthLoad, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate, WARM } from "../rounds.ts";

export const authorizeLoad: OauthLoad = async (side, { requests }, connections) => {
  const all = Array.from({ length: requests }, () => side.authorize);
  return () => metered(side, () => once(side.base, all, { status: side.redirectStatus, connections }));
};

export const authorize: Measurement = {
  name: "authorize",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const sides = {
          service: rate(await authorizeLoad(service, effort, connections)),
          oidc: rate(await authorizeLoad(oidc, effort, connections)),
        };
        const rates = await inTurns(effort, sides, WARM);
        return [
          {
            work: "authorize with a session",
            against,
            value: rates.service / rates.oidc,
            unit: "×",
            target: 1.3,
            raw: `${perSecond(rates.service)} to ${perSecond(rates.oidc)}`,
          },
        ];
      }),
    ),
};
