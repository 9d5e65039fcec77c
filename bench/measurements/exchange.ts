/** The exchange of codes, each once. */
import { once } from "../load.ts";
import { type OauthLoad, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, WARM } from "../rounds.ts";

export const exchangeLoad: OauthLoad =
  async (side, { requests }, connections) =>
  async () => {
    const exchanges = (await side.codes(requests)).map((code) => side.exchange(code));
    return (await once(side.base, exchanges, { connections })).perSecond;
  };

export const exchange: Measurement = {
  name: "exchange",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const sides = {
          service: await exchangeLoad(service, effort, connections),
          oidc: await exchangeLoad(oidc, effort, connections),
        };
        const rates = await inTurns(effort, sides, WARM);
        return [
          {
            work: "code exchange",
            against,
            value: rates.service / rates.oidc,
            unit: "×",
            target: 1.5,
            raw: `${perSecond(rates.service)} to ${perSecond(rates.oidc)}`,
          },
        ];
      }),
    ),
};
