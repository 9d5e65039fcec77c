/** The interactions of oidc-provider, as the pages need them. */
import { errors, type Interaction, type InteractionResults } from "oidc-provider";
import type { AccountRecord } from "../lib/directory/directory.ts";
import type { UnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import type { Configuration } from "../config/configuration.ts";
import { isDisabled } from "../lib/domain/account.ts";
import type { AccountInternals } from "../lib/domain/account.ts";
import type { ClientInternals } from "../lib/domain/client.ts";
import type { Actor, Caller } from "../lib/audit/audit-event.ts";
import { ANONYMOUS } from "../lib/audit/audit-event.ts";
import type { AuditCollector } from "../lib/audit/collector.ts";
import { originOf } from "../lib/audit/origin.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import { isPersonal, requestedClaims, scopeClaims } from "../lib/provider/claims.ts";
import type { CurrentProvider, ServedProvider } from "../lib/provider/current-provider.ts";
import { type AttemptLimits, noteLimited } from "../lib/provider/attempt-limits.ts";
import { ConditionFailed } from "../lib/errors.ts";
import { ALL_FIELDS } from "../lib/provider/claims.ts";
import { ACR_PASSWORD, AMR_PASSWORD } from "../lib/provider/claims.ts";
import type { Signer } from "../lib/sealing.ts";
import type { DeviceCookies } from "./device-cookie.ts";
import type { InteractionContext, InteractionFlow, RunningInteraction, SignInOutcome } from "./flow.ts";

/** The parts of the service that a sign-in uses. */
export interface ProviderFlowParts {
  readonly currentProvider: CurrentProvider;
  readonly units: UnitsOfWork;
  readonly configuration: Pick<Configuration, "clock">;
  readonly accounts: AccountInternals;
  readonly clients: ClientInternals;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly devices: DeviceCookies;
  /** Signs the hidden field of the forms. */
  readonly forms: Signer;
  /** The caller's IP address, as far as proxies are trusted. */
  readonly addressOf: (ctx: InteractionContext) => string;
}

/** The interaction of this browser; oidc-provider reports a missing one as an error. */
async function details(
  { provider }: ServedProvider,
  ctx: InteractionContext,
): Promise<Interaction | undefined> {
  try {
    return await provider.interactionDetails(ctx.req, ctx.res);
  } catch (error) {
    if (error instanceof errors.SessionNotFound) return undefined;
    throw error;
  }
}

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

function requestedAccess({ params }: Interaction): { scopes: string[]; claims: string[] } {
  return { scopes: (text(params["scope"]) ?? "").split(" "), claims: requestedClaims(params["claims"]) };
}

/** The caller as the audit log records it. */
function callerOf(
  { addressOf }: Pick<ProviderFlowParts, "addressOf">,
  ctx: InteractionContext,
  actor: Actor,
): Caller {
  return { actor, ...originOf(addressOf(ctx), ctx.req.headers["user-agent"]) };
}

/** The text that the hidden field of an interaction's forms signs. */
const formOf = (uid: string): string => `interaction ${uid}`;

/** The flow over oidc-provider. */
export function createProviderFlow(parts: ProviderFlowParts): InteractionFlow {
  const { currentProvider, accounts, clients, devices, forms } = parts;

  /** The account whose consent is requested; `undefined` if it is unusable or the session has ended. */
  async function consentingAccount({ session }: Interaction): Promise<AccountRecord | undefined> {
    if (session?.accountId === undefined) return undefined;
    const stored: object | undefined = await currentProvider().provider.Session.findByUid(session.uid);
    const { generation } = { ...stored } as { readonly generation?: number };
    const record = await accounts.record(session.accountId);
    if (record === undefined || isDisabled(record)) return undefined;
    return record.sessions_generation === generation ? record : undefined;
  }

  async function find(ctx: InteractionContext, uid: string): Promise<RunningInteraction | undefined> {
    devices.clearEarlier(ctx);
    const found = await details(currentProvider(), ctx);
    // oidc-provider does not compare the path with the cookie.
    if (found === undefined || found.uid !== uid) return undefined;
    const { prompt, params } = found;
    if (prompt.name !== "login" && prompt.name !== "consent") return undefined;
    const client = await clients.record(text(params["client_id"]) ?? "");
    if (client === undefined || client.disabled) return undefined;
    const account = prompt.name === "consent" ? await consentingAccount(found) : undefined;
    if (prompt.name === "consent" && account === undefined) return undefined;
    const { scopes, claims } = requestedAccess(found);
    const loginHint = text(params["login_hint"]);
    const uiLocales = text(params["ui_locales"]);
    return {
      uid,
      prompt: prompt.name,
      client: {
        client_id: client.client_id,
        name: client.name,
        ...(client.service === null && { own: true }),
      },
      csrf: forms.sign(formOf(uid)),
      action: `${ctx.state.deployment.path}/interaction/${uid}`,
      fields: prompt.name === "consent" ? consentFields(scopes, claims) : [],
      ...(loginHint === undefined ? {} : { loginHint }),
      ...(uiLocales === undefined ? {} : { uiLocales }),
      ...(account === undefined ? {} : { account: account.email }),
    };
  }

  const finish = (ctx: InteractionContext, result: InteractionResults, merge: boolean): Promise<string> =>
    currentProvider().provider.interactionResult(ctx.req, ctx.res, result, {
      mergeWithLastSubmission: merge,
    });

  return {
    find,
    isOwnForm: ({ uid }, csrf) => forms.verify(formOf(uid), csrf),
    signIn: (ctx, running, credentials) => signIn(ctx, running, credentials, { ...parts, finish }),
    async allow(ctx) {
      const found = await details(currentProvider(), ctx);
      const account = found && (await consentingAccount(found));
      if (!account) throw new ConditionFailed("the sign-in has ended");
      const { sub, sessions_generation: sessionsGeneration } = account;
      const clientId = text(found.params["client_id"]) ?? "";
      const consent = { ...requestedAccess(found), sessionsGeneration };
      const caller = callerOf(parts, ctx, { kind: "account", id: sub });
      await accounts.rememberConsent(sub, clientId, consent, caller);
      // The account holds what was allowed; the result only says that the person has answered.
      return finish(ctx, { consent: {} }, true);
    },
    deny: (ctx) => finish(ctx, { error: "access_denied", error_description: "the user refused" }, false),
  };
}

async function signIn(
  ctx: InteractionContext,
  running: RunningInteraction,
  { username, password }: { readonly username: string; readonly password: string },
  parts: ProviderFlowParts & {
    finish: (ctx: InteractionContext, result: InteractionResults, merge: boolean) => Promise<string>;
  },
): Promise<SignInOutcome> {
  const { units, accounts, limits, events, audit, devices, addressOf, configuration, finish } = parts;
  const { client_id } = running.client;
  const known = await accounts.recordByLogin(username);
  const device = known && devices.read(ctx, known);
  const attempt = await limits.signIn({
    name: username,
    address: addressOf(ctx),
    ...(device === undefined ? {} : { device }),
  });
  const action = "sign_in";
  const failed = { ...callerOf(parts, ctx, ANONYMOUS), action, client: client_id } as const;
  if (!attempt.allowed) {
    events.emit("sign_in.failure", { reason: "limited", client_id });
    noteLimited(audit, { ...failed, ...(known && { subject: known.sub }) }, attempt);
    return { kind: "limited", retryAfter: attempt.retryAfter };
  }
  const { refusal, record } = await accounts
    .authenticate(username, password)
    .catch(async (fault: unknown) => {
      await attempt.withdraw();
      throw fault;
    });
  if (refusal !== undefined || record === undefined) {
    const reason = refusal ?? "credentials";
    events.emit("sign_in.failure", { reason, client_id });
    audit.note({ ...failed, ...(record && { subject: record.sub }), outcome: "failure", reason });
    return { kind: "wrong" };
  }
  await attempt.succeed();
  const login = {
    accountId: record.sub,
    ts: Math.floor(configuration.clock.now() / 1000),
    acr: ACR_PASSWORD,
    amr: [...AMR_PASSWORD],
    generation: record.sessions_generation,
  };
  const location = await finish(ctx, { login }, false);
  devices.write(ctx, record);
  const success = { sub: record.sub, client_id, deployment: ctx.state.deployment.kind };
  const caller = callerOf(parts, ctx, { kind: "account", id: record.sub });
  units.current()?.whenCommitted(() => {
    events.emit("sign_in.success", success);
    audit.note({ ...caller, action, client: client_id, subject: record.sub });
  });
  return { kind: "done", location };
}

/** The documented profile, which a request without a scope asks for. */
const DOCUMENTED: readonly string[] = ["sub", "email", "name", "surname", "date_of_birth", "gender"];

/** The documented fields that a standard claim reveals. The documented `name` is only the given name. */
const documentedFields: ReadonlyMap<string, readonly string[]> = new Map([
  ["name", ["name", "surname"]],
  ["given_name", ["name"]],
  ["family_name", ["surname"]],
  ["birthdate", ["date_of_birth"]],
]);

const claimsOfScope: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(scopeClaims));

/** The fields that these scopes and claims reveal, in the order of the documented profile. */
function consentFields(scopes: readonly string[], claims: readonly string[]): string[] {
  const opened = new Set<string>(["sub"]);
  if (scopes.includes(ALL_FIELDS)) for (const field of DOCUMENTED) opened.add(field);
  const named = scopes.flatMap((scope) => claimsOfScope.get(scope) ?? []);
  for (const claim of [...named, ...claims].filter(isPersonal)) {
    for (const field of documentedFields.get(claim) ?? [claim]) opened.add(field);
  }
  return [
    ...DOCUMENTED.filter((field) => opened.has(field)),
    ...[...opened].filter((field) => !DOCUMENTED.includes(field)),
  ];
}
