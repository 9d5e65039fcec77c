/** JSON that people write: says where it goes wrong, and does not pass over a key that is there twice. */

/** What is wrong with a text; `line` and `column` count from 1. It never quotes the text, which holds secrets. */
export interface JsonFault {
  readonly line: number;
  readonly column: number;
  readonly what: string;
}

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/y;

class Stop extends Error {}

/** Walks over the text by the grammar of RFC 8259; every method leaves `at` behind what it took. */
class Walker {
  readonly text: string;
  at = 0;
  what = "";

  constructor(text: string) {
    this.text = text;
  }

  stop(what: string): never {
    this.what = this.at >= this.text.length ? "the text ends too early" : what;
    throw new Stop();
  }

  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const [found] = pattern.exec(this.text) ?? [];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  /** Steps over spaces and, when it comes next, the sign. */
  sign(sign: string): boolean {
    this.take(SPACE);
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  value(): void {
    if (this.sign("{")) this.members();
    else if (this.sign("[")) this.elements();
    else if ((this.take(STRING) ?? this.take(SCALAR)) === undefined) {
      this.stop("a value must stand here: a text in double quotes, a number, true, false, null, { or [");
    }
  }

  members(): void {
    if (this.sign("}")) return;
    const seen = new Set<string>();
    do {
      this.take(SPACE);
      const start = this.at;
      const name = this.take(STRING) ?? this.stop("a key in double quotes must stand here");
      const key = JSON.parse(name) as string;
      if (seen.has(key)) {
        this.at = start;
        this.stop("this key is there twice");
      }
      seen.add(key);
      if (!this.sign(":")) this.stop("a colon must stand here");
      this.value();
    } while (this.sign(","));
    if (!this.sign("}")) this.stop("a comma or } must stand here");
  }

  elements(): void {
    if (this.sign("]")) return;
    do this.value();
    while (this.sign(","));
    if (!this.sign("]")) this.stop("a comma or ] must stand here");
  }
}

/** The first fault of a text; `undefined` when it is sound JSON without repeated keys. */
export function findJsonFault(text: string): JsonFault | undefined {
  const walker = new Walker(text);
  try {
    walker.value();
    walker.take(SPACE);
    if (walker.at < text.length) walker.stop("nothing may follow here");
    return undefined;
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
    const before = text.slice(0, walker.at).split("\n");
    return { line: before.length, column: (before.at(-1) ?? "").length + 1, what: walker.what };
  }
}
