/** The two readings of Basic: as it is, and form-encoded. */

/** RFC 6749 section 2.3.1 form-encodes both halves of Basic; `undefined` when there is nothing to decode. */
export function formDecoded(text: string): string | undefined {
  if (!/[%+]/.test(text)) return undefined;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
