/** Problem documents (RFC 9457): how every refusal leaves the REST API. None repeats a value. */
import {
  type ArgumentProblem,
  ERRORS,
  InvalidArgument,
  SignInError,
  type SignInErrorCode,
  StillReferenced,
} from "../../core/errors.ts";

/** Codes of requests that never become a call. */
const OF_REQUESTS = {
  malformed_request: 400,
  invalid_token: 401,
  method_not_allowed: 405,
  body_too_large: 413,
  unsupported_media_type: 415,
  internal_error: 500,
} as const;

type RequestCode = keyof typeof OF_REQUESTS;
export type ProblemCode = SignInErrorCode | RequestCode;

/** Every code of a problem, and its status. */
export const PROBLEMS: Readonly<Record<ProblemCode, number>> = { ...ERRORS, ...OF_REQUESTS };

/** What each code says, the same each time. */
export const TITLES: Readonly<Record<ProblemCode, string>> = {
  malformed_request: "The request can't be read",
  invalid_token: "A valid token is required",
  method_not_allowed: "This address does not take the method",
  body_too_large: "The body is too large",
  unsupported_media_type: "The body must be application/json",
  internal_error: "The service has failed",
  not_found: "There is no such record",
  gone: "What the earlier request made is gone",
  role_required: "The role does not allow it",
  operator_protected: "The account is an operator's",
  stale: "The record has changed",
  limit_reached: "Too many in this time",
  invalid_argument: "The input is wrong",
  invalid_password: "The password breaks a rule",
  invalid_configuration: "The configuration is wrong",
  invalid_backup: "The backup can't be used",
  invalid_notification: "The notification can't be used",
  unknown_reference: "The input names something that does not exist",
  search_required: "A list of accounts needs a search term",
  search_too_wide: "Too many accounts match",
  search_incomplete: "The search index is being made",
  too_large: "The result is too large",
  idempotency_key_reused: "The Idempotency-Key belongs to another request",
  idempotency_key_in_use: "A request with this Idempotency-Key was carried out just now",
  secret_already_shown: "The answer held a secret, which is shown once",
  name_taken: "The e-mail address or username belongs to another account",
  already_exists: "There is one already",
  still_referenced: "Others refer to it",
  last_sign_in_method: "The account would have no way to sign in",
  not_applicable: "It does not apply to this record",
  configured_elsewhere: "The configuration decides this",
  superseded: "A newer notification was delivered",
  not_waiting: "The delivery does not wait",
  behind: "An earlier delivery comes first",
  receiver_stopped: "The receiver is stopped",
  purged: "The payload is gone",
  condition_failed: "Others are changing it",
  address_refused: "The address is not allowed",
  unusable_secrets: "A secret of the service can't be used",
  unexpected_answer: "The other server has answered in an unexpected way",
  provider_failed: "The provider has failed",
  storage_unavailable: "The storage is not available",
  server_unreachable: "The server can't be reached",
};

/** Codes whose messages are sentences of ours, without a value. */
const SPEAKS: ReadonlySet<ProblemCode> = new Set<ProblemCode>([
  "invalid_password",
  "last_sign_in_method",
  "not_applicable",
  "configured_elsewhere",
  "superseded",
  "not_waiting",
  "behind",
  "receiver_stopped",
  "purged",
  "search_required",
  "search_too_wide",
  "search_incomplete",
  "too_large",
  "stale",
]);

/** A request that does not become a call. */
export class RequestProblem extends Error {
  readonly code: RequestCode;
  /** The methods of the address. */
  readonly allow: readonly string[] | undefined;
  /** The rest of the request is not read, so the connection ends. */
  readonly closes: boolean;

  constructor(
    code: RequestCode,
    {
      detail = "",
      allow,
      closes = false,
    }: { readonly detail?: string; readonly allow?: readonly string[]; readonly closes?: boolean } = {},
  ) {
    super(detail);
    this.name = "RequestProblem";
    this.code = code;
    this.allow = allow;
    this.closes = closes;
  }
}

/** Where a problem is. */
interface PlacedProblem {
  /** In the body (RFC 6901). */
  readonly pointer?: string;
  /** In the query. */
  readonly parameter?: string;
  readonly header?: string;
  readonly detail: string;
}

/** A problem document. */
export interface ProblemDocument {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail?: string;
  readonly errors?: readonly PlacedProblem[];
  /** What refers to the record. */
  readonly references?: readonly string[];
  readonly request_id: string;
}

/** How the input of an operation was sent. */
export interface Placement {
  /** Whether it is the query. */
  readonly isQuery: boolean;
  /** Members of the body that name what is made. */
  readonly named: readonly string[];
}

const HEADERS: ReadonlySet<string> = new Set(["Idempotency-Key"]);

/** The steps into an argument: `account.sizes[0]` → `sizes`, `0`. They end at a name that is not shown. */
function stepsOf(path: string, { named }: Placement): readonly string[] {
  const [root = ""] = /^[^.[]+/u.exec(path) ?? [];
  const steps: string[] = named.includes(root) ? [root] : [];
  for (const [, name, index] of path.slice(root.length).matchAll(/\.([\w$-]+)|\[(\d+)\]|\[[^\]]*\]/gu)) {
    const step = name ?? index;
    if (step === undefined) break;
    steps.push(step);
  }
  return steps;
}

function placed({ path, message: detail }: ArgumentProblem, placement: Placement): PlacedProblem {
  if (HEADERS.has(path)) return { header: path, detail };
  const steps = stepsOf(path, placement);
  if (!placement.isQuery) return { pointer: steps.map((step) => `/${step}`).join(""), detail };
  const [parameter] = steps;
  return { ...(parameter !== undefined && { parameter }), detail };
}

/** The code of an error; `internal_error` for one that nobody has thrown on purpose. */
function codeOf(error: unknown): ProblemCode {
  const isKnown =
    error instanceof SignInError || error instanceof InvalidArgument || error instanceof RequestProblem;
  return isKnown ? error.code : "internal_error";
}

/** The document for an error. */
export function problemOf(error: unknown, request_id: string, placement: Placement): ProblemDocument {
  const code = codeOf(error);
  const isSaid = error instanceof RequestProblem || SPEAKS.has(code);
  const detail = isSaid ? (error as Error).message : "";
  return {
    type: `urn:sign-in-service:problem:${code}`,
    title: TITLES[code],
    status: PROBLEMS[code],
    code,
    ...(detail !== "" && { detail: `${detail.slice(0, 1).toUpperCase()}${detail.slice(1)}.` }),
    ...(error instanceof InvalidArgument && {
      errors: error.problems.map((each) => placed(each, placement)),
    }),
    ...(error instanceof StillReferenced && { references: error.references }),
    request_id,
  };
}
