/**
 * This version, or a later one whose storage format has a row more, as a process of its own. Argument: what it does, as JSON. The code of
 * the later version is that of this one behind a store that names what it reads as this version does.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
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
  type KindChange,
  STORAGE_FORMATS,
  type StorageFormat,
  type StoredValue,
} from "../../../core/storage-formats.ts";
import { live } from "../../faults/campaign/child.ts";

export interface Job {
  readonly isNext: boolean;
  readonly config: object;
  /** A command to run; without it, the process serves. */
  readonly command?: readonly string[];
}

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

export const nextFormat = (): StorageFormat => ({
  format: (STORAGE_FORMATS[0]?.format ?? 0) + 1,
  since: "0.4.0",
  what: "planted by a test",
  path: "expand and contract",
  changes,
});

const withEntry = (record: RecordData): RecordData =>
  record.kind === NEW_INDEX.kind && !record.index?.some(({ name }) => name === NEW_INDEX.name)
    ? { ...record, index: [...(record.index ?? []), { name: NEW_INDEX.name, at: "all", order: 0 }] }
    : record;

/** The store of the later version, as the code of this version knows it. */
function throughNext(store: RecordStore): RecordStore {
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
async function plant(): Promise<void> {
  (STORAGE_FORMATS as StorageFormat[]).push(nextFormat());
  const { KINDS } = await import("../../../records/all-kinds.ts");
  const kind = KINDS.get(NEW_INDEX.kind);
  const asDeclared = { ...kind };
  Object.assign(kind, { restore: (found: Found) => withEntry(asDeclared.restore(found)) });
}

async function serve({ isNext, config }: Job): Promise<void> {
  await live(async () => {
    if (isNext) await plant();
    const { createSignInServiceOver } = await import("../../../lib/service.ts");
    const { openStorage } = await import("../../../records/storage.ts");
    const service = await createSignInServiceOver(
      { ...config, logger: pino({ level: "error" }, pino.destination({ dest: 2, sync: true })) } as never,
      (configuration, onWarning) => openStorage(configuration, onWarning, isNext ? throughNext : undefined),
      { cheapHashes: true },
    );
    const handle = new Koa().use(service.routes()).callback();
    const server = createServer(
      { keepAliveTimeout: 600_000 },
      (request, response) => void handle(request, response),
    );
    await once(server.listen(0, "127.0.0.1"), "listening");
    process.send?.({ port: (server.address() as AddressInfo).port });
    return {
      async close() {
        server.close();
        server.closeAllConnections();
        await service.close();
      },
    };
  });
}

async function command({ isNext, command: words = [] }: Job): Promise<void> {
  if (isNext) await plant();
  const { here } = await import("../../cli/here.ts");
  const { code, out, err } = await here(words, { err: { write: (text) => process.stderr.write(text) } });
  process.stdout.write(out);
  process.stderr.write(err);
  process.exitCode = code;
}

if (import.meta.main) {
  const job = JSON.parse(process.argv[2] ?? "") as Job;
  await (job.command === undefined ? serve(job) : command(job));
}
