/** Clients as oidc-provider sees them: their metadata, and how their secrets are checked. */
import { Provider, type AdapterPayload, type Client } from "oidc-provider";
import type { Configuration } from "../config/configuration.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ClientRecord } from "../records/directory/directory.ts";
import { protocolClientId } from "../records/directory/document-kinds.ts";
import { DEVICE_GRANT, type KindOfClient } from "../accounts/clients/client-kinds.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import type { ClientRows, Setting } from "../accounts/clients/client-settings.ts";
import { noteFailure } from "../accounts/limits/attempt-limits.ts";
import type { AccountServices } from "../accounts/services.ts";
import { callerOf, exchangeIn } from "./exchange.ts";

/** Our record of a client of oidc-provider. It is read on each request, so it is up to date. */
export function clientRecord(client: Client): ClientRecord {
  return client["record"] as ClientRecord;
}

/** The grants that oidc-provider knows here. It refuses a client that names another one. */
const KNOWN_GRANTS: ReadonlySet<string> = new Set([
  "authorization_code",
  "refresh_token",
  "password",
  "client_credentials",
  DEVICE_GRANT,
]);

/**
 * The metadata of a client (OpenID Connect Dynamic Client Registration 1.0 section 2).
 * @param signingAlgorithm for clients that are registered without one.
 * @param profile with `strict`, oidc-provider does not know the password grant, not even by name.
 */
export function createClientMetadata(
  { settings }: ClientRows,
  { kindOf }: Pick<ClientInternals, "kindOf">,
  signingAlgorithm: string,
  profile: Configuration["profile"],
): (record: ClientRecord) => AdapterPayload {
  const names = Object.entries<Setting>(settings).flatMap(([name, { isMetadata }]) =>
    isMetadata === true ? [name] : [],
  );
  return (record) => {
    const stored: Readonly<Record<string, unknown>> = { ...record };
    const named = names.filter((name) => stored[name] !== undefined);
    return {
      client_id: protocolClientId(record),
      client_name: record.name,
      application_type: record.native ? "native" : "web",
      id_token_signed_response_alg: signingAlgorithm,
      ...Object.fromEntries(named.map((name) => [name, copied(stored[name])])),
      ...authentication(kindOf(record), record),
      grant_types: record.grant_types.filter(
        (type) => KNOWN_GRANTS.has(type) && (profile !== "strict" || type !== "password"),
      ),
      // oidc-provider adds the grant that belongs to each response type.
      response_types: record.grant_types.includes("authorization_code") ? ["code"] : [],
      ...(record.backchannel_logout_uri === null
        ? {}
        : {
            backchannel_logout_uri: record.backchannel_logout_uri,
            backchannel_logout_session_required: true,
          }),
      record,
    } as AdapterPayload;
  };
}

/** oidc-provider may change lists. */
const copied = (value: unknown): unknown => (Array.isArray(value) ? ([...value] as unknown[]) : value);

/** How a client proves who it is. */
function authentication({ confidential }: KindOfClient, { jwks }: ClientRecord): object {
  if (!confidential) return { token_endpoint_auth_method: "none" };
  if (jwks !== undefined) return { token_endpoint_auth_method: "private_key_jwt" };
  // oidc-provider requires a secret but never compares this one: see `compareClientSecret` in patches.ts.
  return { token_endpoint_auth_method: "client_secret_basic", client_secret: "kept-as-a-keyed-digest" };
}

/**
 * Decodes half of a Basic credential as RFC 6749 section 2.3.1 encodes it.
 * @returns `undefined` when there is nothing to decode.
 */
export function formDecoded(text: string): string | undefined {
  if (!/[%+]/.test(text)) return undefined;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** Whether the presented secret is one of the client's. Called while a request is authenticated. */
export type SecretCheck = (client: Client, presented: string) => Promise<boolean>;

/** Grants that write nothing until the response is known to be good, so they do not wait for the rate limit. */
const WITHOUT_WAITING: ReadonlySet<unknown> = new Set([
  "authorization_code",
  "refresh_token",
  "client_credentials",
]);

/**
 * Compares client secrets in constant time, under a rate limit, as they are and form-decoded. A refused attempt leaves
 * `retryAfter` in the exchange, or the `verdict` that the response waits for.
 */
export function createSecretCheck({
  clients,
  limits,
  audit,
}: Pick<AccountServices, "clients" | "limits" | "audit">): SecretCheck {
  return async (client, presented) => {
    const ctx = Provider.ctx;
    const record = clientRecord(client);
    const exchange = exchangeIn(ctx);
    if (exchange !== undefined) exchange.authentication.isCompared = true;
    const readings = [presented];
    const decoded = ctx?.headers.authorization === undefined ? undefined : formDecoded(presented);
    if (decoded !== undefined) readings.push(decoded);
    let match: ReturnType<typeof clients.secretMatches>;
    const check = (): typeof match => {
      const found = readings.map((reading) => clients.secretMatches(record, reading));
      match = found.find((each) => each !== undefined);
      return match;
    };
    const verdict = limits
      .clientSecret({ client: record.client_id, address: exchange?.address ?? "" }, check)
      .then((attempt) => {
        if (attempt.allowed && attempt.matches) return attempt;
        const { client_id: subject } = record;
        const caller = ctx === undefined ? { actor: ANONYMOUS } : callerOf(ctx, ANONYMOUS);
        noteFailure(
          audit,
          { ...caller, action: "client.authentication", subject, reason: "credentials" },
          attempt,
        );
        return attempt;
      });
    if (
      exchange !== undefined &&
      match !== undefined &&
      WITHOUT_WAITING.has(ctx?.oidc.params?.["grant_type"])
    ) {
      // The response awaits the same promise and reports its failure.
      verdict.catch(() => undefined);
      exchange.authentication.verdict = verdict;
      return true;
    }
    const { allowed, matches, retryAfter } = await verdict;
    if (!allowed && exchange !== undefined) exchange.retryAfter = retryAfter;
    return allowed && matches;
  };
}
