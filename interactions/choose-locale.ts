/** Which language a page speaks. */

/** What the choice needs of a Koa context: its reading of `Accept-Language`. */
export interface LanguageWishes {
  acceptsLanguages(available: string[]): string | false;
}

/**
 * The first of `ui_locales` that there is, else the best of `Accept-Language`, else the first configured one.
 * A tag finds a less exact one too: `pl-PL` finds `pl` (RFC 4647 section 3.4).
 *
 * @param available the configured locales, never empty.
 * @param uiLocales the request's `ui_locales`.
 */
export function chooseLocale(
  available: readonly [string, ...string[]],
  ctx: LanguageWishes,
  uiLocales: string | undefined,
): string {
  for (const tag of uiLocales?.split(" ") ?? []) {
    const found = lookUp(available, tag);
    if (found !== undefined) return found;
  }
  return ctx.acceptsLanguages([...available]) || available[0];
}

function lookUp(available: readonly string[], tag: string): string | undefined {
  const wanted = tag.toLowerCase();
  return available
    .filter((locale) => `${wanted}-`.startsWith(`${locale.toLowerCase()}-`))
    .toSorted((one, other) => other.length - one.length)
    .at(0);
}
