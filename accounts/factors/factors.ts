/** Everything about second factors that the sign-in and the account pages call. */
import type { Configuration } from "../../config/configuration.ts";
import { isIpAddress } from "../../config/rules.ts";
import { ConfigurationError } from "../../core/errors.ts";
import { USED_RP_ID } from "../../records/factors/factor-kinds.ts";
import type { Records } from "../../records/records.ts";
import { onlyProvider } from "../providers.ts";
import type { AccountServices } from "../services.ts";
import { createFactorCodes, type FactorCodes } from "./codes.ts";
import { createEnrolments, type Enrolments } from "./enrolment.ts";
import { createPasskeys, type Passkeys, type RelyingParty } from "./passkeys.ts";
import { createRememberedBrowsers, type RememberedBrowsers } from "./remembered-browsers.ts";

/** Which members exist depends on the configuration. Pages must not offer what is missing. */
export interface SecondFactors {
  readonly codes: FactorCodes;
  /** Missing if passkeys are off: by the configuration, or because the host is an IP address. */
  readonly passkeys?: Passkeys;
  /** Missing without mail: nobody could confirm a first factor. */
  readonly enrolments?: Enrolments;
  readonly rememberedBrowsers: RememberedBrowsers;
}

export function createSecondFactors(services: AccountServices): SecondFactors {
  const { configuration, storage, clock, mailDeployment } = services;
  const { interactions, secondFactor, deployments } = configuration;
  const relyingParty = relyingPartyOf(configuration);
  const passkeys =
    relyingParty &&
    createPasskeys(
      relyingParty,
      storage.records,
      clock,
      (account) => onlyProvider(configuration, account) === undefined,
    );
  const { host = "" } = deployments.openid ?? deployments.oauth2 ?? {};
  const issuer = interactions.theme.name ?? host;
  return {
    codes: createFactorCodes(services),
    ...(passkeys && { passkeys }),
    ...(mailDeployment !== undefined && { enrolments: createEnrolments(services, passkeys, issuer) }),
    rememberedBrowsers: createRememberedBrowsers(services, secondFactor.remember),
  };
}

/** For whom passkeys are made; `undefined` if they are off: by the configuration, or for an IP address. */
export function relyingPartyOf({
  interactions,
  cookies,
  deployments,
}: Pick<Configuration, "interactions" | "cookies" | "deployments">): RelyingParty | undefined {
  const bases = [deployments.openid, deployments.oauth2].filter((each) => each !== undefined);
  const hosts = bases.map(({ url }) => new URL(url).hostname);
  const { enabled, previousRpIds, rpId: id = cookies.domain ?? hosts[0] } = interactions.passkeys;
  if (!enabled || id === undefined || hosts.some(isIpAddress)) return undefined;
  return {
    id,
    previousIds: previousRpIds,
    origins: [...new Set(bases.map(({ url }) => new URL(url).origin))],
    name: interactions.theme.name ?? id,
  };
}

/**
 * Refuses a start under which stored passkeys would no longer work.
 * @throws ConfigurationError naming their domains.
 */
export async function checkPasskeyDomains(
  records: Records,
  relyingParty: RelyingParty | undefined,
): Promise<void> {
  if (relyingParty === undefined) return;
  const known = new Set([relyingParty.id, ...relyingParty.previousIds]);
  const used = await records.all<{ readonly rp_id: string }>(USED_RP_ID.name);
  const lost = used.map(({ rp_id }) => rp_id).filter((rpId) => !known.has(rpId));
  if (lost.length > 0)
    throw new ConfigurationError([
      `config.interactions.passkeys: passkeys were made for ${lost.join(", ")}, and this service is ${relyingParty.id}: set rpId to the domain they were made for, or name it in previousRpIds`,
    ]);
}
