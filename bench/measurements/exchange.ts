/** The exchange of codes, each once. */
import { once } from "../load.ts";
import { metered, type OauthLoad, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate, WARM } from "../rounds.ts";

export const exchangeLoad: OauthLoad =
  async (side, { requests }, connections) =>
  async () => {
    const exchanges = (await side.codes(requests)).map((code) => side.exchange(code));
    return metered(side, () => once(side.base, exchanges, { connections }));
  };

export const exchange: Measurement = {
  name: "exchange",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const sides = {
          service: rate(await exchangeLoad(service, effort, connections)),
          oidc: rate(await exchangeLoad(oidc, effort, connections)),
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
