/**
 * What a person has shown in a sign-in, expressed as `amr` and `acr` (decisions.md, `amr` and `acr`). Only `amr` is
 * stored; `acr` follows from it.
 */
import type { Configuration } from "../config/configuration.ts";
import type { ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import { hasSecondFactor, needsSecondFactor } from "../accounts/factors/factor.ts";
import type { SecondFactors } from "../accounts/factors/factors.ts";
import { allWays, type Way, type WayOwner, WAYS } from "../accounts/ways/ways.ts";

const NAMESPACE = "urn:sign-in-service:acr:";

/** Only a password. */
export const ACR_PASSWORD: string = `${NAMESPACE}password`;
/** A password and a second factor. */
export const ACR_MFA: string = `${NAMESPACE}mfa`;
/** A passkey, alone or after a password. */
export const ACR_PASSKEY: string = `${NAMESPACE}passkey`;

/** Every `acr` that a sign-in can have, weakest first. */
export const KNOWN_ACRS: readonly string[] = [ACR_PASSWORD, ACR_MFA, ACR_PASSKEY];

/** `amr` of a sign-in with a password (RFC 8176 section 2). */
export const AMR_PASSWORD: readonly string[] = WAYS.password.amr;
/** `amr` of a sign-in with a code by mail. */
export const AMR_EMAIL: readonly string[] = WAYS.email.amr;
/** The `amr` that a code of an authenticator app, or a recovery code, adds to the first part. */
export const AMR_CODE: readonly string[] = ["otp", "mfa"];

/**
 * The `amr` that a passkey adds: both factors in one. @param backupEligible whether it can be copied to other devices.
 */
export const amrOfPasskey = (backupEligible: boolean): readonly string[] => [
  backupEligible ? "swk" : "hwk",
  "user",
  "mfa",
];

/** What a provider that has `trustsMfa` adds to the `amr` of a session: it has asked for a second factor, which not every client accepts. */
export const FED_MFA = "fed-mfa";

/** The setting of a client that accepts the second factors of providers. */
type FactorReader = Pick<ClientRecord, "providers_mfa">;

/** What was shown in a session, as this client may know it: a second factor of a provider counts only where the client accepts it. */
export function amrAt(client: FactorReader, amr: readonly string[]): readonly string[] {
  if (!amr.includes(FED_MFA)) return amr;
  const others = amr.filter((value) => value !== FED_MFA);
  return client.providers_mfa === true ? [...new Set([...others, "mfa"])] : others;
}

/** The session that something is asked of, as its `amr` and `acr` say. */
interface ShownInSession {
  readonly acr?: string | undefined;
  readonly amr?: readonly string[] | undefined;
}

/** The `acr` of a session at this client. */
export function acrAt(client: FactorReader, { acr, amr = [] }: ShownInSession): string | undefined {
  return amr.includes(FED_MFA) ? acrOf(amrAt(client, amr)) : acr;
}

/** The `acr` of the strongest of these ways. */
const strongestOf = (ways: readonly Way[], least: string): string =>
  KNOWN_ACRS.findLast((acr) => acr === least || ways.some((way) => NAMESPACE + way.acr === acr)) ?? least;

/** The `acr` of what was shown. */
export function acrOf(amr: readonly string[]): string {
  if (!amr.includes("mfa")) return ACR_PASSWORD;
  const shown = allWays().filter((way) => way.amr.some((value) => amr.includes(value)));
  return strongestOf(shown, ACR_MFA);
}

/** Whether a sign-in with one `acr` is as strong as another. Nothing is as strong as an unknown one. */
export function satisfies(acr: string | undefined, wanted: string): boolean {
  const level = KNOWN_ACRS.indexOf(wanted);
  return level >= 0 && KNOWN_ACRS.indexOf(acr ?? "") >= level;
}

/** The second factors that the configuration allows. */
export type AllowedFactors = Pick<SecondFactors, "enrolments" | "passkeys">;

/** The strongest `acr` that this account can have with the factors that it has now. */
export function strongestAcr(account: WayOwner, allowed: Pick<AllowedFactors, "passkeys">): string {
  const usable = allWays().filter((way) => way.isOn(allowed) && way.ids(account).length > 0);
  return strongestOf(usable, hasSecondFactor(account) ? ACR_MFA : ACR_PASSWORD);
}

/** The strongest `acr` that anybody can reach by adding a factor. Nobody can add one without mail. */
export function addableAcr(allowed: AllowedFactors): string {
  if (allowed.enrolments === undefined) return ACR_PASSWORD;
  return strongestOf(
    allWays().filter((way) => way.isFactor && way.isOn(allowed)),
    ACR_PASSWORD,
  );
}

/** What a request says about `acr`: by `acr_values`, or by the claim (OpenID Connect Core 1.0 section 5.5.1.1). */
export interface AcrRequest {
  readonly essential: boolean;
  /** In order of preference. Left out: any will do. Empty: none that this service could know. */
  readonly values?: readonly string[];
}

/** @param claim the request for the claim `acr`, to which oidc-provider adds `acr_values`. */
export function acrRequest(claim: unknown): AcrRequest {
  if (typeof claim !== "object" || claim === null) return { essential: false };
  const { essential, value, values } = claim as Readonly<Record<string, unknown>>;
  if (value === undefined && values === undefined) return { essential: essential === true };
  const all = [value, ...(Array.isArray(values) ? (values as unknown[]) : [])];
  return { essential: essential === true, values: all.filter((each) => typeof each === "string") };
}

/**
 * Whether a second factor that the account still has was shown in this session. If the last one was removed since, in
 * this session, there is none.
 */
export function hasShownSecondFactor(acr: string | undefined, account: WayOwner): boolean {
  return satisfies(acr, ACR_MFA) && hasSecondFactor(account);
}

/** Whether a provider has asked for a second factor in this session, and the client accepts that. */
const acceptsProvider = (client: FactorReader, { amr = [] }: ShownInSession): boolean =>
  client.providers_mfa === true && amr.includes(FED_MFA);

/** {@link hasShownSecondFactor} at a client, which may accept that of a provider. */
export function hasShownFactorAt(client: FactorReader, session: ShownInSession, account: WayOwner): boolean {
  return acceptsProvider(client, session) || hasShownSecondFactor(session.acr, account);
}

/**
 * The `acr` of a session at this client, without what was removed from the account since. @param strongest that of the
 * account.
 */
export function remainingAcr(
  client: FactorReader,
  session: ShownInSession,
  strongest: string,
): string | undefined {
  const acr = acrAt(client, session);
  const most = acceptsProvider(client, session) && !satisfies(strongest, ACR_MFA) ? ACR_MFA : strongest;
  return satisfies(acr, most) ? most : acr;
}

/** The weakest `acr` that a request, its client and the APIs accept; `undefined` if a password is enough. */
export function demandedAcr(
  client: Pick<ClientRecord, "first_party" | "second_factor">,
  profile: Configuration["profile"],
  { essential, values }: AcrRequest,
  apis: readonly Pick<ApiRecord, "second_factor">[],
): string | undefined {
  const clientAcr = needsSecondFactor(client, profile, apis) ? ACR_MFA : undefined;
  const weakest = essential ? KNOWN_ACRS.find((acr) => values?.includes(acr)) : undefined;
  const level = Math.max(...[weakest, clientAcr].map((acr) => KNOWN_ACRS.indexOf(acr ?? "")));
  return level > 0 ? KNOWN_ACRS[level] : undefined;
}

/** The `acr` to answer with: the strongest requested one that the sign-in satisfies, else what the sign-in has. */
export function answeredAcr(acr: string | undefined, { values = [] }: AcrRequest): string | undefined {
  return KNOWN_ACRS.findLast((each) => values.includes(each) && satisfies(acr, each)) ?? acr;
}
