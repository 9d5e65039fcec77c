/** Who somebody is, by what a provider says. */
import { isPrintable } from "../config/value-forms.ts";
import type { IdentityProvider } from "../config/providers.ts";
import { UpstreamFault } from "./faults.ts";

/** Who somebody is at a provider, and what it says of the person. Plain JSON. */
export interface UpstreamIdentity {
  /** The key of the provider. */
  readonly provider: string;
  /** Microsoft: that of the tenant. */
  readonly issuer: string;
  /** As the provider writes it: 1 to 255 characters. Microsoft: `tid:oid`; GitHub: the numeric `id`. */
  readonly subject: string;
  /** As the provider says. */
  readonly email?: string;
  /** Whether the provider vouches for the address. */
  readonly vouched: boolean;
  readonly name?: string;
  readonly surname?: string;
  /** Seconds since the epoch, never later than now. Missing: the provider did not say. */
  readonly auth_time?: number;
  /** Whether the provider asked for a second factor, a moment ago, and is trusted to (`trustsMfa`). */
  readonly mfa: boolean;
}

/** Claims of a verified ID token, or what a provider says elsewhere of the same subject. */
export type Claims = Readonly<Record<string, unknown>>;

const MAX_SUBJECT = 255;
const MAX_EMAIL = 254;

/** How old and how far ahead the provider's sign-in may be that counts as a second factor. */
const MFA_AGE_SECONDS = 300;
const AHEAD_SECONDS = 10;

/** Text without control characters, and without half characters, which would become others when they are stored. */
function isClean(text: unknown): text is string {
  return typeof text === "string" && text.isWellFormed() && isPrintable(text);
}

/** The subject as it came: it is compared byte by byte. */
export function readSubject(subject: unknown): string {
  if (isClean(subject) && subject !== "" && subject.length <= MAX_SUBJECT) return subject;
  throw new UpstreamFault("lied", "sub");
}

/** An address, if it looks like one. The rules of this service are checked where it is used. */
export function readEmail(email: unknown): string | undefined {
  return isClean(email) && email.length <= MAX_EMAIL && /^[^\s@]+@[^\s@]+$/u.test(email) ? email : undefined;
}

/** A given or family name that fits the fields. */
function readName(name: unknown): string | undefined {
  if (!isClean(name)) return undefined;
  const text = name.trim();
  return /^.{1,100}$/su.test(text) ? text : undefined;
}

export function readNames({
  given_name,
  family_name,
  name: whole,
}: Claims): Pick<UpstreamIdentity, "name" | "surname"> {
  const [given, surname] = [readName(given_name), readName(family_name)];
  const name = given ?? (surname === undefined ? readName(whole) : undefined);
  return { ...(name !== undefined && { name }), ...(surname !== undefined && { surname }) };
}

/** When the provider says that the person signed in there. A time that has not come says nothing. */
export function readAuthTime({ auth_time }: Claims, now: number): number | undefined {
  if (typeof auth_time !== "number" || !Number.isSafeInteger(Math.floor(auth_time))) return undefined;
  if (auth_time < 0 || auth_time > now + AHEAD_SECONDS) return undefined;
  return Math.min(Math.floor(auth_time), now);
}

/** Whether the provider asked for a second factor, a moment ago. */
export function readMfa(
  { trustsMfa }: Pick<IdentityProvider, "trustsMfa">,
  claims: Claims,
  now: number,
): boolean {
  const at = readAuthTime(claims, now);
  const { amr } = claims;
  return (
    trustsMfa && Array.isArray(amr) && amr.includes("mfa") && at !== undefined && at >= now - MFA_AGE_SECONDS
  );
}

const isTrue = (value: unknown): boolean => value === true || value === "true";

/** Google vouches for the addresses that it gives out: those of Gmail, and of organizations (`hd`). */
function isOfGoogle(email: string, { hd }: Claims): boolean {
  return email.toLowerCase().endsWith("@gmail.com") || (typeof hd === "string" && hd !== "");
}

/** Whether the provider vouches for the address of its ID token. */
export function isVouched({ trustsEmail, preset }: IdentityProvider, claims: Claims): boolean {
  const email = readEmail(claims["email"]);
  if (email === undefined || !trustsEmail || !isTrue(claims["email_verified"])) return false;
  return preset !== "google" || isOfGoogle(email, claims);
}
