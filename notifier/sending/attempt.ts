/** The interface between the worker and the HTTP client: what one attempt of a delivery takes and returns. */

/** How to reach a receiver, read at the moment of the attempt. */
export interface AttemptTarget {
  readonly url: string;
  /** The Basic credentials that the receiver expects. */
  readonly client_id: string;
  readonly client_secret: string;
  /** `whsec_` and Base64 each; during a rotation the new one and the old one. Empty: no signature header. */
  readonly signing_secrets: readonly string[];
}

export interface AttemptOptions {
  /** The `webhook-id`: the same on every attempt of a delivery. */
  readonly id: string;
  /** Aborts the attempt: it resolves with `failed` and the code `aborted`. */
  readonly signal: AbortSignal;
}

export interface AttemptTiming {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Milliseconds. */
  readonly duration: number;
}

/** The receiver answered, with any status. */
export interface Answered extends AttemptTiming {
  readonly kind: "answered";
  /** 100 to 599. 200 to 299 is a success; everything else, redirects included, is a failure. */
  readonly status: number;
  /** Seconds that `Retry-After` asks for, counted from the response; missing without a valid header. */
  readonly retryAfter?: number;
  /** The first 4 KiB of the response body as UTF-8. It may contain anything: never log it. */
  readonly answer: string;
}

/** The request was attempted, and no response came: a failed attempt. */
export interface Failed extends AttemptTiming {
  readonly kind: "failed";
  /**
   * A short, stable code, never a message: for example `ECONNREFUSED`, `ENOTFOUND`, `CERT_HAS_EXPIRED`,
   * `timeout_connect`, `timeout_total`, `invalid_signing_secret`, `aborted`.
   */
  readonly code: string;
}

/** Nothing was sent because the address is not allowed. This pauses the receiver and uses up no attempt. */
export interface Refused extends AttemptTiming {
  readonly kind: "refused";
  /** For operators, without secrets and user data; at most 200 characters. */
  readonly reason: string;
}

export type AttemptResult = Answered | Failed | Refused;

/**
 * Makes one attempt. It never rejects.
 * @param body the documented JSON, sent byte for byte.
 */
export type Attempt = (
  target: AttemptTarget,
  body: string,
  options: AttemptOptions,
) => Promise<AttemptResult>;
