/**
 * A store in the format of this version, whichever of its two formats it has: what is read is in this version's own, and what is written
 * is in the format that the store has now. The format is looked up every two seconds, so that no process writes in one that the store has left.
 */
import type {
  Commit,
  Found,
  IndexEntry,
  Page,
  Position,
  Query,
  RecordData,
  RecordStore,
  Ref,
} from "../../adapters/record-store.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { currentFormat, type KindChange, type StoredValue } from "../../core/storage-formats.ts";
import { json } from "../records.ts";
import { readFormat, refusalOf, useOf } from "./format.ts";

/** How often a process looks at the format of its stores. */
export const FORMAT_INTERVAL_MS = 2_000;
/** A commit begins only if the process has looked at the format this recently. `storage migrate` waits until all know a new one. */
export const FORMAT_KNOWN_MS = 5_000;

/** The format of a store is not one of this version any more. */
export class FormatLeft extends StorageUnavailable {}

const asValue = ({ value }: { readonly value: object }): StoredValue => value as StoredValue;

/** The record as the version before writes it, with the index entries that only that version reads. */
function former(record: RecordData, { downgrade, formerIndex }: KindChange): RecordData {
  const value = downgrade(asValue(record));
  const index: IndexEntry[] = [...(record.index ?? [])];
  for (const entry of formerIndex?.(value) ?? [])
    if (!index.some(({ name, at }) => name === entry.name && at === entry.at)) index.push(entry);
  return { ...record, value: json(value), index: index.length === 0 ? undefined : index };
}

export class TranslatedStore implements RecordStore {
  readonly copy?: NonNullable<RecordStore["copy"]>;
  readonly watch?: NonNullable<RecordStore["watch"]>;
  readonly pool?: NonNullable<RecordStore["pool"]>;
  readonly leftovers?: NonNullable<RecordStore["leftovers"]>;
  readonly dropLeftovers?: NonNullable<RecordStore["dropLeftovers"]>;
  readonly #store: RecordStore;
  readonly #changes: ReadonlyMap<string, KindChange>;
  readonly #timer: NodeJS.Timeout;
  #writesFormer = false;
  #refusal: string | undefined;
  /** By the monotonic clock. */
  #knownAt = -Infinity;
  #looking: Promise<void> | undefined;

  constructor(store: RecordStore) {
    this.#store = store;
    this.#changes = new Map(currentFormat().changes.map((change) => [change.kind, change]));
    if (store.copy !== undefined) this.copy = store.copy.bind(store);
    if (store.watch !== undefined) this.watch = store.watch.bind(store);
    if (store.pool !== undefined) this.pool = store.pool.bind(store);
    if (store.leftovers !== undefined) this.leftovers = store.leftovers.bind(store);
    if (store.dropLeftovers !== undefined) this.dropLeftovers = store.dropLeftovers.bind(store);
    // The next commit looks again, and its caller gets the error.
    this.#timer = setInterval(() => void this.look().catch(() => undefined), FORMAT_INTERVAL_MS).unref();
  }

  /** Reads which format the store has. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const askedAt = performance.now();
    const stored = await readFormat(this.#store);
    this.#knownAt = askedAt;
    const use = stored === undefined ? "use" : useOf(stored);
    this.#writesFormer = use === "before";
    this.#refusal =
      stored !== undefined && (use === "later" || use === "earlier") ? refusalOf(stored) : undefined;
  }

  #require(): void {
    if (this.#refusal !== undefined) throw new FormatLeft(this.#refusal, { reason: "format" });
  }

  readonly #read = (found: Found): Found => {
    const { parent } = found;
    const upgraded = this.#changes.get(found.kind)?.upgrade(asValue(found));
    if (upgraded === undefined && parent === undefined) return found;
    return {
      ...found,
      ...(upgraded !== undefined && { value: json(upgraded) }),
      ...(parent !== undefined && { parent: this.#read(parent) }),
    };
  };

  #page(page: Page): Page {
    return this.#changes.size === 0 ? page : { ...page, records: page.records.map(this.#read) };
  }

  async get(
    refs: readonly Ref[],
    options?: { readonly withParents?: boolean },
  ): Promise<(Found | undefined)[]> {
    this.#require();
    const all = await this.#store.get(refs, options);
    return this.#changes.size === 0 ? all : all.map((found) => found && this.#read(found));
  }

  async list(queries: readonly Query[]): Promise<Page[]> {
    this.#require();
    return (await this.#store.list(queries)).map((page) => this.#page(page));
  }

  async scan(kind: string, after: Position | undefined, limit: number): Promise<Page> {
    this.#require();
    return this.#page(await this.#store.scan(kind, after, limit));
  }

  async count(queries: readonly Query[]): Promise<number[]> {
    this.#require();
    return this.#store.count(queries);
  }

  async commit(change: Commit): Promise<void> {
    if (performance.now() - this.#knownAt > FORMAT_KNOWN_MS) await this.look();
    this.#require();
    if (!this.#writesFormer || change.put === undefined) return this.#store.commit(change);
    const put = change.put.map((record) => {
      const rule = this.#changes.get(record.kind);
      return rule === undefined ? record : former(record, rule);
    });
    return this.#store.commit({ ...change, put });
  }

  async next(counter: string, atLeast?: number): Promise<number> {
    this.#require();
    return this.#store.next(counter, atLeast);
  }

  async sweep(limit: number, now: number): Promise<number> {
    this.#require();
    return this.#store.sweep(limit, now);
  }

  ping(): Promise<number> {
    return this.#store.ping();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking?.catch(() => undefined);
    await this.#store.close();
  }
}
