/** The running sign-ins of oidc-provider, as the steps need them. */
import { callerOf, type ServiceContext } from "../provider/exchange.ts";
import { errors, type Interaction, type InteractionResults, type Provider } from "oidc-provider";
import { artifactKey } from "../provider/adapter.ts";
import { clientNow } from "../records/audit/audit-event.ts";
import { isInternal } from "../accounts/clients/client.ts";
import type { Artifact } from "../records/artifacts/artifact.ts";
import type { AccountRecord, ClientRecord } from "../records/directory/directory.ts";
import { isDisabled } from "../accounts/account.ts";
import { ADMINISTRATION_CLIENT } from "../accounts/clients/client.ts";
import { offersProvider, type ProviderSignIn } from "../accounts/providers.ts";
import { isSessionCurrent, type SessionGeneration } from "../accounts/sign-in-sessions.ts";
import { isClaimable, type KindOfClient } from "../accounts/clients/client-kinds.ts";
import { FULL_NAME, fullName } from "../accounts/names.ts";
import type { IdentityProvider } from "../config/providers.ts";
import { hasWay, kindsOf, outranksMail } from "../accounts/ways/ways.ts";
import { shownName } from "../accounts/field-texts.ts";
import { DOCUMENTED_FIELDS, type FieldRow } from "../accounts/profile-fields.ts";
import { type RequestedApi, requestedApis } from "../provider/apis.ts";
import { ConditionFailed } from "../core/errors.ts";
import { acrOf, acrRequest, demandedAcr, satisfies, strongestAcr } from "../provider/authentication.ts";
import { ALL_FIELDS, requestedAcr } from "../provider/claims.ts";
import { seconds } from "../core/clock.ts";
import { renewSignInCookies } from "../provider/sessions/cookies.ts";
import type { ServedProvider } from "../provider/current-provider.ts";
import type { ProviderServices } from "../provider/services.ts";
import type { Signer } from "../core/sealing.ts";
import { hasSecondFactor } from "../accounts/factors/factor.ts";
import {
  INVITED,
  OWN_WAYS,
  PROVIDER_HINTS,
  SELECT_ACCOUNT,
  SENT_ACR_VALUES,
  SENT_MAX_AGE,
  STEP_UPS,
} from "../provider/policy.ts";
import { receivedQuery, type RequestSeals } from "./again.ts";
import { provenOf } from "./steps/sign-in.ts";
import type {
  ConsentApi,
  Proven,
  RunningSignIn,
  SignInClient,
  SignInState,
} from "./steps/running-sign-in.ts";
import type { SignInProtocol } from "./steps/step.ts";

/** The interaction of this browser; oidc-provider reports a missing one as an error. */
async function details({ provider }: ServedProvider, ctx: ServiceContext): Promise<Interaction | undefined> {
  // The cookie of a sign-in stays on the paths of the sign-in. The trip has named it, and it is found in its browser only.
  if (ctx.exchange.endpoint === "providerCallback") return interactionOf(provider, ctx.exchange.uid ?? "");
  try {
    return await provider.interactionDetails(ctx.req, ctx.res);
  } catch (error) {
    if (error instanceof errors.SessionNotFound) return undefined;
    throw error;
  }
}

/** The interaction with this id, with the checks of oidc-provider (lib/provider.js, `#getInteraction`). */
async function interactionOf(
  { Interaction: model, Session }: Pick<Provider, "Interaction" | "Session">,
  uid: string,
): Promise<Interaction | undefined> {
  const found = await model.find(uid);
  if (found?.session?.uid === undefined) return found;
  const session = await Session.findByUid(found.session.uid);
  return session?.accountId === found.session.accountId ? found : undefined;
}

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** An API as people see it. */
export const consentApi = ({ api, scopes }: RequestedApi): ConsentApi => ({
  identifier: api.identifier,
  name: api.name,
  scopes: scopes.map((scope) => ({ name: scope, label: api.scopes[scope] ?? scope })),
});

/** The APIs as a consent stores them. */
export const allowedApis = (apis: readonly RequestedApi[]): Record<string, readonly string[]> =>
  Object.fromEntries(apis.map(({ api, scopes }) => [api.identifier, scopes]));

/** The providers of a client, those whose domains count, and the one that the request names. */
function providersFor(
  all: readonly IdentityProvider[],
  client: ClientRecord,
  params: Interaction["params"],
): Pick<RunningSignIn, "providers" | "domains" | "hinted"> {
  const providers = all.filter((provider) => offersProvider(client, provider));
  const domains = all.filter(
    (provider) => provider.domains.length > 0 && (provider.only || providers.includes(provider)),
  );
  const hinted = PROVIDER_HINTS.map((name) => text(params[name])).find((hint) =>
    providers.some(({ key }) => key === hint),
  );
  return { providers, domains, ...(hinted !== undefined && { hinted }) };
}

/** Whether the answer goes to an application on the device of the person, whichever that is. */
function isForDevice(kind: KindOfClient, { redirect_uri: address }: Interaction["params"]): boolean {
  return typeof address === "string" && isClaimable(kind, address);
}

/** Whether the request wants a recent sign-in. */
const wantsRecent = (params: Interaction["params"]): boolean => ageOf(params).maxAge !== undefined;

/** Whether the request wants a recent sign-in, or says how strong it must be. */
function wantsEverything(params: Interaction["params"]): boolean {
  const { acr_values, claims } = params;
  if (acr_values !== undefined || params[SENT_ACR_VALUES] !== undefined) return true;
  return wantsRecent(params) || (text(claims)?.includes('"acr"') ?? false);
}

/** How old the sign-in may be. */
function ageOf({ prompt, max_age, ...params }: Interaction["params"]): Pick<RunningSignIn, "maxAge"> {
  if (text(prompt)?.split(" ").includes("login")) return { maxAge: 0 };
  const maxAge = max_age ?? params[SENT_MAX_AGE];
  return maxAge === undefined ? {} : { maxAge: Number(maxAge) };
}

/**
 * How often a person can have more time: WCAG 2.2.1 asks for ten times. So no sign-in takes longer than eleven times
 * `lifetimes.interaction`, and no longer than that once after the person has shown something (`stillProven`).
 */
const MAX_EXTENSIONS = 10;

const isExtendable = ({ payload, extensions = 0 }: Artifact): boolean =>
  payload["result"] === undefined && extensions < MAX_EXTENSIONS;

/** The model of the running sign-ins. */
const INTERACTION = "Interaction";

/** The text that the hidden field of an interaction's forms signs. */
const formOf = (uid: string): string => `interaction ${uid}`;

/** The data about the signed-in person that the steps get. */
const knownAccount = (account: AccountRecord, emailCode: boolean): NonNullable<RunningSignIn["account"]> => ({
  sub: account.sub,
  email: account.email,
  name: fullName(account),
  ...(account.locale !== undefined && { locale: account.locale }),
  ways: kindsOf(account, { emailCode }),
  providers: account.ways.provider?.links.map(({ provider }) => provider) ?? [],
});

/** The members of a stored session that are read here. */
interface StoredSession extends Readonly<SessionGeneration> {
  readonly loginTs?: number;
  readonly amr?: readonly string[];
  readonly undated?: boolean;
}

/** Somebody with a session that is in force. */
interface SignedInAs {
  readonly record: AccountRecord;
  readonly at: number;
  readonly amr: readonly string[];
  readonly undated: boolean;
}

/** A step-up begins with what its session has shown, and ends with that session. */
function stateOf(stored: SignInState, stepUp: Proven | undefined): SignInState {
  if (stepUp !== undefined && (stored.step === undefined || stored.proven?.stepUp))
    return { ...stored, step: stored.step ?? "second-factor", proven: stepUp };
  return stored.proven?.stepUp ? {} : stored;
}

export function createSignInProtocol(
  {
    configuration,
    currentProvider,
    units,
    accounts,
    clients,
    documents,
    fields,
    claims: supported,
    storage: { directory },
    secondFactors,
    people,
  }: Pick<
    ProviderServices,
    | "configuration"
    | "currentProvider"
    | "units"
    | "accounts"
    | "clients"
    | "documents"
    | "fields"
    | "claims"
    | "storage"
    | "secondFactors"
    | "people"
  >,
  { forms, seals }: { readonly forms: Signer; readonly seals: RequestSeals },
): SignInProtocol {
  /** Who is signed in; `undefined` if the account is unusable or the session has ended. */
  async function signedInAs({ session }: Interaction): Promise<SignedInAs | undefined> {
    if (session?.accountId === undefined) return undefined;
    const stored: object | undefined = await currentProvider().provider.Session.findByUid(session.uid);
    const payload = { ...stored } as StoredSession;
    const { loginTs, amr, undated = false } = payload;
    const record = await accounts.record(session.accountId);
    if (record === undefined || isDisabled(record)) return undefined;
    if (!isSessionCurrent(payload, record, configuration)) return undefined;
    return { record, at: loginTs ?? 0, amr: amr ?? [], undated };
  }

  const sessionAccount = async (found: Interaction): Promise<AccountRecord | undefined> =>
    (await signedInAs(found))?.record;

  /**
   * What the session of a step-up has shown. It is read again each time, so that a step-up ends with its session; a
   * request for a recent sign-in has other reasons, and asks for everything.
   */
  async function steppingUp(found: Interaction, demanded: string | undefined): Promise<Proven | undefined> {
    const { name, reasons } = found.prompt;
    if (name !== "login" || !reasons.every((reason) => STEP_UPS.includes(reason))) return undefined;
    const signedIn = await signedInAs(found);
    if (signedIn === undefined || !hasSecondFactor(signedIn.record)) return undefined;
    // To add a factor, the person has to show everything.
    const strongest = strongestAcr(signedIn.record, secondFactors);
    if (demanded !== undefined && !satisfies(strongest, demanded)) return undefined;
    const { record, at, amr, undated } = signedIn;
    const isMfa = amr.includes("mfa");
    return {
      ...provenOf(record, at, amr),
      stepUp: true,
      ...(undated && { signedInAt: null }),
      ...(isMfa && { passkeyOnly: true }),
    };
  }

  async function find(ctx: ServiceContext, uid: string): Promise<RunningSignIn | undefined> {
    const found = await details(currentProvider(), ctx);
    // oidc-provider does not compare the path with the cookie.
    if (found === undefined || found.uid !== uid) return undefined;
    const { prompt, params, exp } = found;
    const name = prompt.name === SELECT_ACCOUNT ? "continue" : prompt.name;
    if (name !== "login" && name !== "create" && name !== "consent" && name !== "continue") return undefined;
    const client = await clients.record(text(params["client_id"]) ?? "");
    if (client === undefined || client.disabled) return undefined;
    const own = isInternal(client);
    const unregistered = documents?.shown(client, params["redirect_uri"]);
    // Only the account pages ask the person who is signed in for the password again. Elsewhere it may be somebody else.
    const needsAccount = name === "consent" || name === "continue";
    // On the way to the console, nobody learns who is signed in, and everybody shows everything.
    const operatorsOnly = client.client_id === ADMINISTRATION_CLIENT;
    const knowsAccount = needsAccount || (own && !operatorsOnly && name === "login");
    const account = knowsAccount ? await sessionAccount(found) : undefined;
    if (needsAccount && account === undefined) return undefined;
    const artifact = units.required().known(INTERACTION, artifactKey(uid));
    const stored: SignInState = artifact?.state ?? {};
    const { scopes, claims } = supported.accessIn(params);
    const apis = await requestedApis(client, params, directory);
    const demanded = demandedAcr(
      client,
      configuration.profile,
      acrRequest(requestedAcr(params["claims"])),
      apis.map(({ api }) => api),
    );
    const stepUp = await steppingUp(found, demanded);
    const loginHint = text(params["login_hint"]);
    const uiLocales = text(params["ui_locales"]);
    // A browser that got no answer when the time was extended still has cookies with the old expiry.
    if (artifact?.extensions !== undefined) renewCookies(ctx, found);
    return {
      uid,
      prompt: name,
      client: {
        client_id: client.client_id,
        name: client.name,
        ...(own && { own }),
        ...clientLook(client, ctx.exchange.deployment.path),
        ...(unregistered && { unregistered }),
      },
      clientThen: clientNow(client),
      csrf: forms.sign(formOf(uid)),
      path: `${ctx.exchange.deployment.path}/interaction/${uid}`,
      state: stateOf(stored, stepUp),
      shares:
        name === "consent" ? consentFields({ fields, claims: supported.readBy(client) }, scopes, claims) : [],
      apis: name === "consent" ? apis.map(consentApi) : [],
      expiresAt: exp * 1_000,
      ...(artifact !== undefined && isExtendable(artifact) && { extendable: true }),
      ...(demanded !== undefined && { demandedAcr: demanded }),
      ...(wantsEverything(params) && { wantsEverything: true }),
      ...(wantsRecent(params) && { wantsRecent: true }),
      ...(params[OWN_WAYS] !== undefined && account && hasWay(account, outranksMail) && { byOwnWay: true }),
      ...(own && name === "login" && params[INVITED] !== undefined && { invited: true }),
      ...ageOf(params),
      ...(client.providers_mfa === true && { acceptsProviderMfa: true }),
      ...(operatorsOnly && { operatorsOnly }),
      ...(name !== "consent" && !operatorsOnly && providersFor(configuration.providers, client, params)),
      ...(name === "continue" && isForDevice(clients.kindOf(client), params) && { forDevice: true }),
      ...sealed(ctx, found, exp * 1_000, stored),
      ...(loginHint === undefined ? {} : { loginHint }),
      ...(uiLocales === undefined ? {} : { uiLocales }),
      ...(account && { account: knownAccount(account, people.signInCodes?.isFor(account) ?? false) }),
    };
  }

  /** The request, sealed for the pages of the sign-in, with the name that the person has typed so far. */
  function sealed(
    ctx: ServiceContext,
    { uid, params, parJti }: Pick<Interaction, "uid" | "params"> & { readonly parJti?: string },
    expiresAt: number,
    { username }: SignInState,
  ): Pick<RunningSignIn, "again"> {
    // What a client has pushed stays out of the addresses of browsers.
    if (parJti !== undefined) return {};
    const again = seals.seal(ctx, uid, {
      query: receivedQuery({ ...params, ...(username !== undefined && { login_hint: username }) }),
      browser: ctx.exchange.browser.digest,
      expiresAt,
      // Without fractions: the same page always has the same length.
      sealedAt: Math.floor(configuration.clock.now()),
    });
    return again === undefined ? {} : { again };
  }

  /** Gives the cookies of a sign-in the lifetime of the sign-in. */
  function renewCookies(
    { req, res, exchange: { deployment } }: ServiceContext,
    { uid, returnTo, exp }: Pick<Interaction, "uid" | "returnTo" | "exp">,
  ): void {
    renewSignInCookies(
      currentProvider().provider,
      { req, res },
      { uid, returnTo },
      {
        configuration,
        path: `${deployment.path}/interaction/${uid}`,
        secure: deployment.secure,
        lifetimeSeconds: exp - seconds(configuration.clock),
      },
    );
  }

  /** The record of a sign-in that was found in this request. @throws ConditionFailed if it has ended since. */
  function recordOf(uid: string): Artifact {
    const artifact = units.required().known(INTERACTION, artifactKey(uid));
    if (artifact === undefined) throw new ConditionFailed("the sign-in has ended");
    return artifact;
  }

  /** What `interactionResult` of oidc-provider does. @throws ConditionFailed if the sign-in has ended. */
  async function finish(ctx: ServiceContext, result: InteractionResults, merge: boolean): Promise<string> {
    const found = await details(currentProvider(), ctx);
    if (found === undefined) throw new ConditionFailed("the sign-in has ended");
    found.result = merge && !("error" in result) ? { ...found.lastSubmission, ...result } : result;
    await found.save(found.exp - seconds(configuration.clock));
    return found.returnTo;
  }

  const refuse = (ctx: ServiceContext, error: string, description: string): Promise<string> =>
    finish(ctx, { error, error_description: description }, false);

  return {
    find,
    isOwnForm: ({ uid }, csrf) => forms.verify(formOf(uid), csrf),
    async extend(ctx, signIn) {
      const { uid } = signIn;
      const found = await details(currentProvider(), ctx);
      const { extensions = 0, ...record } = recordOf(uid);
      if (found === undefined || !isExtendable({ ...record, extensions }))
        throw new ConditionFailed("the sign-in has ended");
      const { clock, lifetimes } = configuration;
      const exp = seconds(clock) + lifetimes.interaction;
      const expiresAt = exp * 1_000;
      const after = {
        ...record,
        payload: { ...record.payload, exp },
        expiresAt,
        extensions: extensions + 1,
      };
      units.required().save(after);
      const { returnTo } = found;
      units.required().whenCommitted(() => renewCookies(ctx, { uid, returnTo, exp }));
      const { extendable: _before, ...rest } = signIn;
      return {
        ...rest,
        ...sealed(ctx, found, expiresAt, signIn.state),
        expiresAt,
        ...(isExtendable(after) && { extendable: true }),
      };
    },
    keep({ uid }, state) {
      units.required().save({ ...recordOf(uid), state });
    },
    detach({ uid }, sub) {
      const { payload, ...rest } = recordOf(uid);
      const { session, ...others } = payload as { readonly session?: { readonly accountId?: string } };
      if (session?.accountId === sub) units.required().save({ ...rest, payload: others });
    },
    signedIn(ctx, { prompt }, { sub, sessions_generation: generation }, shown) {
      const { at, signedInAt, amr, remembered = false, provider } = shown;
      const login = {
        accountId: sub,
        ts: signedInAt ?? at,
        acr: acrOf(amr),
        amr: [...amr],
        generation,
        remembered,
        undated: signedInAt === null,
        ...(provider !== undefined && {
          atProvider: { sub, provider, at: seconds(configuration.clock) } satisfies ProviderSignIn,
        }),
      };
      return finish(ctx, prompt === "create" ? { login, create: {} } : { login }, false);
    },
    async allow(ctx) {
      const found = await details(currentProvider(), ctx);
      const account = found && (await sessionAccount(found));
      if (!account) throw new ConditionFailed("the sign-in has ended");
      const { sub, sessions_generation: sessionsGeneration } = account;
      const clientId = text(found.params["client_id"]) ?? "";
      const client = await clients.record(clientId);
      if (client === undefined) throw new ConditionFailed("the client is gone");
      const named = await requestedApis(client, found.params, directory);
      const caller = callerOf(ctx, { kind: "account", id: sub });
      const unregistered = documents?.shown(client, found.params["redirect_uri"]);
      const [only] = named;
      if (unregistered) {
        if (only === undefined) throw new ConditionFailed("the API is gone");
        const allowed = { client, ...only, how: unregistered.how, sessionsGeneration };
        await accounts.allowDocument(sub, allowed, caller);
      } else {
        const access = supported.accessIn(found.params);
        const attributes = supported.readBy(client).attributesIn(access);
        const consent = { ...access, attributes, apis: allowedApis(named), sessionsGeneration };
        await accounts.rememberConsent(sub, clientNow(client), consent, caller);
      }
      // The account holds what was allowed; the result only says that the person has answered.
      return finish(ctx, { consent: {} }, true);
    },
    async continueAs(ctx) {
      const found = await details(currentProvider(), ctx);
      if (!found || !(await sessionAccount(found))) throw new ConditionFailed("the sign-in has ended");
      return finish(ctx, { [found.prompt.name]: {} }, true);
    },
    refuse,
    deny: (ctx) => refuse(ctx, "access_denied", "the user refused"),
  };
}

/** How the client looks to people. The digest in the address lets a browser keep the logo. */
export function clientLook(
  { client_id, logo, client_uri, policy_uri, tos_uri }: ClientRecord,
  base: string,
): Pick<SignInClient, "logo" | "client_uri" | "policy_uri" | "tos_uri"> {
  return {
    ...(logo !== undefined && { logo: `${base}/clients/${client_id}/logo?${logo.sha256}` }),
    ...(client_uri !== undefined && { client_uri }),
    ...(policy_uri !== undefined && { policy_uri }),
    ...(tos_uri !== undefined && { tos_uri }),
  };
}

/** The documented profile, which a request without a scope asks for. */
const DOCUMENTED: readonly string[] = ["sub", "email", ...DOCUMENTED_FIELDS];

/**
 * The fields that these scopes and claims reveal, in the order of the documented profile.
 * @param attributes the only ones that the person has allowed. Default: all.
 */
export function consentFields(
  { fields, claims: supported }: Pick<ProviderServices, "fields" | "claims">,
  scopes: readonly string[],
  claims: readonly string[],
  attributes?: readonly string[],
): string[] {
  const isLeftOut = ({ name, isAttribute }: FieldRow): boolean =>
    isAttribute === true && attributes?.includes(name) === false;
  /** The documented `name` is only the given name. */
  const fieldsOf = (claim: string): readonly string[] => {
    const row = fields.ofClaim.get(claim);
    if (row !== undefined) return row.isHidden || isLeftOut(row) ? [] : [shownName(row)];
    return claim === "name" ? FULL_NAME : [claim];
  };
  const opened = new Set<string>(["sub"]);
  if (scopes.includes(ALL_FIELDS)) for (const field of DOCUMENTED) opened.add(field);
  const named = scopes.flatMap((scope) => supported.ofScope.get(scope) ?? []);
  for (const claim of [...named, ...claims])
    if (supported.isPersonal(claim)) for (const field of fieldsOf(claim)) opened.add(field);
  return [
    ...DOCUMENTED.filter((field) => opened.has(field)),
    ...[...opened].filter((field) => !DOCUMENTED.includes(field)),
  ];
}
