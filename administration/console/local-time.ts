/** Times as the fields of forms have them: in the time zone of the browser, to the minute; and periods that one click chooses. */

/** Hours before now. */
export const PERIODS: Readonly<Record<string, number>> = { "1h": 1, "24h": 24, "7d": 168 };

/** The clock of a form. */
export interface FormClock {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly zone: string;
}

/** Seconds since the epoch of a period before now, or of a date and time in this zone; `NaN` for anything else. */
export function secondsOf(value: string, { now, zone }: FormClock): number {
  if (Object.hasOwn(PERIODS, value)) return Math.floor(now / 1000) - (PERIODS[value] ?? 0) * 3_600;
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2})?$/u.test(value)) return Number.NaN;
  const wanted = Date.parse(`${value}Z`);
  // Around a change of the clocks, the second guess is right.
  let at = wanted;
  for (let tries = 0; tries < 2; tries += 1) at = wanted - offsetAt(at, zone);
  const seconds = Math.floor(at / 1000);
  return seconds < 0 ? Number.NaN : seconds;
}

/** A date and time in this zone, as a field has it. @param seconds since the epoch. */
export function localOf(seconds: number, zone: string): string {
  const at = seconds * 1000;
  return new Date(at + offsetAt(at, zone)).toISOString().slice(0, "2026-01-01T00:00".length);
}

/** By how much the clocks of the zone are ahead then, in milliseconds. */
function offsetAt(at: number, zone: string): number {
  if (Number.isNaN(at)) return Number.NaN;
  const parts = new Intl.DateTimeFormat("en", {
    timeZone: zone,
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
    hourCycle: "h23",
  }).formatToParts(at);
  const number = (type: string): number => Number(parts.find((part) => part.type === type)?.value);
  const local = Date.UTC(
    number("year"),
    number("month") - 1,
    number("day"),
    number("hour"),
    number("minute"),
    number("second"),
  );
  return local - Math.floor(at / 1000) * 1000;
}
