/** Why a sign-in with a provider failed. Nothing that a provider wrote becomes a part of an error, the log or a metric. */
import type { ProviderFault } from "../core/events.ts";
import { SignInError } from "../core/errors.ts";

/** A sign-in with a provider failed. The message is for operators, and has no words of the provider. */
export class UpstreamFault extends SignInError {
  readonly reason: ProviderFault;
  /** A code of this service, of Node.js or of a standard, such as `ECONNREFUSED` or `invalid_client`. */
  readonly detail: string;

  constructor(reason: ProviderFault, detail: string) {
    super("provider_failed", `the provider could not be used: ${reason} (${detail})`);
    this.reason = reason;
    this.detail = detail;
  }
}

/** The errors of RFC 6749 (sections 4.1.2.1 and 5.2), OpenID Connect Core (section 3.1.2.6), and those that GitHub has instead. */
const KNOWN_ERRORS: ReadonlySet<string> = new Set([
  "invalid_request",
  "invalid_client",
  "invalid_grant",
  "invalid_scope",
  "unauthorized_client",
  "unsupported_grant_type",
  "unsupported_response_type",
  "server_error",
  "temporarily_unavailable",
  "access_denied",
  "interaction_required",
  "login_required",
  "account_selection_required",
  "consent_required",
  "redirect_uri_mismatch",
  "incorrect_client_credentials",
  "bad_verification_code",
  "application_suspended",
]);

/** What providers answer when a person goes back. The second one is Apple's. */
const CANCELLED: ReadonlySet<string> = new Set(["access_denied", "user_cancelled_authorize"]);

/** Errors of a connection that could not be made or broke. All other errors of Node.js are about what was sent. */
const CONNECTION =
  /^(?:E(?:CONN[A-Z]+|HOST[A-Z]+|NET[A-Z]+|TIMEDOUT|PIPE|AI_[A-Z]+|NOTFOUND|SERVFAIL)|UND_ERR_[A-Z_]+|CERT_[A-Z_]+|ERR_TLS_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+)$/;

interface Facts {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly error?: unknown;
  readonly status?: unknown;
  readonly claim?: unknown;
  readonly attribute?: unknown;
  readonly cause?: unknown;
}

/** The error and its causes, as openid-client nests them. */
function chainOf(error: unknown): readonly Facts[] {
  const chain: Facts[] = [];
  for (let next = error; typeof next === "object" && next !== null && chain.length < 5;) {
    chain.push(next);
    next = (next as Facts).cause;
  }
  return chain;
}

const named = (text: unknown, known: RegExp): text is string => typeof text === "string" && known.test(text);

/** The codes of openid-client for an answer with a wrong status. */
const BY_STATUS: ReadonlySet<unknown> = new Set([
  "OAUTH_RESPONSE_IS_NOT_CONFORM",
  "OAUTH_WWW_AUTHENTICATE_CHALLENGE",
]);

/** The fault of an error of openid-client, of a connection, or of reading what was answered. */
export function faultOf(error: unknown): UpstreamFault {
  const chain = chainOf(error);
  const own = chain.find((each) => each instanceof UpstreamFault);
  if (own !== undefined) return own;
  const [first = {}] = chain;
  if (first.name === "AuthorizationResponseError" || first.name === "ResponseBodyError") {
    const text = typeof first.error === "string" ? first.error : "";
    const isCancelled = first.name === "AuthorizationResponseError" && CANCELLED.has(text);
    return new UpstreamFault(
      isCancelled ? "cancelled" : "refused",
      KNOWN_ERRORS.has(text) ? text : "unknown_error",
    );
  }
  const status = chain.find((each) => typeof each.status === "number")?.status as number | undefined;
  if (BY_STATUS.has(first.code) && status !== undefined)
    return new UpstreamFault(status >= 400 ? "refused" : "lied", `status_${status}`);
  const broken = chain.find(({ code }) => named(code, CONNECTION));
  if (broken !== undefined) return new UpstreamFault("slow", broken.code as string);
  const code = chain.map((each) => each.code).find((each) => named(each, /^[A-Za-z]\w{1,60}$/));
  const about = chain.map(({ claim, attribute }) => claim ?? attribute).find((each) => each !== undefined);
  const detail = [code ?? "unexpected", ...(named(about, /^[a-z_]{1,30}$/) ? [about] : [])].join(" ");
  return new UpstreamFault("lied", detail);
}
