/** Query strings and form bodies, parsed strictly: malformed input is refused, never guessed. */
import { type EndpointError, invalidRequest } from "./errors.ts";

/** Parameters in the order received; a name may be repeated. */
export class Fields {
  readonly #entries: readonly (readonly [string, string])[];

  constructor(entries: readonly (readonly [string, string])[] = []) {
    this.#entries = entries;
  }

  /** The value of a parameter, unless it is missing or repeated. */
  one(name: string): string | undefined {
    let found: string | undefined;
    for (const [other, value] of this.#entries) {
      if (other !== name) continue;
      if (found !== undefined) return undefined;
      found = value;
    }
    return found;
  }

  all(name: string): string[] {
    const found: string[] = [];
    for (const [other, value] of this.#entries) if (other === name) found.push(value);
    return found;
  }

  has(name: string): boolean {
    return this.#entries.some(([other]) => other === name);
  }

  /** The names that occur more than once. */
  repeated(): string[] {
    const seen = new Set<string>();
    const repeated = new Set<string>();
    for (const [name] of this.#entries) {
      if (seen.has(name)) repeated.add(name);
      else seen.add(name);
    }
    return [...repeated];
  }

  entries(): readonly (readonly [string, string])[] {
    return this.#entries;
  }

  /** A copy without the parameters of these names. */
  without(names: readonly string[]): Fields {
    return new Fields(this.#entries.filter(([name]) => !names.includes(name)));
  }

  /** A copy with only the parameters of these names. */
  only(names: readonly string[]): Fields {
    return new Fields(this.#entries.filter(([name]) => names.includes(name)));
  }

  /** A copy in which one parameter has exactly this value. */
  with(name: string, value: string): Fields {
    return new Fields([...this.without([name]).entries(), [name, value]]);
  }

  /** A copy in which the values of a parameter are replaced. */
  map(name: string, replace: (value: string) => string): Fields {
    return new Fields(
      this.#entries.map(([other, value]) => [other, other === name ? replace(value) : value] as const),
    );
  }

  /** As `application/x-www-form-urlencoded`. */
  toString(): string {
    return this.#entries.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
  }
}

/** Text that form-encoding leaves unchanged. */
const PLAIN = /^[\w.*-]*$/;

/** Form-encodes text. Unpaired surrogates have no encoding and become U+FFFD. */
function encoded(text: string): string {
  return PLAIN.test(text) ? text : encodeURIComponent(text.toWellFormed());
}

/** Bytes of one parameter at a protocol endpoint, after decoding (decisions.md, Parameters). */
const MAX_PARAMETER_BYTES = 4_096;
const LONGER_PARAMETERS: ReadonlyMap<string, number> = new Map([
  ["claims", 8_192],
  ["id_token_hint", 16_384],
  ["client_assertion", 16_384],
]);
/** Bytes of all names and values of a request. */
const MAX_ALL_BYTES = 32_768;

/**
 * The parameters of a protocol endpoint. Some of them are stored with a sign-in that anybody can start, so their size has limits.
 * @throws EndpointError 400 `invalid_request` for a parameter that is too long, or too much of all.
 */
export function boundedFields(fields: Fields): Fields {
  let all = 0;
  for (const [name, value] of fields.entries()) {
    const most = LONGER_PARAMETERS.get(name) ?? MAX_PARAMETER_BYTES;
    const size = Buffer.byteLength(value);
    // An unknown name may be anything, so it is not repeated.
    if (size > most) throw invalidRequest(`a parameter is longer than ${most} bytes`);
    all += Buffer.byteLength(name) + size;
  }
  if (all > MAX_ALL_BYTES) throw invalidRequest(`the parameters are longer than ${MAX_ALL_BYTES} bytes`);
  return fields;
}

/** The parameters in the address of a protocol endpoint. */
export const queryFields = (querystring: string): Fields => boundedFields(parseFields(querystring));

/** More parameters than any legitimate request has. */
const MAX_FIELDS = 100;

const malformed = (): EndpointError => invalidRequest("the request is malformed");

/** Decodes a name or a value. Percent escapes must be complete, the bytes UTF-8, and NUL is refused. */
function decode(text: string): string {
  // A body may be decoded already; in it, U+FFFD stands for invalid bytes.
  if (text.includes("\0") || text.includes("\uFFFD")) throw malformed();
  const spaced = text.includes("+") ? text.replaceAll("+", " ") : text;
  if (!spaced.includes("%")) return spaced;
  if (/%(?![0-9A-Fa-f]{2})/.test(spaced)) throw malformed();
  // Created late: creating a decoder takes longer than parsing a query without escapes.
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const bytes = spaced.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) => {
    try {
      return decoder.decode(Buffer.from(run.replaceAll("%", ""), "hex"));
    } catch {
      throw malformed();
    }
  });
  if (bytes.includes("\0")) throw malformed();
  return bytes;
}

/**
 * Parses `application/x-www-form-urlencoded` (WHATWG URL Standard section 5.1, but strict).
 * @throws EndpointError 400 `invalid_request` for a broken escape, bytes that are not UTF-8, NUL, or too many fields.
 */
export function parseFields(text: string): Fields {
  if (text === "") return new Fields();
  const pairs = text.split("&", MAX_FIELDS + 1).filter((pair) => pair !== "");
  if (pairs.length > MAX_FIELDS) throw malformed();
  return new Fields(
    pairs.map((pair) => {
      const equals = pair.indexOf("=");
      const name = equals === -1 ? pair : pair.slice(0, equals);
      const value = equals === -1 ? "" : pair.slice(equals + 1);
      return [decode(name), decode(value)] as const;
    }),
  );
}
