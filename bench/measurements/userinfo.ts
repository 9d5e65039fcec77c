/** userinfo, compared with that of oidc-provider and with a Koa server that sends a constant. */
import { again, CONNECTIONS } from "../load.ts";
import { metered, type OauthLoad, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns, rate } from "../rounds.ts";
import { startSide } from "../side.ts";

/** The same number of connections as `again`. */
export const userinfoLoad: OauthLoad = async (side, effort) => {
  const request = side.userinfo(await side.accessToken());
  return () => metered(side, () => again(side.base, request, effort));
};

export const userinfo: Measurement = {
  name: "userinfo",
  run: (effort, folder) =>
    withBoth({ folder }, async (service, oidc) => {
      const koa = await startSide("bare-koa");
      try {
        const ours = service.userinfo(await service.accessToken());
        const rates = await inTurns(effort, {
          service: rate(await userinfoLoad(service, effort, CONNECTIONS)),
          oidc: rate(await userinfoLoad(oidc, effort, CONNECTIONS)),
          koa: async () => (await again(koa.ready["base"] ?? "", ours, effort)).perSecond,
        });
        const raw = (other: number): string => `${perSecond(rates.service)} to ${perSecond(other)}`;
        return [
          {
            work: "userinfo",
            against: "oidc-provider's userinfo",
            value: rates.service / rates.oidc,
            unit: "×",
            target: 3,
            raw: raw(rates.oidc),
          },
          {
            work: "userinfo",
            against: "bare Koa, constant JSON",
            value: rates.service / rates.koa,
            unit: "×",
            target: 0.7,
            raw: raw(rates.koa),
          },
        ];
      } finally {
        await koa.stop();
      }
    }),
};
