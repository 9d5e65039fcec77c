/** Finds the name that an unknown name was probably meant to be. It loads no package, for the command line. */

/** Names longer than any key are compared by their first characters. */
const MAX_COMPARED_LENGTH = 64;

const compared = (name: string): string => name.slice(0, MAX_COMPARED_LENGTH).toLowerCase();

/** The number of insertions, deletions, substitutions and swaps of neighbors that turn one word into the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const inOrOut = Math.min(row[j] ?? 0, next[j - 1] ?? 0) + 1;
      const swaps = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(changed, inOrOut, swaps ? (before[j - 2] ?? 0) + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}

interface Nearest {
  /** The full path of the known key, such as `lifetimes.accessToken`. */
  readonly path: string;
  /** Whether it is close enough to be a typo. */
  readonly close: boolean;
}

interface Candidate {
  readonly path: string;
  readonly distance: number;
}

function nearestOf(unknown: string, paths: readonly string[]): Candidate | undefined {
  const wanted = compared(unknown);
  let best: Candidate | undefined;
  for (const path of paths) {
    const name = compared(path.slice(path.lastIndexOf(".") + 1));
    // The distance is at least the difference in length, so most names need no matrix.
    if (best !== undefined && Math.abs(wanted.length - name.length) >= best.distance) continue;
    const distance = editDistance(wanted, name);
    if (best === undefined || distance < best.distance) best = { path, distance };
  }
  return best;
}

/**
 * The known key that is closest to an unknown key: a key of the same object, or a key from elsewhere if its name is
 * almost the same.
 *
 * @param siblings full paths of the keys of the same object.
 * @param others full paths of all keys, because a correct key may be in the wrong object.
 */
export function nearestKey(
  unknown: string,
  siblings: readonly string[],
  others: readonly string[],
): Nearest | undefined {
  const isClose = ({ distance }: Candidate): boolean => distance <= Math.max(1, unknown.length / 3);
  const here = nearestOf(unknown, siblings);
  // A letter off in the same object is likelier than the right word in the wrong one.
  const elsewhere = here === undefined || here.distance > 1 ? others : [];
  const anywhere = nearestOf(unknown, here === undefined ? others : [here.path, ...elsewhere]);
  if (anywhere !== undefined && isClose(anywhere)) return { path: anywhere.path, close: true };
  return here && { path: here.path, close: false };
}
