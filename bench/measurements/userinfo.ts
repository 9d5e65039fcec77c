/** userinfo against oidc-provider's own, and against a Koa that answers a constant. */
import { again } from "../load.ts";
import { type OauthLoad, withBoth } from "../oauth-side.ts";
import { type Measurement, perSecond } from "../result.ts";
import { inTurns } from "../rounds.ts";
import { startSide } from "../side.ts";

/** As many connections as `again` has. */
export const userinfoLoad: OauthLoad = async (side, effort) => {
  const request = side.userinfo(await side.accessToken());
  return () => again(side.base, request, effort);
};

export const userinfo: Measurement = {
  name: "userinfo",
  run: (effort, folder) =>
    withBoth({ folder }, async (service, oidc) => {
      const koa = await startSide("bare-koa");
      try {
        const ours = service.userinfo(await service.accessToken());
        const theirs = oidc.userinfo(await oidc.accessToken());
        const rates = await inTurns(effort, {
          service: () => again(service.base, ours, effort),
          oidc: () => again(oidc.base, theirs, effort),
          koa: () => again(koa.ready["base"] ?? "", ours, effort),
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
