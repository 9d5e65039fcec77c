/** What one HTTP attempt of a delivery takes and gives: the seam between the worker and what sends. */

/** A receiver as it is at the moment of the attempt. */
export interface AttemptTarget {
  readonly url: string;
  /** The Basic credentials prepared for the receiver. */
  readonly client_id: string;
  readonly client_secret: string;
  /** `whsec_` and Base64 each; during a rotation the new one and the old one. Empty: no signature header. */
  readonly signing_secrets: readonly string[];
}

export interface AttemptOptions {
  /** The `webhook-id`: the same on every attempt of a delivery. */
  readonly id: string;
  /** Ends the attempt at once: it resolves with `failed` and the code `aborted`. */
  readonly signal: AbortSignal;
}

/** When an attempt was made, and how long it took. */
export interface AttemptTiming {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Milliseconds. */
  readonly duration: number;
}

/** The receiver answered, with whatever status. */
export interface Answered extends AttemptTiming {
  readonly kind: "answered";
  /** 100 to 599. 200 to 299 is a success, everything else (redirects too) a failure. */
  readonly status: number;
  /** Seconds that `Retry-After` asks for, counted from the answer; missing without a readable one. */
  readonly retryAfter?: number;
  /** The beginning of the answer's body, at most 4 KiB of UTF-8. It may hold anything: never log it. */
  readonly answer: string;
}

/** The POST was tried, and no answer came: a failed attempt. */
export interface Failed extends AttemptTiming {
  readonly kind: "failed";
  /**
   * Short and stable, never a message: such as `ECONNREFUSED`, `ENOTFOUND`, `CERT_HAS_EXPIRED`,
   * `timeout_connect`, `timeout_total`, `invalid_signing_secret`, `aborted`.
   */
  readonly code: string;
}

/** Nothing was sent: the address is not allowed. It pauses the receiver and uses up no attempt. */
export interface Refused extends AttemptTiming {
  readonly kind: "refused";
  /** For the operator to read, without secrets and without user data; at most 200 characters. */
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
