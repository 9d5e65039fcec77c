/** Times as pages show them. */

/** A point in time for a `<time>` element. */
export interface Moment {
  readonly iso: string;
  /** The exact time, with its time zone. */
  readonly text: string;
  /** Such as "5 minutes ago". */
  readonly relative: string;
}

/** @param at milliseconds since the epoch. */
export type Moments = (at: number) => Moment;

const TO_THE_MINUTE = {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
  timeZoneName: "short",
} as const;

/** Units of relative times and their seconds, the largest first. */
const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/**
 * Formats times in the style of a locale: relative to now, and exactly in a time zone.
 * @param times.now milliseconds since the epoch.
 * @param times.zone default: UTC, as in the logs.
 */
export function moments({
  locale,
  now,
  zone = "UTC",
}: {
  readonly locale: string;
  readonly now: number;
  readonly zone?: string;
}): Moments {
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const fromNow = (at: number): string => {
    const seconds = (at - now) / 1000;
    const [unit, size] = UNITS.find(([, least]) => Math.abs(seconds) >= least) ?? ["second", 1];
    return relative.format(Math.trunc(seconds / size), unit);
  };
  const format = new Intl.DateTimeFormat(locale, {
    ...TO_THE_MINUTE,
    second: "2-digit",
    timeZone: zone,
  });
  return (at) => ({
    iso: new Date(at).toISOString(),
    text: format.format(at),
    relative: fromNow(at),
  });
}

/** A time to the minute, in UTC, where nothing is relative. @param at milliseconds since the epoch. */
export function minuteText(locale: string, at: number): string {
  return new Intl.DateTimeFormat(locale, { ...TO_THE_MINUTE, timeZone: "UTC" }).format(at);
}

/** A day of this year, in UTC. @param at milliseconds since the epoch. */
export function dayText(locale: string, at: number): string {
  return new Intl.DateTimeFormat(locale, { month: "long", day: "numeric", timeZone: "UTC" }).format(at);
}

/** When the next attempt can succeed, such as "in 2 minutes": rounded up to whole minutes. */
export function waitText(locale: string, seconds: number): string {
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "always" });
  return relative.format(Math.max(1, Math.ceil(seconds / 60)), "minute");
}
