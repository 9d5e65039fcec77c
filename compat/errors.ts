/** The error of an endpoint: a documented status and code, and a description without secrets. */

import type { StartAgainAnswer } from "../provider/pages.ts";

/** The options of an error besides its status, code and description. */
export interface EndpointErrorOptions {
  /** Seconds, for `Retry-After`. */
  readonly retryAfter?: number;
  /** The methods that the path supports, for a 405. */
  readonly allow?: readonly string[];
  /** A browser gets this "start again" page instead of an error code. */
  readonly startAgain?: StartAgainAnswer;
  /** For the header `DPoP-Nonce`: the value that the next proof must have (RFC 9449 section 8). */
  readonly nonce?: string;
  /** Closes the connection: the rest of the request will not be read. */
  readonly closes?: boolean;
}

export class EndpointError extends Error {
  readonly status: number;
  /** From RFC 6749 section 5.2, RFC 6750 section 3.1 or decisions.md. */
  readonly error: string;
  readonly retryAfter: number | undefined;
  readonly allow: readonly string[] | undefined;
  readonly startAgain: StartAgainAnswer | undefined;
  readonly nonce: string | undefined;
  readonly closes: boolean;

  constructor(status: number, error: string, description: string, options: EndpointErrorOptions = {}) {
    super(description);
    this.name = "EndpointError";
    this.status = status;
    this.error = error;
    this.retryAfter = options.retryAfter;
    this.allow = options.allow;
    this.startAgain = options.startAgain;
    this.nonce = options.nonce;
    this.closes = options.closes ?? false;
  }
}

/** 400 with this code. */
export function badRequest(error: string, description: string): EndpointError {
  return new EndpointError(400, error, description);
}

/** 400 `invalid_request`. */
export function invalidRequest(description: string): EndpointError {
  return badRequest("invalid_request", description);
}
