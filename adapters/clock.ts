/** The source of time. Tests and hosts can replace it. */
export interface Clock {
  /** Milliseconds since the epoch, with fractions if the clock has them. */
  now(): number;
}
