/** Parsed records that are read again and again; what is found is never older than the file. */
import { deepFreeze } from "../../config/deep-freeze.ts";
import type { Connection } from "./connection.ts";

/** At most so many records are remembered: one or two kilobytes each. */
const CAPACITY = 1000;

/**
 * Records by their key. They are forgotten when another connection, of this process or another, has written
 * to the file; a change through this connection has to `forget` the record itself. Records come out frozen,
 * for everybody gets the same one.
 */
export class RecordCache<T> {
  readonly #connection: Connection;
  readonly #load: (key: string) => T | undefined;
  readonly #records = new Map<string, T>();
  #version = Number.NaN;

  /** @param load reads and parses the record. */
  constructor(connection: Connection, load: (key: string) => T | undefined) {
    this.#connection = connection;
    this.#load = load;
  }

  find(key: string): T | undefined {
    const version = this.#connection.foreignVersion();
    if (version !== this.#version) this.#records.clear();
    this.#version = version;
    return this.#records.get(key) ?? this.#remember(key);
  }

  forget(key: string): void {
    this.#records.delete(key);
  }

  #remember(key: string): T | undefined {
    const record = this.#load(key);
    if (record === undefined) return undefined;
    const [oldest] = this.#records.keys();
    if (oldest !== undefined && this.#records.size >= CAPACITY) this.#records.delete(oldest);
    this.#records.set(key, deepFreeze(record));
    return record;
  }
}
