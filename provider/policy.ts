/** When oidc-provider must ask the user: its own rules, and ours. Nothing here writes. */
import { errors, interactionPolicy, type KoaContextWithOIDC } from "oidc-provider";
import { isSessionCurrent, type SessionGeneration } from "../accounts/sign-in-sessions.ts";
import { isAssigned, type OidcAccount } from "./account.ts";
import {
  type AcrRequest,
  addableAcr,
  type AllowedFactors,
  acrRequest,
  hasShownFactorAt,
  KNOWN_ACRS,
  remainingAcr,
  satisfies,
  strongestAcr,
} from "./authentication.ts";
import { isClaimable } from "../accounts/clients/client-kinds.ts";
import { consentOf } from "../accounts/clients/consents.ts";
import { needsSecondFactor } from "../accounts/factors/factor.ts";
import { isByMailAlone } from "../accounts/ways/ways.ts";
import { generationAt } from "../accounts/generations.ts";
import type { ProviderRules } from "../accounts/providers.ts";
import type { Configuration } from "../config/configuration.ts";
import { apisOf, asDemanding, isShutOut } from "./apis.ts";
import { type Claims, requestedAcr } from "./claims.ts";
import { clientRecord } from "./clients.ts";
import type { ProviderServices } from "./services.ts";

const { Check, Prompt, base } = interactionPolicy;

/** A session ends with its account, and when the account's sessions were ended after the sign-in. */
function isStale({ oidc: { session, account } }: KoaContextWithOIDC, rules: ProviderRules): boolean {
  if (!session?.accountId) return false;
  if (account === undefined) return true;
  return !isSessionCurrent(session as SessionGeneration, (account as OidcAccount).record, rules);
}

/** The reasons when only a stronger proof is missing: the session and its `auth_time` stay. */
const STEP_UP = "acr";
const CLIENT_POLICY = "second_factor";
export const STEP_UPS: readonly string[] = [STEP_UP, CLIENT_POLICY];

/**
 * The parameter that carries `acr_values` through oidc-provider, which refuses it without the scope `openid`. It holds for
 * every request (RFC 9470 section 4).
 */
export const SENT_ACR_VALUES = "sent_acr_values";

/** The parameter of the account pages for a sign-in with a way of the account's own: a provider's word is not enough. */
export const OWN_WAYS = "own_ways";

/** The parameter of the account pages for a sign-in that begins with an invitation. */
export const INVITED = "invited";

/**
 * What a request says about `acr`, in either way. oidc-provider replaces the claim by `acr_values`: that would turn a demand into
 * a wish.
 */
export function acrRequestOf({
  claims,
  params,
}: Pick<KoaContextWithOIDC["oidc"], "claims" | "params">): AcrRequest {
  const sent = params?.[SENT_ACR_VALUES];
  if (typeof sent === "string") return { essential: false, values: sent.split(" ") };
  const claimed = acrRequest(requestedAcr(params?.["claims"]));
  return claimed.essential && claimed.values !== undefined ? claimed : acrRequest(claims.id_token?.["acr"]);
}

/**
 * Whether the client, or an API that it asks for, needs a second factor, and the session has none. A person without one adds one during the sign-in.
 */
async function lacksSecondFactor(
  { oidc }: KoaContextWithOIDC,
  profile: Configuration["profile"],
  directory: ProviderServices["storage"]["directory"],
): Promise<boolean> {
  const { session, account, client } = oidc;
  if (!session?.accountId || account === undefined || client === undefined) return false;
  const reader = clientRecord(client);
  if (hasShownFactorAt(reader, session, (account as OidcAccount).record)) return false;
  const apis = await asDemanding(reader, [...apisOf(oidc).values()], directory);
  return needsSecondFactor(reader, profile, apis);
}

/**
 * Whether the session must become stronger. An essential `acr` is a demand (OpenID Connect Core 1.0 section 5.5.1.1): one
 * that nobody can meet here fails instead of asking forever. A person whose factors are too weak adds one while signing in.
 * `acr_values` is a wish, in order of preference: the person is asked once, for the first value that the account can reach.
 */
function needsStepUp({ oidc }: KoaContextWithOIDC, allowed: AllowedFactors): boolean {
  const { session, account, client, result, prompts } = oidc;
  const { essential, values } = acrRequestOf(oidc);
  if (values === undefined) return false;
  const wanted = values.filter((value) => KNOWN_ACRS.includes(value));
  if (essential && wanted.length === 0)
    throw new errors.UnmetAuthenticationRequirements("no sign-in of this service has the requested acr");
  if (!session?.accountId || account === undefined || client === undefined) return false;
  const strongest = strongestAcr((account as OidcAccount).record, allowed);
  const shown = remainingAcr(clientRecord(client), session, strongest);
  const reachable = wanted.filter((value) => satisfies(strongest, value));
  if (essential) {
    if (wanted.some((value) => satisfies(shown, value))) return false;
    const addable = addableAcr(allowed);
    if (reachable.length > 0 || wanted.some((value) => satisfies(addable, value))) return true;
    throw new errors.UnmetAuthenticationRequirements("the account can't sign in with the requested acr");
  }
  const [preferred] = reachable;
  if (preferred === undefined || result?.login !== undefined || prompts.has("none")) return false;
  return !satisfies(shown, preferred);
}

/**
 * The parameter that carries `max_age` through oidc-provider, which refuses it without the scope `openid`. It holds for
 * every request (RFC 9470 section 4).
 */
export const SENT_MAX_AGE = "sent_max_age";

/** The parameters with which a client names a provider: a page of ours offers it first. The second one is Keycloak's. */
export const PROVIDER_HINTS = ["provider_hint", "kc_idp_hint"] as const;

/** Checks the parameter as oidc-provider checks `max_age`: 0 asks for a new sign-in. */
export function checkSentMaxAge(ctx: KoaContextWithOIDC, value: string | undefined): void {
  if (value === undefined) return;
  const seconds = Number(value);
  if (!Number.isSafeInteger(seconds) || seconds < 0)
    throw new errors.InvalidRequest("invalid max_age parameter value");
  const { params, prompts } = ctx.oidc;
  if (seconds > 0 || params === undefined) return;
  params[SENT_MAX_AGE] = undefined;
  prompts.add("login");
  params["prompt"] = [...prompts].join(" ");
}

/** Whether the sign-in is older than a request without `openid` allows. A sign-in for this request is recent enough. */
function isTooOld({ oidc: { session, params, result } }: KoaContextWithOIDC): boolean {
  const maxAge = params?.[SENT_MAX_AGE];
  if (typeof maxAge !== "string" || result?.login !== undefined) return false;
  return !session?.accountId || session.past(Number(maxAge));
}

/**
 * In a remembered browser only the password was shown, and not every provider says when the person signed in there: neither is as
 * recent as any `max_age`. Nor is a code by mail, to an account that has something better.
 */
function isNeverRecent({ oidc: { session, account, params, result } }: KoaContextWithOIDC): boolean {
  if (result?.login !== undefined) return false;
  if (params?.["max_age"] === undefined && params?.[SENT_MAX_AGE] === undefined) return false;
  const { remembered, undated } = { ...(session as SessionGeneration | undefined) };
  if (remembered === true || undated === true) return true;
  return account !== undefined && isByMailAlone(session?.amr ?? [], (account as OidcAccount).record);
}

/** The `sub` of an `id_token_hint`. oidc-provider verifies the hint when the request arrives, and not again after the sign-in. */
function hintedSub(hint: unknown): unknown {
  const [, payload] = typeof hint === "string" ? hint.split(".") : [];
  if (payload === undefined) return undefined;
  return (JSON.parse(Buffer.from(payload, "base64url").toString()) as { readonly sub?: unknown }).sub;
}

/**
 * A request can name the person: by `id_token_hint`, or by the value of the claim `sub`. Somebody else who is signed in is
 * asked to sign in again. Somebody else who has signed in just for this request gets no code, instead of the form again
 * (OpenID Connect Core 1.0 sections 3.1.2.1 and 5.5.1).
 */
function isSomebodyElse({ oidc }: KoaContextWithOIDC): boolean {
  const claimed = oidc.claims.id_token?.["sub"] as { readonly value?: unknown } | null | undefined;
  const named = [hintedSub(oidc.params?.["id_token_hint"]), claimed?.value].filter(
    (sub) => sub !== undefined,
  );
  if (named.every((sub) => sub === oidc.session?.accountId)) return false;
  if (oidc.result?.login !== undefined)
    throw new errors.LoginRequired("the person who has signed in is not the one that the request names");
  return true;
}

/** A user who was unassigned from a service does not return to it without noticing: `prompt=none` is refused. */
function isUnassigned(ctx: KoaContextWithOIDC): boolean {
  const { account, client, grant, prompts } = ctx.oidc;
  if (!account || !client || !grant || !prompts.has("none")) return false;
  const { record } = account as OidcAccount;
  const clientEntry = clientRecord(client);
  const { service } = clientEntry;
  const assigning = [...apisOf(ctx.oidc).values()].filter(({ assign }) => assign);
  return [service, ...assigning.map((api) => api.service)].some(
    (key) => key !== null && !isAssigned(record, key) && generationAt(record.service_generations, key) > 0,
  );
}

/** Refuses people who do not use the service of an API before they are asked for consent. Checked after the sign-in. */
function refuseStrangers(ctx: KoaContextWithOIDC): boolean {
  const { account, client } = ctx.oidc;
  if (!account || !client) return false;
  const { record } = account as OidcAccount;
  for (const api of apisOf(ctx.oidc).values())
    if (isShutOut(record, clientRecord(client), api))
      throw new errors.AccessDenied("the person does not use the service of this resource");
  return false;
}

/**
 * A third party reads only the attributes that the person has seen. One that has joined a scope since is left out until a page
 * has asked; `prompt=none` has no page.
 */
function hasUnseenAttribute({ oidc }: KoaContextWithOIDC, claims: Claims): boolean {
  const { account, client, params, prompts, result } = oidc;
  if (!account || !client || prompts.has("none") || result?.consent !== undefined) return false;
  const record = clientRecord(client);
  if (record.first_party) return false;
  const { attributes = [] } = consentOf((account as OidcAccount).record, record.client_id);
  const requested = claims.readBy(record).attributesIn(claims.accessIn(params ?? {}));
  return requested.some((name) => !attributes.includes(name));
}

/** Every request of a client that nobody has registered asks the person: what was allowed before holds for its own grant only. */
const isAskedAlways = ({ oidc: { client, result } }: KoaContextWithOIDC): boolean =>
  client !== undefined && clientRecord(client).document !== undefined && result?.consent === undefined;

/**
 * Any application on a device can claim a loopback or private-use address, and then ask for a code with somebody else's
 * `client_id` (RFC 8252 section 8.6). So nothing goes there unless the person has done something in this very interaction: a
 * sign-in, consent, or the answer to this prompt. It is checked on the address that is used.
 */
function isSilentToNative(
  { oidc: { client, params, result } }: KoaContextWithOIDC,
  clients: ProviderServices["clients"],
): boolean {
  const address = params?.["redirect_uri"];
  if (client === undefined || typeof address !== "string") return false;
  if (!isClaimable(clients.kindOf(clientRecord(client)), address)) return false;
  return [result?.login, result?.consent, result?.["continue"], result?.[SELECT_ACCOUNT]].every(
    (answer) => answer === undefined,
  );
}

/** `prompt=select_account`: the person continues with the account of the session, or signs in to another one. */
export const SELECT_ACCOUNT = "select_account";

/** A sign-in for this request is a selection too, so `prompt=login select_account` is `prompt=login`. */
function selectsAccount({ oidc }: KoaContextWithOIDC): boolean {
  return (
    oidc.prompts.has(SELECT_ACCOUNT) && oidc.promptPending(SELECT_ACCOUNT) && oidc.result?.login === undefined
  );
}

function selectAccountPrompt(): interactionPolicy.Prompt {
  const prompt = new Prompt({ name: SELECT_ACCOUNT, requestable: true });
  // The check of oidc-provider asks again after a sign-in.
  prompt.checks.clear();
  prompt.checks.add(
    new Check(
      `${SELECT_ACCOUNT}_prompt`,
      "the person has to select an account",
      "account_selection_required",
      selectsAccount,
    ),
  );
  return prompt;
}

/** `interactions.policy` of oidc-provider. */
export function signInPolicy({
  configuration,
  secondFactors: allowed,
  claims,
  clients,
  storage: { directory },
}: Pick<
  ProviderServices,
  "configuration" | "secondFactors" | "claims" | "clients" | "storage"
>): interactionPolicy.DefaultPolicy {
  const { profile } = configuration;
  const policy = base();
  const login = policy.get("login");
  login?.checks.add(
    new Check("session_stale", "the sign-in session has ended", "login_required", (ctx) =>
      isStale(ctx, configuration),
    ),
  );
  // oidc-provider compares an essential `acr` as text, and asks forever for one that nobody can have.
  login?.checks.remove("essential_acrs");
  login?.checks.remove("essential_acr");
  login?.checks.add(new Check("sent_max_age", "the sign-in is too old", "login_required", isTooOld));
  login?.checks.add(
    new Check(STEP_UP, "a stronger sign-in is needed", "interaction_required", (ctx) =>
      needsStepUp(ctx, allowed),
    ),
  );
  login?.checks.add(
    new Check(CLIENT_POLICY, "the client or the API needs a second factor", "interaction_required", (ctx) =>
      lacksSecondFactor(ctx, profile, directory),
    ),
  );
  login?.checks.add(
    new Check("never_recent", "the sign-in counts as recent nowhere", "login_required", isNeverRecent),
  );
  // oidc-provider would show the form to somebody else again and again.
  login?.checks.remove("id_token_hint");
  login?.checks.remove("claims_id_token_sub_value");
  login?.checks.add(
    new Check("named_person", "somebody else is signed in", "login_required", isSomebodyElse),
  );
  // After the sign-in, before the consent of that account.
  policy.add(selectAccountPrompt(), 1);
  policy
    .get("consent")
    ?.checks.add(
      new Check("stranger", "the person may not use a resource", "access_denied", refuseStrangers),
      0,
    );
  policy
    .get("consent")
    ?.checks.add(
      new Check(
        "unseen_attributes",
        "the person has not seen all that is requested",
        "consent_required",
        (ctx) => hasUnseenAttribute(ctx, claims),
      ),
    );
  policy
    .get("consent")
    ?.checks.add(
      new Check("unregistered", "nobody has registered the client", "consent_required", isAskedAlways),
    );
  // oidc-provider asks native clients for consent each time. What they need is the prompt `continue`.
  policy.get("consent")?.checks.remove("native_client_prompt");
  policy.add(
    new Prompt(
      { name: "assignment", requestable: false },
      new Check(
        "unassigned",
        "the user was unassigned from this service",
        "interaction_required",
        isUnassigned,
      ),
    ),
  );
  policy.add(
    new Prompt(
      { name: "continue", requestable: false },
      new Check(
        "native_address",
        "the person has to agree to go on in an application on this device",
        "interaction_required",
        (ctx) => isSilentToNative(ctx, clients),
      ),
    ),
  );
  return policy;
}

/** `prompt=create`: the person makes an account first (OpenID Connect Prompt Create 1.0). */
export function createPrompt(): interactionPolicy.Prompt {
  return new Prompt({ name: "create", requestable: true });
}
