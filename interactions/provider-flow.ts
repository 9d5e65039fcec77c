/** The running sign-ins of oidc-provider, as the pages need them. */
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
import { placeOf } from "../lib/audit/place.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import { requestedClaims } from "../lib/provider/claims.ts";
import type { CurrentProvider, ServedProvider } from "../lib/provider/current-provider.ts";
import { type AttemptLimits, noteLimited } from "../lib/provider/attempt-limits.ts";
import { ConditionFailed } from "../lib/errors.ts";
import { ACR_PASSWORD, AMR_PASSWORD } from "../lib/provider/claims.ts";
import type { Signer } from "../lib/sealing.ts";
import { consentFields } from "./consent-fields.ts";
import type { DeviceCookies } from "./device-cookie.ts";
import type { InteractionContext, InteractionFlow, RunningInteraction, SignInOutcome } from "./flow.ts";

export interface ProviderFlowDependencies {
  readonly currentProvider: CurrentProvider;
  readonly units: UnitsOfWork;
  readonly configuration: Pick<Configuration, "clock">;
  readonly accounts: AccountInternals;
  readonly clients: ClientInternals;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly devices: DeviceCookies;
  /** Makes the hidden field of the forms. */
  readonly forms: Signer;
  /** The caller's address as far as proxies are trusted. */
  readonly addressOf: (ctx: InteractionContext) => string;
}

/** The library's interaction of this browser; an error of its own means that there is none. */
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

function wishes({ params }: Interaction): { scopes: string[]; claims: string[] } {
  return { scopes: (text(params["scope"]) ?? "").split(" "), claims: requestedClaims(params["claims"]) };
}

/** Who asks, and from where, as far as the audit keeps it. */
function callerOf(
  { addressOf }: Pick<ProviderFlowDependencies, "addressOf">,
  ctx: InteractionContext,
  actor: Actor,
): Caller {
  return { actor, ...placeOf(addressOf(ctx), ctx.req.headers["user-agent"]) };
}

/** What the hidden field of an interaction's forms signs. */
const formOf = (uid: string): string => `interaction ${uid}`;

/** The flow that `createInteractionHandlers` shows. */
export function createProviderFlow(dependencies: ProviderFlowDependencies): InteractionFlow {
  const { currentProvider, accounts, clients, devices, forms } = dependencies;

  /** The account whose consent is asked for; `undefined` when it or the session has ended. */
  async function asked({ session }: Interaction): Promise<AccountRecord | undefined> {
    if (session?.accountId === undefined) return undefined;
    const kept: object | undefined = await currentProvider().provider.Session.findByUid(session.uid);
    const { generation } = { ...kept } as { readonly generation?: number };
    const record = await accounts.record(session.accountId);
    if (record === undefined || isDisabled(record)) return undefined;
    return record.sessions_generation === generation ? record : undefined;
  }

  async function find(ctx: InteractionContext, uid: string): Promise<RunningInteraction | undefined> {
    devices.clearEarlier(ctx);
    const found = await details(currentProvider(), ctx);
    // The library does not compare the path with the cookie.
    if (found === undefined || found.uid !== uid) return undefined;
    const { prompt, params } = found;
    if (prompt.name !== "login" && prompt.name !== "consent") return undefined;
    const client = await clients.record(text(params["client_id"]) ?? "");
    if (client === undefined || client.disabled) return undefined;
    const account = prompt.name === "consent" ? await asked(found) : undefined;
    if (prompt.name === "consent" && account === undefined) return undefined;
    const { scopes, claims } = wishes(found);
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
    signIn: (ctx, running, credentials) => signIn(ctx, running, credentials, { ...dependencies, finish }),
    async allow(ctx) {
      const found = await details(currentProvider(), ctx);
      const account = found && (await asked(found));
      if (!account) throw new ConditionFailed("the sign-in has ended in the meantime");
      const { sub, sessions_generation: sessionsGeneration } = account;
      const clientId = text(found.params["client_id"]) ?? "";
      const consent = { ...wishes(found), sessionsGeneration };
      const caller = callerOf(dependencies, ctx, { kind: "account", id: sub });
      await accounts.rememberConsent(sub, clientId, consent, caller);
      // What was allowed is the account's; the result says only that the person was asked.
      return finish(ctx, { consent: {} }, true);
    },
    deny: (ctx) => finish(ctx, { error: "access_denied", error_description: "the user refused" }, false),
  };
}

async function signIn(
  ctx: InteractionContext,
  running: RunningInteraction,
  { username, password }: { readonly username: string; readonly password: string },
  dependencies: ProviderFlowDependencies & {
    finish: (ctx: InteractionContext, result: InteractionResults, merge: boolean) => Promise<string>;
  },
): Promise<SignInOutcome> {
  const { units, accounts, limits, events, audit, devices, addressOf, configuration, finish } = dependencies;
  const { client_id } = running.client;
  const known = await accounts.recordByLogin(username);
  const device = known && devices.read(ctx, known);
  const attempt = await limits.signIn({
    name: username,
    address: addressOf(ctx),
    ...(device === undefined ? {} : { device }),
  });
  const action = "sign_in";
  const failed = { ...callerOf(dependencies, ctx, ANONYMOUS), action, client: client_id } as const;
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
  const caller = callerOf(dependencies, ctx, { kind: "account", id: record.sub });
  units.current()?.whenCommitted(() => {
    events.emit("sign_in.success", success);
    audit.note({ ...caller, action, client: client_id, subject: record.sub });
  });
  return { kind: "done", location };
}
