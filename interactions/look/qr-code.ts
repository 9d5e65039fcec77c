/**
 * The address of an image of a QR code, for `src`. The package is loaded with the first one.
 * @param text as a phone reads it.
 */
export async function qrCode(text: string): Promise<string> {
  const { default: library } = await import("qrcode");
  const svg = await library.toString(text, { type: "svg", errorCorrectionLevel: "M", margin: 2 });
  // Shorter than Base64. These characters end the attribute, or the address.
  const escaped = svg
    .trim()
    .replaceAll('"', "'")
    .replaceAll(/[%<>#]/g, encodeURIComponent);
  return `data:image/svg+xml,${escaped}`;
}

/** A Base32 secret in groups of four, as people type it. */
export function groupedKey(secret: string): string {
  return secret.replaceAll(/.{4}(?=.)/g, "$& ");
}
