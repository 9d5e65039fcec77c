/**
 * A later version, whose storage format has a row more and whose functions in PostgreSQL have another text. Its code is that of this
 * version behind a store that names what it reads as this version does.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import type {
  Found,
  Page,
  Position,
  Query,
  RecordData,
  RecordStore,
  Ref,
} from "../../../adapters/record-store.ts";
import {
  type FormatPath,
  type KindChange,
  STORAGE_FORMATS,
  type StoredValue,
} from "../../../core/storage-formats.ts";

/** In the next format, these members have other names. */
export const RENAMED: Readonly<Record<string, readonly [before: string, after: string]>> = {
  account: ["surname", "family_name"],
  "refresh-token": ["clientId", "client"],
  delivery: ["attemptRecords", "history"],
};

/** In the next format, accounts have an entry more. */
export const NEW_INDEX = { kind: "account", name: "planted" } as const;

function rename(value: StoredValue, from: string, to: string): StoredValue {
  if (!Object.hasOwn(value, from)) return value;
  const { [from]: member, ...others } = value;
  return { ...others, [to]: member };
}

const changes = Object.entries(RENAMED).map(([kind, [before, after]]): KindChange => ({
  kind,
  upgrade: (value) => rename(value, before, after),
  downgrade: (value) => rename(value, after, before),
}));

const withEntry = (record: RecordData): RecordData =>
  record.kind === NEW_INDEX.kind && !record.index?.some(({ name }) => name === NEW_INDEX.name)
    ? { ...record, index: [...(record.index ?? []), { name: NEW_INDEX.name, at: "all", order: 0 }] }
    : record;

/** The store of the later version, as the code of this version knows it. */
export function throughNext(store: RecordStore): RecordStore {
  const known = (found: Found): Found => {
    const [before, after] = RENAMED[found.kind] ?? ["", ""];
    return {
      ...found,
      value: rename(found.value, after, before) as Found["value"],
      ...(found.parent && { parent: known(found.parent) }),
    };
  };
  const page = (each: Page): Page => ({ ...each, records: each.records.map(known) });
  return {
    get: async (refs: readonly Ref[], options) =>
      (await store.get(refs, options)).map((found) => found && known(found)),
    list: async (queries: readonly Query[]) => (await store.list(queries)).map(page),
    scan: async (kind: string, after: Position | undefined, limit: number) =>
      page(await store.scan(kind, after, limit)),
    count: (queries) => store.count(queries),
    commit(change) {
      const put = change.put?.map((record) => {
        const [before, after] = RENAMED[record.kind] ?? ["", ""];
        return withEntry({ ...record, value: rename(record.value, before, after) as Found["value"] });
      });
      return store.commit(put === undefined ? change : { ...change, put });
    },
    next: (counter, atLeast) => store.next(counter, atLeast),
    sweep: (limit, now) => store.sweep(limit, now),
    ping: () => store.ping(),
    close: () => store.close(),
    ...(store.copy && { copy: () => store.copy!() }),
    ...(store.watch && { watch: (kinds, onChange) => store.watch!(kinds, onChange) }),
    ...(store.pool && { pool: () => store.pool!() }),
  };
}

/** Makes the product of this process the later version. Call it before anything of the product is loaded. */
export async function plant(path: FormatPath = "expand and contract"): Promise<void> {
  const [first] = STORAGE_FORMATS as [(typeof STORAGE_FORMATS)[0]];
  (STORAGE_FORMATS as object[]).push({
    format: first.format + 1,
    since: "0.4.0",
    what: "planted by a test",
    path,
    changes,
  });
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith("/adapters/postgresql/schema.ts")) return loaded;
      const source = readFileSync(fileURLToPath(url), "utf8");
      return { ...loaded, source: source.replace("-- Removes a record.", "-- Deletes a record.") };
    },
  });
  const { KINDS } = await import("../../../records/all-kinds.ts");
  const kind = KINDS.get(NEW_INDEX.kind);
  const asDeclared = { ...kind };
  Object.assign(kind, { restore: (found: Found) => withEntry(asDeclared.restore(found)) });
}

/**
 * Makes the product of this process the version that is named: `next`, or the one that it is.
 * @returns the wrapper of its stores.
 */
export async function become(version: string | undefined): Promise<(store: RecordStore) => RecordStore> {
  if (version !== "next") return (store) => store;
  await plant();
  return throughNext;
}
