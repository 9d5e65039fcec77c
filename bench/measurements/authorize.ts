/** The authorization endpoint for somebody who is signed in: a code for each request. */
import { once } from "../load.ts";
import { type OauthSide, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, WARM } from "../rounds.ts";

export const authorize: Measurement = {
  name: "authorize",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const measure = (side: OauthSide) => async (): Promise<number> => {
          const requests = Array.from({ length: effort.requests }, () => side.authorize);
          return (await once(side.base, requests, { status: side.redirectStatus, connections })).perSecond;
        };
        const rates = await inTurns(effort, { service: measure(service), oidc: measure(oidc) }, WARM);
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
