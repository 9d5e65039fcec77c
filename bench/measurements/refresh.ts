/** Refreshes with tokens that are not rotated, many of them in rotation. */
import { once } from "../load.ts";
import { metered, type OauthLoad, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate, WARM } from "../rounds.ts";

/** Refresh tokens of each side: no more than one account may have at one client. */
const TOKENS = 50;

const REFRESH_TOKEN = /"refresh_token":"([^"]+)"/;

export const refreshLoad: OauthLoad = async (side, { requests }, connections) => {
  const exchanges = (await side.codes(TOKENS)).map((code) => side.exchange(code));
  const { found } = await once(side.base, exchanges, { find: REFRESH_TOKEN });
  const refreshes = Array.from({ length: requests }, (_each, index) =>
    side.refresh(found[index % found.length] ?? ""),
  );
  return () => metered(side, () => once(side.base, refreshes, { connections }));
};

export const refresh: Measurement = {
  name: "refresh",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const sides = {
          service: rate(await refreshLoad(service, effort, connections)),
          oidc: rate(await refreshLoad(oidc, effort, connections)),
        };
        const rates = await inTurns(effort, sides, WARM);
        return [
          {
            work: "refresh",
            against,
            value: rates.service / rates.oidc,
            unit: "×",
            target: 1.2,
            raw: `${perSecond(rates.service)} to ${perSecond(rates.oidc)}`,
          },
        ];
      }),
    ),
};
