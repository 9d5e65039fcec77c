/** Refreshes with tokens that stay the same, many of them in turn. */
import { once } from "../load.ts";
import { type OauthSide, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, WARM } from "../rounds.ts";

/** Refresh tokens of each side. */
const TOKENS = 200;

const REFRESH_TOKEN = /"refresh_token":"([^"]+)"/;

export const refresh: Measurement = {
  name: "refresh",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const prepare = async (side: OauthSide): Promise<() => Promise<number>> => {
          const codes = await side.codes(TOKENS);
          const exchanges = codes.map((code) => side.exchange(code));
          const { found } = await once(side.base, exchanges, { find: REFRESH_TOKEN });
          const requests = Array.from({ length: effort.requests }, (_each, index) =>
            side.refresh(found[index % found.length] ?? ""),
          );
          return async () => (await once(side.base, requests, { connections })).perSecond;
        };
        const sides = { service: await prepare(service), oidc: await prepare(oidc) };
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
