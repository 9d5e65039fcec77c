/** Where time comes from. Tests and hosts may replace it. */
export interface Clock {
  /** Milliseconds since the epoch, with a fraction where the clock has one. */
  now(): number;
}
