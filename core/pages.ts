/**
 * Reads a list page by page, to its end or until the loop is left.
 * @param read gets `next` of the page before; `undefined` for the first page.
 */
export async function* pagesOf<P extends { readonly next?: string | null }>(
  read: (after: string | undefined) => Promise<P>,
): AsyncGenerator<P> {
  let after: string | undefined;
  do {
    const page = await read(after);
    yield page;
    after = page.next ?? undefined;
  } while (after !== undefined);
}
