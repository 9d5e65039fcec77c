/** What is made of a text again and again, made once. */

/**
 * @param make pure; what it throws is not remembered.
 * @param limit how many results are kept; the oldest goes first.
 */
export function remembered<V>(make: (text: string) => V, limit = 1_000): (text: string) => V {
  const known = new Map<string, V>();
  return (text) => {
    const kept = known.get(text);
    if (kept !== undefined) return kept;
    const made = make(text);
    if (known.size >= limit) {
      const { value: oldest } = known.keys().next();
      if (oldest !== undefined) known.delete(oldest);
    }
    known.set(text, made);
    return made;
  };
}
