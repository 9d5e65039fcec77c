/** A submitted form, or the fault of who sent it. */

/** Each name once. */
export type Form = ReadonlyMap<string, string>;

/** The form; `undefined` when the fault is in what was sent. Other errors pass through. */
export async function readable(read: () => Promise<Form>): Promise<Form | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isClientFault(error)) return undefined;
    throw error;
  }
}

function isClientFault(error: unknown): boolean {
  return typeof error === "object" && error !== null && "status" in error && error.status === 400;
}
