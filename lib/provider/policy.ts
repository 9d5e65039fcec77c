/** When oidc-provider must ask the user: its own rules, and ours. Nothing here writes. */
import { errors, interactionPolicy, type KoaContextWithOIDC } from "oidc-provider";
import { currentGenerations, type OidcAccount, type SessionGeneration } from "./account.ts";
import { KNOWN_ACRS } from "./claims.ts";
import { clientRecord } from "./clients.ts";

const { Check, Prompt, base } = interactionPolicy;

/** A session ends with its account, and when the account's sessions were ended after the sign-in. */
function isStale({ oidc: { session, account } }: KoaContextWithOIDC): boolean {
  if (!session?.accountId) return false;
  if (account === undefined) return true;
  const { generation } = session as typeof session & SessionGeneration;
  return generation !== (account as OidcAccount).record.sessions_generation;
}

const known: ReadonlySet<unknown> = new Set(KNOWN_ACRS);

/**
 * No sign-in can satisfy an essential `acr` that this service does not support, so the request fails instead of asking
 * forever (OpenID Connect Core 1.0 section 5.5.1.1).
 */
function refuseUnknownAcr({ oidc }: KoaContextWithOIDC): boolean {
  const acr = oidc.claims.id_token?.["acr"] as
    | { readonly essential?: boolean; readonly value?: unknown; readonly values?: unknown }
    | null
    | undefined;
  if (!acr?.essential) return false;
  const wanted = Array.isArray(acr.values) ? (acr.values as unknown[]) : [acr.value ?? acr.values];
  if (wanted.some((value) => value === undefined || known.has(value))) return false;
  throw new errors.UnmetAuthenticationRequirements("no sign-in of this service has the requested acr");
}

/** A user who was unassigned from a service does not return to it without noticing: `prompt=none` is refused. */
function isUnassigned({ oidc: { account, client, grant, prompts } }: KoaContextWithOIDC): boolean {
  if (!account || !client || !grant || !prompts.has("none")) return false;
  const { record } = account as OidcAccount;
  const clientEntry = clientRecord(client);
  const { service } = clientEntry;
  if (service === null || Object.hasOwn(record.services, service)) return false;
  return currentGenerations(record, clientEntry).service > 0;
}

/** `interactions.policy` of oidc-provider. */
export function signInPolicy(): interactionPolicy.DefaultPolicy {
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
    ?.checks.add(new Check("session_stale", "the sign-in session has ended", "login_required", isStale));
  // oidc-provider asks native clients for consent each time, because they have no secret. All clients have one here.
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
  return policy;
}

/** `prompt=create`: the person makes an account first (OpenID Connect Prompt Create 1.0). */
export function createPrompt(): interactionPolicy.Prompt {
  return new Prompt({ name: "create", requestable: true });
}
