/** `Retry-After` of an answer: RFC 9110 section 10.2.3. */

/** A date as RFC 9110 section 5.6.7 writes it now, and in the two ways of before. */
const DATES: readonly RegExp[] = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];
/** A year in seconds: nobody means more, and what computes with it stays exact. */
const MOST = 365 * 24 * 60 * 60;

/**
 * Seconds that the header asks to wait, at most a year; 0 for a date that has passed.
 * @param now milliseconds since the epoch, when the answer came.
 * @returns `undefined` for what is neither a whole number of seconds nor a date.
 */
export function readRetryAfter(header: string, now: number): number | undefined {
  const text = header.trim();
  if (/^\d+$/.test(text)) return Math.min(Number(text), MOST);
  if (!DATES.some((form) => form.test(text))) return undefined;
  const date = Date.parse(text.endsWith(" GMT") ? text : `${text} GMT`);
  if (Number.isNaN(date)) return undefined;
  return Math.min(Math.max(Math.ceil((date - now) / 1000), 0), MOST);
}
