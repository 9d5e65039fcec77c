/** Finds errors in handwritten JSON, with their position. Unlike `JSON.parse`, it refuses duplicate keys. */

/** An error; `line` and `column` count from 1. It never quotes the text, which contains secrets. */
interface JsonFault {
  readonly line: number;
  readonly column: number;
  readonly what: string;
}

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/y;

/** Deeper than anything written by hand. */
const MAX_DEPTH = 200;

class Stop extends Error {}

/** Parses the text by the grammar of RFC 8259. Each method moves `at` past what it read. */
class Walker {
  readonly text: string;
  at = 0;
  depth = 0;
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

  /** Skips whitespace, and the sign if it comes next. */
  sign(sign: string): boolean {
    this.take(SPACE);
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  value(): void {
    if (this.depth > MAX_DEPTH) this.stop("nested too deeply");
    this.depth += 1;
    if (this.sign("{")) this.members();
    else if (this.sign("[")) this.elements();
    else if ((this.take(STRING) ?? this.take(SCALAR)) === undefined) {
      this.stop("expected a value: a text in double quotes, a number, true, false, null, { or [");
    }
    this.depth -= 1;
  }

  members(): void {
    if (this.sign("}")) return;
    const seen = new Set<string>();
    do {
      this.take(SPACE);
      const start = this.at;
      const name = this.take(STRING) ?? this.stop("expected a key in double quotes");
      const key = JSON.parse(name) as string;
      if (seen.has(key)) {
        this.at = start;
        this.stop("duplicate key");
      }
      seen.add(key);
      if (!this.sign(":")) this.stop("expected a colon");
      this.value();
    } while (this.sign(","));
    if (!this.sign("}")) this.stop("expected a comma or }");
  }

  elements(): void {
    if (this.sign("]")) return;
    do this.value();
    while (this.sign(","));
    if (!this.sign("]")) this.stop("expected a comma or ]");
  }
}

/** The first error of a text, or `undefined` if it is valid JSON without duplicate keys. */
export function findJsonFault(text: string): JsonFault | undefined {
  const walker = new Walker(text);
  try {
    walker.value();
    walker.take(SPACE);
    if (walker.at < text.length) walker.stop("expected the end of the text");
    return undefined;
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
    const before = text.slice(0, walker.at).split("\n");
    return { line: before.length, column: (before.at(-1) ?? "").length + 1, what: walker.what };
  }
}
