/** An error that an endpoint answers with: a documented status and code, and a sentence without secrets. */
export class EndpointError extends Error {
  readonly status: number;
  /** From RFC 6749 section 5.2, RFC 6750 section 3.1, or as decisions.md names it. */
  readonly error: string;
  /** Seconds, for `Retry-After`. */
  readonly retryAfter: number | undefined;
  /** The methods that the path has, for a 405. */
  readonly allow: readonly string[] | undefined;
  /** A browser is better told to begin again than to be shown an error code. */
  readonly startAgain: boolean;
  /** More of the request may come, and nobody reads it: the connection ends with the answer. */
  readonly closes: boolean;

  constructor(
    status: number,
    error: string,
    description: string,
    options: {
      readonly retryAfter?: number;
      readonly allow?: readonly string[];
      readonly startAgain?: boolean;
      readonly closes?: boolean;
    } = {},
  ) {
    super(description);
    this.name = "EndpointError";
    this.status = status;
    this.error = error;
    this.retryAfter = options.retryAfter;
    this.allow = options.allow;
    this.startAgain = options.startAgain ?? false;
    this.closes = options.closes ?? false;
  }
}
