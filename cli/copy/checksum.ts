/** Counts and checksums of records: the same for the same records, whatever backend they come from. */
import { hash } from "node:crypto";

/** A JSON value as text whose members are in the order of their names: equal values have equal texts. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`);
  return `{${members.join(",")}}`;
}

const MODULUS = 2n ** 256n;

/** How many records there are, and what they are. */
export interface Summary {
  readonly count: number;
  /** 64 hexadecimal digits: the sum of the SHA-256 of all records, modulo 2^256. */
  readonly checksum: string;
}

/** Adds up records; their order counts only where they are numbered. */
export class Checksum {
  #count = 0;
  #sum = 0n;
  readonly #seen: Set<string> | undefined;
  readonly #numbered: boolean;

  /**
   * @param repeats whether records may come again, and are to be counted once.
   * @param numbered whether the place of a record counts.
   */
  constructor({ repeats, numbered }: { readonly repeats: boolean; readonly numbered: boolean }) {
    this.#seen = repeats ? new Set() : undefined;
    this.#numbered = numbered;
  }

  add(record: unknown): void {
    const number = this.#numbered ? this.#count : 0;
    const digest = hash("sha256", `${number} ${canonical(record)}`);
    if (this.#seen?.has(digest) === true) return;
    this.#seen?.add(digest);
    this.#count += 1;
    this.#sum = (this.#sum + BigInt(`0x${digest}`)) % MODULUS;
  }

  get summary(): Summary {
    return { count: this.#count, checksum: this.#sum.toString(16).padStart(64, "0") };
  }
}
