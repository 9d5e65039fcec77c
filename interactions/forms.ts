/** What a submitted form must be before its fields count: readable, and from our own page. */

/** The fields of a form; no name is repeated. */
export type Form = ReadonlyMap<string, string>;

/** The form, or `undefined` if the browser sent one that cannot be read (`status` 400). Other errors are thrown. */
export async function readable(read: () => Promise<Form>): Promise<Form | undefined> {
  try {
    return await read();
  } catch (error) {
    if (typeof error === "object" && error !== null && "status" in error && error.status === 400)
      return undefined;
    throw error;
  }
}

/** What the origin check needs of a Koa context. */
export interface FormOrigin {
  get(field: string): string;
  readonly exchange: { readonly deployment: { readonly url: string } };
}

/**
 * False if the browser says that another site sent the form: cross-site request forgery, or signing a person in to
 * the attacker's account. Our pages are `no-referrer`, so browsers send `Origin: null` with our own forms too; then
 * `Sec-Fetch-Site` and the hidden field decide.
 */
export function isFromHere(ctx: FormOrigin): boolean {
  const site = ctx.get("Sec-Fetch-Site");
  if (!["", "same-origin", "none"].includes(site)) return false;
  const origin = ctx.get("Origin");
  return ["", "null", new URL(ctx.exchange.deployment.url).origin].includes(origin);
}
