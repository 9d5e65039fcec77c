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
  /** What is remembered was compared with the file in this turn of the event loop. */
  #fresh = false;

  /** @param load reads and parses the record. */
  constructor(connection: Connection, load: (key: string) => T | undefined) {
    this.#connection = connection;
    this.#load = load;
  }

  /** A read by itself: once in a turn of the event loop the file is looked at, and what is remembered then is told. */
  lookUp(key: string): Promise<T | undefined> {
    const known = this.#fresh && this.#connection.isOpen() ? this.#records.get(key) : undefined;
    if (known !== undefined) return Promise.resolve(known);
    return this.#connection.read(() => {
      const record = this.find(key);
      this.#fresh = true;
      process.nextTick(this.#turnEnds);
      return record;
    });
  }

  /** Inside a read, which may find other things as well. */
  find(key: string): T | undefined {
    return this.#known(key) ?? this.#remember(key);
  }

  /** Inside a write: what is read there is not remembered, for it may be undone. */
  look(key: string): T | undefined {
    return this.#known(key) ?? this.#load(key);
  }

  readonly #turnEnds = (): void => {
    this.#fresh = false;
  };

  forget(key: string): void {
    this.#records.delete(key);
  }

  #known(key: string): T | undefined {
    const version = this.#connection.foreignVersion();
    if (version !== this.#version) this.#records.clear();
    this.#version = version;
    return this.#records.get(key);
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
