/** Forms of single strings. Each answers yes or no and never throws. */

/** Whether a text is free of control characters, line breaks included. */
export function isPrintable(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}

const MEMORY = "sqlite::memory:";

/** `sqlite:PATH`, but none of the texts that SQLite itself reads as something else than a path. */
function isSqliteAddress(text: string): boolean {
  if (text === MEMORY) return true;
  const path = text.slice("sqlite:".length);
  return text.startsWith("sqlite:") && path.trim() === path && !/^$|^:|^\/\/|^file:|[/\\]$/iu.test(path);
}

/** Whether a storage address is the database that ends with the process. */
export function isInMemory(storage: string): boolean {
  return storage === MEMORY;
}

/** Whether a storage address is SQLite's. */
export function isSqlite(storage: string): boolean {
  return storage.startsWith("sqlite:");
}

/** A MongoDB connection string; several hosts are allowed, which is why `URL` can't read it. */
function isMongoAddress(text: string): boolean {
  return /^mongodb(?:\+srv)?:\/\/(?:[^\s/@]+@)?[^\s/@?,]+(?:,[^\s/@?,]+)*(?:\/\S*)?(?:\?\S*)?$/u.test(text);
}

/** Whether this is an address of a storage. */
export function isStorageAddress(text: string): boolean {
  return isPrintable(text) && (isSqliteAddress(text) || isMongoAddress(text) || isPostgresAddress(text));
}

/** Whether this is a `postgresql://` or `postgres://` URL with a host. */
function isPostgresAddress(text: string): boolean {
  return isUrl(text, /^postgres(?:ql)?:$/u);
}

function isUrl(text: string, protocols: RegExp): boolean {
  if (!isPrintable(text) || /\s/u.test(text)) return false;
  const url = URL.parse(text);
  return url !== null && protocols.test(url.protocol) && url.hostname !== "";
}

/** Whether this is a `redis://` or `rediss://` URL with a host. */
export function isRedisAddress(text: string): boolean {
  return isUrl(text, /^rediss?:$/u);
}

/** Whether this is an `smtp://` or `smtps://` URL with a host. */
export function isSmtpAddress(text: string): boolean {
  return isUrl(text, /^smtps?:$/u);
}

/** Whether this is a sender: an address or `Name <address>`; no line breaks, so that no header can be added. */
export function isSender(text: string): boolean {
  return isPrintable(text) && /^(?:[^\s<>@]+@[^\s<>@]+|[^<>]* <[^\s<>@]+@[^\s<>@]+>)$/u.test(text);
}

/** Whether this is a path that a proxy may take off: one or more segments, no slash at the end. */
export function isPathPrefix(text: string): boolean {
  return /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)+$/u.test(text);
}

/** Whether this may stand in front of a cookie's name; browsers give `__Host-` and `__Secure-` a meaning of their own. */
export function isCookiePrefix(text: string): boolean {
  return /^[A-Za-z0-9_-]{0,32}$/u.test(text) && !/^__(?:host|secure)-/iu.test(text);
}

/** Whether this is a language tag of a page, such as `en` or `pt-BR` (BCP 47, without extensions). */
export function isLanguageTag(text: string): boolean {
  return /^[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*$/u.test(text);
}

/** Whether this may be a Bearer token (RFC 6750 section 2.1). */
export function isBearerToken(text: string): boolean {
  return /^[A-Za-z0-9._~+/-]+=*$/u.test(text);
}

/** Whether this is a UUID, of any version. */
export function isUuid(text: string): boolean {
  return /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/iu.test(text);
}

/**
 * Whether this is a colour for the theme: `#rgb` or `#rrggbb`. CSS knows more forms; only of these the pages
 * can work out the contrast, and nothing else that CSS knows can be smuggled in.
 */
export function isColour(text: string): boolean {
  return /^#(?:[\da-f]{3}|[\da-f]{6})$/iu.test(text);
}
