/** The storage of a service: the stores that the configuration names, and the rules of what is kept in them. */
import { type OpenedStore, openStores, type StoresConfiguration } from "../adapters/open.ts";
import type { RateLimiterFactory } from "../adapters/rate-limits.ts";
import type { V01Options } from "../adapters/v01.ts";
import type { Configuration } from "../config/configuration.ts";
import { defaults } from "../config/defaults.ts";
import { KINDS } from "./all-kinds.ts";
import { type ArtifactStore, createArtifactStore } from "./artifacts/artifact-store.ts";
import type { AuditStore } from "./audit/audit-event.ts";
import { createAuditStore } from "./audit/audit-store.ts";
import { createPositions } from "./deliveries/add.ts";
import { createDeliveryStore, WATCHED_DELIVERY_KINDS } from "./deliveries/delivery-store.ts";
import { LaneAccess } from "./deliveries/lane-access.ts";
import type { DeliveryStore } from "./deliveries/delivery.ts";
import { createDirectoryStore } from "./directory/directory-store.ts";
import { SHARED_KINDS } from "./directory/records.ts";
import type { DirectoryStore } from "./directory/directory.ts";
import { createSigningKeyStore, type SigningKeyStore, WATCHED_KEY_KINDS } from "./keys/signing-key-store.ts";
import { convertV01 } from "./migration/convert.ts";
import { checkFormat } from "./migration/format.ts";
import { Records } from "./records.ts";

/** The setting that an unfinished copy into a storage leaves there: a service that finds it does not start. */
export const UNFINISHED_COPY = "unfinished-copy";

/** The kinds of which some process wants to hear soon when another one has changed them. */
export const WATCHED_KINDS: readonly string[] = [...WATCHED_KEY_KINDS, ...WATCHED_DELIVERY_KINDS];

/** A server or file behind a storage. */
export interface StoragePart {
  /** What it keeps: `storage`, or `artifacts` where those are kept elsewhere. */
  readonly name: string;
  /** One cheap round trip. Rejects with `StorageUnavailable` when there is no answer. */
  ping(): Promise<void>;
}

/** Everything that the service keeps. */
export interface Storage {
  readonly directory: DirectoryStore;
  /** The keys that sign ID tokens. */
  readonly keys: SigningKeyStore;
  readonly artifacts: ArtifactStore;
  readonly deliveries: DeliveryStore;
  readonly audit: AuditStore;
  /** Makes limiters whose points all processes that have this storage share, if several can have it at once. */
  readonly rateLimits: RateLimiterFactory;
  /** What it is made of, for health: at least `storage`. */
  readonly parts: readonly StoragePart[];
  /** Deletes what has expired, at most about so many records. @returns how many. */
  sweep(limit: number): Promise<number>;
  /** Finishes what was begun and lets go of files and connections. Safe to call twice. */
  close(): Promise<void>;
}

/** What opening needs to know. */
export interface StorageConfiguration extends Omit<
  StoresConfiguration,
  "sharedKinds" | "watchedKinds" | "v01"
> {
  /** How long audit records are kept. Default: that of the configuration. */
  readonly audit?: Configuration["audit"];
}

function part(name: string, { store }: OpenedStore): StoragePart {
  return {
    name,
    async ping() {
      await store.ping();
    },
  };
}

/** Everything that a service keeps, over its stores. @param artifacts default: `main`. */
export function storageOver(
  main: OpenedStore,
  { clock, audit: { retention } = defaults.audit }: Pick<StorageConfiguration, "clock" | "audit">,
  artifacts?: OpenedStore,
): Storage {
  const lanes = new LaneAccess(main.store, clock, KINDS);
  const positions = createPositions(lanes);
  const audit = createAuditStore(lanes, positions, retention);
  const away = artifacts ?? main;
  const opened = artifacts === undefined ? [main] : [main, artifacts];
  return {
    directory: createDirectoryStore(lanes, audit, positions),
    keys: createSigningKeyStore(lanes, audit),
    artifacts: createArtifactStore(away.store, clock, KINDS),
    deliveries: createDeliveryStore(lanes),
    audit,
    rateLimits: away.rateLimits,
    parts: [part("storage", main), ...(artifacts === undefined ? [] : [part("artifacts", artifacts)])],
    async sweep(limit) {
      const swept = await Promise.all(opened.map(({ store }) => store.sweep(limit)));
      return Math.max(...swept);
    },
    async close() {
      await Promise.all(opened.map(({ store }) => store.close()));
    },
  };
}

/** Milliseconds between two lines about a migration. */
const NEWS = 5_000;

/** Carries over a database file of version 0.1 and tells so: at its beginning, and now and then when it takes long. */
function migratesAtStart(tell: (text: string) => void = () => undefined): V01Options {
  let last: number | undefined;
  return {
    convert: convertV01,
    onProgress(what, done, total) {
      const now = performance.now();
      if (last === undefined)
        tell("version 0.1 has written this storage: it is carried over now, see docs/migrating.md");
      else if (now - last < NEWS) return;
      else tell(`carrying over ${what}: ${done} of ${total}`);
      last = now;
    },
  };
}

/**
 * Opens the storage that the configuration names; a backend's code is loaded when it is chosen.
 * @param onWarning told what an operator should put right. Default: nobody.
 * @throws ConfigurationError when there is no such backend, the server there is of the wrong kind, or another version
 *   has written there.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStorage(
  configuration: StorageConfiguration,
  onWarning?: (text: string) => void,
): Promise<Storage> {
  const { clock, storage } = configuration;
  // A file is carried over by whoever opens it first, unless there is more to do than to open it.
  const v01 = configuration.artifacts === storage ? migratesAtStart(onWarning) : undefined;
  const opened = await openStores(
    { ...configuration, sharedKinds: SHARED_KINDS, watchedKinds: WATCHED_KINDS, v01 },
    onWarning,
  );
  const { main, artifacts } = opened;
  try {
    await checkFormat({ ...main, key: "storage" }, new Records(main.store, clock, KINDS));
    if (artifacts !== undefined)
      await checkFormat({ ...artifacts, key: "artifacts" }, new Records(artifacts.store, clock, KINDS));
  } catch (error) {
    await opened.close();
    throw error;
  }
  return storageOver(main, configuration, artifacts);
}
