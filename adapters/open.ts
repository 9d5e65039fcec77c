/** Opens the stores that the configuration names. A backend's code is loaded only when it is chosen. */
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Configuration } from "../config/configuration.ts";
import { addressProblem, type Backend, backendOf, databaseFile } from "../config/storage-address.ts";
import { ConfigurationError } from "../core/errors.ts";
import type { OnStoreWarning } from "../core/store-warning.ts";
import type { RecordStore } from "./record-store.ts";

/** The stores of a service. */
export interface OpenedStores {
  readonly main: RecordStore;
  /** The store of codes, tokens, sessions and rate limits, if it is not `main`. */
  readonly artifacts: RecordStore | undefined;
  close(): Promise<void>;
}

export interface StoresConfiguration extends Pick<
  Configuration,
  "storage" | "store" | "artifacts" | "clock"
> {
  /** Kinds with records that many commits expect and few change, for stores without shared locks. */
  readonly sharedKinds: readonly string[];
  /** Kinds that are watched, for stores that announce commits. */
  readonly watchedKinds: readonly string[];
  /** Whether the storage must exist; opening it then writes nothing. Default `false`: missing parts are created. */
  readonly mustExist?: boolean;
  /**
   * Checks the store that is opened first.
   * @returns the id of the storage, under which Redis holds its artifacts; `undefined`, and the default: under none.
   */
  readonly identify?: (main: RecordStore) => Promise<string | undefined>;
}

interface Opening extends Pick<StoresConfiguration, "clock" | "sharedKinds" | "watchedKinds" | "mustExist"> {
  readonly onWarning: OnStoreWarning;
  /** The id of the storage beside which the store holds artifacts. */
  readonly storageId?: string | undefined;
}

type Open = (address: string, opening: Opening) => Promise<RecordStore>;

async function openFile(
  address: string,
  { clock, mustExist = false, onWarning }: Opening,
): Promise<RecordStore> {
  const { openSqlite } = await import("./sqlite/record-store.ts");
  const file = databaseFile(address);
  const folder = file && dirname(resolve(file));
  const isNew = folder !== undefined && !mustExist && !existsSync(folder);
  const opened = await openSqlite({ path: file ?? ":memory:", clock, mustExist });
  // The path may be mistyped, or a volume missing: then everybody seems to be gone.
  if (isNew)
    onWarning(
      `the folder ${folder} did not exist: it was created, with a new database in it; if there should be accounts, correct storage`,
      "folder_created",
    );
  return opened;
}

/** What each backend loads, and what it is told. */
const OPEN: Readonly<Record<Backend, Open>> = {
  sqlite: openFile,
  async postgresql(url, { clock, watchedKinds, mustExist = false, onWarning }) {
    const { openPostgres } = await import("./postgresql/record-store.ts");
    return openPostgres({ url, clock, announced: watchedKinds, mustExist, onWarning });
  },
  async mongodb(url, { clock, sharedKinds, mustExist = false }) {
    const { openMongo } = await import("./mongodb/record-store.ts");
    return openMongo({ url, clock, shared: sharedKinds, mustExist });
  },
  async redis(url, { clock, storageId, onWarning }) {
    const { openRedis } = await import("./redis/record-store.ts");
    return openRedis({ url, clock, onWarning, storageId });
  },
};

/**
 * Opens the store at one address.
 * @throws as {@link openStores} does.
 */
export async function openStore(address: string, opening: Opening): Promise<RecordStore> {
  const backend = backendOf(address);
  if (backend === undefined) throw new ConfigurationError(["an address of a store has an unknown scheme"]);
  return OPEN[backend](address, opening);
}

/**
 * @param onWarning receives problems that an operator should fix.
 * @throws ConfigurationError for an unknown backend or an unsuitable server.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStores(
  configuration: StoresConfiguration,
  onWarning: OnStoreWarning = () => undefined,
): Promise<OpenedStores> {
  const { storage, store: own, artifacts } = configuration;
  const isSeparate = artifacts !== storage;
  const problems = [
    ["storage", own === undefined ? addressProblem("storage", storage) : undefined],
    ["artifacts", isSeparate ? addressProblem("artifacts", artifacts) : undefined],
  ].flatMap(([option, text]) => (text === undefined ? [] : [`config.${option}: ${text}`]));
  if (problems.length > 0) throw new ConfigurationError(problems);
  const opening = { ...configuration, onWarning };
  const main = own === undefined ? await openStore(storage, opening) : (own as RecordStore);
  try {
    const storageId = await configuration.identify?.(main);
    if (!isSeparate) return { main, artifacts: undefined, close: () => main.close() };
    const separate = await openStore(artifacts, { ...opening, storageId });
    return {
      main,
      artifacts: separate,
      async close() {
        await Promise.all([main.close(), separate.close()]);
      },
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}
