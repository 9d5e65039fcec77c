/** When the library must ask the person: its own rules, and four of ours. */
import { errors, interactionPolicy, type KoaContextWithOIDC } from "oidc-provider";
import type { OidcAccount } from "./account.ts";
import { protocolCaller } from "./caller.ts";
import { clientRecord } from "./clients.ts";
import type { ProtocolDependencies } from "./dependencies.ts";
import { currentGenerations } from "./account.ts";
import { KNOWN_ACRS } from "./sign-in-method.ts";

const { Check, Prompt, base } = interactionPolicy;

/** The session as it is patched: it carries the account's `sessions_generation` of the sign-in. */
interface SessionGeneration {
  generation?: number;
}

/** What the sign-in form writes as its result. */
interface LoginResult {
  readonly accountId: string;
  readonly generation?: number;
}

/** A session ends with its account, and when the account's sessions were ended after the sign-in. */
function isStale(ctx: KoaContextWithOIDC): boolean {
  const { session, account, result } = ctx.oidc;
  if (!session?.accountId) return false;
  if (account === undefined) return true;
  const login = result?.["login"] as LoginResult | undefined;
  const carried = session as typeof session & SessionGeneration;
  if (login?.accountId === session.accountId && login.generation !== undefined)
    carried.generation = login.generation;
  return carried.generation !== (account as OidcAccount).record.sessions_generation;
}

const known: ReadonlySet<unknown> = new Set(KNOWN_ACRS);

/**
 * An essential `acr` that no sign-in here has would be asked for again and again; it is a failed attempt
 * (OpenID Connect Core 1.0 section 5.5.1.1).
 */
function refuseUnknownAcr({ oidc }: KoaContextWithOIDC): boolean {
  const acr = oidc.claims.id_token?.["acr"] as
    | { readonly essential?: boolean; readonly value?: unknown; readonly values?: unknown }
    | null
    | undefined;
  if (!acr?.essential) return false;
  const wanted = Array.isArray(acr.values) ? (acr.values as unknown[]) : [acr.value ?? acr.values];
  if (wanted.some((value) => value === undefined || known.has(value))) return false;
  throw new errors.UnmetAuthenticationRequirements("no sign-in here has the acr that is asked for");
}

/**
 * The last step before a code is issued: the user becomes assigned to the client's service, and the grant
 * is written. It runs only when nobody has to be asked any more.
 * @returns true when the person has to be asked: an unassigned user does not come back unseen.
 */
async function assign(ctx: KoaContextWithOIDC, { accounts }: ProtocolDependencies): Promise<boolean> {
  const { account, client, grant, prompts } = ctx.oidc;
  if (!account || !client || !grant) return false;
  const { record } = account as OidcAccount;
  const clientEntry = clientRecord(client);
  const { service } = clientEntry;
  if (service !== null && !Object.hasOwn(record.services, service)) {
    const { service: serviceGeneration, tokens: tokensGeneration } = currentGenerations(record, clientEntry);
    if (prompts.has("none") && serviceGeneration > 0) return true;
    const seen = { serviceGeneration, tokensGeneration };
    const caller = protocolCaller(ctx, { kind: "account", id: record.sub });
    await accounts.assignAtSignIn(record.sub, service, seen, caller);
  }
  await grant.save();
  return false;
}

/** The policy to give to oidc-provider as `interactions.policy`. */
export function signInPolicy(dependencies: ProtocolDependencies): interactionPolicy.DefaultPolicy {
  const policy = base();
  policy
    .get("login")
    ?.checks.add(
      new Check(
        "known_acr",
        "no sign-in has this acr",
        "unmet_authentication_requirements",
        refuseUnknownAcr,
      ),
      0,
    );
  policy
    .get("login")
    ?.checks.add(
      new Check("session_stale", "the sign-in session has ended", "login_required", (ctx) => isStale(ctx)),
    );
  // Every client has a secret here; a native one that is first-party is not asked each time.
  policy.get("consent")?.checks.remove("native_client_prompt");
  policy.add(
    new Prompt(
      { name: "assignment", requestable: false },
      new Check("unassigned", "the user was unassigned from this service", "interaction_required", (ctx) =>
        assign(ctx, dependencies),
      ),
    ),
  );
  return policy;
}
