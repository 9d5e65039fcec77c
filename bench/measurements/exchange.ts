/** The exchange of codes, each once. */
import { once } from "../load.ts";
import { type OauthSide, onEachGround, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, WARM } from "../rounds.ts";

export const exchange: Measurement = {
  name: "exchange",
  run: (effort, folder) =>
    onEachGround(folder, ({ against, stores, connections }) =>
      withBoth(stores, async (service, oidc) => {
        const measure = (side: OauthSide) => async (): Promise<number> => {
          const codes = await side.codes(effort.requests);
          return (
            await once(
              side.base,
              codes.map((code) => side.exchange(code)),
              { connections },
            )
          ).perSecond;
        };
        const rates = await inTurns(effort, { service: measure(service), oidc: measure(oidc) }, WARM);
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
