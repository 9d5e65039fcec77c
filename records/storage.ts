/** The storage of a service: opens the configured stores and combines them with the rules above them. */
import { openStores, type StoresConfiguration } from "../adapters/open.ts";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Configuration } from "../config/configuration.ts";
import { defaults } from "../config/defaults.ts";
import { ConditionFailed } from "../core/errors.ts";
import { KINDS } from "./all-kinds.ts";
import { type ArtifactStore, createArtifactStore } from "./artifacts/artifact-store.ts";
import type { AuditStore } from "./audit/audit-event.ts";
import { createAuditStore } from "./audit/audit-store.ts";
import { createPositions } from "./deliveries/lanes.ts";
import { createDeliveryStore, WATCHED_DELIVERY_KINDS } from "./deliveries/delivery-store.ts";
import { LaneAccess } from "./deliveries/lanes.ts";
import type { DeliveryStore } from "./deliveries/delivery.ts";
import { createDirectoryRecords, type DirectoryRecords } from "./directory/directory-records.ts";
import { SHARED_KINDS } from "./directory/directory-kinds.ts";
import { createSigningKeyStore, type SigningKeyStore, WATCHED_KEY_KINDS } from "./signing-key-store.ts";
import type { StoreCall } from "../core/metrics.ts";
import { createOutbox, type Outbox, WATCHED_MAIL_KINDS } from "./people/outbox.ts";
import { checkFormat } from "./format.ts";
import { createSignInStore, type SignInStore } from "./people/sign-ins.ts";
import { createSealedStore, type SealedStore } from "./sealed-store.ts";
import { createRateLimits, type RateLimits } from "./rate-limits.ts";
import { Records } from "./records.ts";

/** Kinds whose changes other processes need to notice soon. */
export const WATCHED_KINDS: readonly string[] = [
  ...WATCHED_KEY_KINDS,
  ...WATCHED_DELIVERY_KINDS,
  ...WATCHED_MAIL_KINDS,
];

/** A server or file behind a storage. */
export interface StoragePart {
  /** What it stores: `storage`, or `artifacts` if they have a store of their own. */
  readonly name: string;
  /**
   * One cheap round trip. Rejects with `StorageUnavailable` if there is no answer.
   * @returns the time of the store, in milliseconds since the epoch.
   */
  ping(): Promise<number>;
}

/** Everything that the service stores. */
export interface Storage {
  /** Changes what is stored: see {@link Records.transact}. */
  readonly records: Records;
  readonly directory: DirectoryRecords;
  /** The keys that sign ID tokens. */
  readonly keys: SigningKeyStore;
  readonly artifacts: ArtifactStore;
  readonly deliveries: DeliveryStore;
  /** The mail to people that waits to be sent. */
  readonly outbox: Outbox;
  /** Failures in a row, and which accounts have signed in before. */
  readonly signIns: SignInStore;
  readonly audit: AuditStore;
  /** What is sealed with `keys.secrets`, of all kinds. */
  readonly sealed: SealedStore;
  readonly rateLimits: RateLimits;
  /** The parts of the storage, for health checks: at least `storage`. */
  readonly parts: readonly StoragePart[];
  /** Calls back after each call to a store, for metrics. There is one listener. */
  measure(listener: (call: StoreCall) => void): void;
  /**
   * Deletes approximately `limit` expired records at most.
   * @returns how many.
   */
  sweep(limit: number): Promise<number>;
  /** Finishes the running calls and closes files and connections. Safe to call twice. */
  close(): Promise<void>;
}

/** The configuration of a storage. */
interface StorageConfiguration extends Omit<StoresConfiguration, "sharedKinds" | "watchedKinds"> {
  /** How long audit records are stored. Default: as in `config/defaults.ts`. */
  readonly audit?: Configuration["audit"];
}

function part(name: string, store: RecordStore): StoragePart {
  return { name, ping: () => store.ping() };
}

/**
 * Combines open stores into a storage.
 * @param artifacts default: `main`.
 */
export function storageOver(
  main: RecordStore,
  { clock, audit: { retention } = defaults.audit }: Pick<StorageConfiguration, "clock" | "audit">,
  artifacts?: RecordStore,
): Storage {
  let listener: ((call: StoreCall) => void) | undefined;
  const store = timedStore(main, "storage", () => listener);
  const lanes = new LaneAccess(store, clock, KINDS);
  const positions = createPositions(lanes);
  const audit = createAuditStore(lanes, positions, retention);
  const keys = createSigningKeyStore(lanes, audit);
  const artifactStore = artifacts && timedStore(artifacts, "artifacts", () => listener);
  const stores = artifactStore === undefined ? [store] : [store, artifactStore];
  const families = createArtifactStore(artifactStore ?? store, clock, KINDS);
  return {
    records: lanes,
    directory: createDirectoryRecords(lanes),
    keys,
    artifacts: families,
    deliveries: createDeliveryStore(lanes, positions),
    outbox: createOutbox(lanes),
    signIns: createSignInStore(lanes),
    audit,
    sealed: createSealedStore(lanes, keys),
    rateLimits: createRateLimits(new Records(artifactStore ?? store, clock, KINDS), clock),
    parts: [part("storage", main), ...(artifacts === undefined ? [] : [part("artifacts", artifacts)])],
    measure: (report) => (listener = report),
    async sweep(limit) {
      const swept = await Promise.all(stores.map((each) => each.sweep(limit)));
      return Math.max(...swept);
    },
    async close() {
      await families.flush();
      await Promise.all(stores.map((each) => each.close()));
    },
  };
}

/**
 * Opens the configured storage. The code of a backend is loaded when it is chosen.
 * @param onWarning gets messages for the operator. Default: they are dropped.
 * @param through wraps each store, for tests. Default: no wrapper.
 * @throws ConfigurationError for an unknown backend, an unsuitable server, or data of another version.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStorage(
  configuration: StorageConfiguration,
  onWarning?: (text: string) => void,
  through: (store: RecordStore) => RecordStore = (store) => store,
): Promise<Storage> {
  const { clock } = configuration;
  const opened = await openStores(
    { ...configuration, sharedKinds: SHARED_KINDS, watchedKinds: WATCHED_KINDS },
    onWarning,
  );
  const { main, artifacts } = opened;
  try {
    await checkFormat({ store: main, key: "storage" }, new Records(main, clock, KINDS), configuration);
    if (artifacts !== undefined) {
      const records = new Records(artifacts, clock, KINDS);
      await checkFormat({ store: artifacts, key: "artifacts" }, records, configuration);
    }
  } catch (error) {
    await opened.close();
    throw error;
  }
  return storageOver(through(main), configuration, artifacts && through(artifacts));
}

/** The same store, whose calls are reported when they have ended. Without a listener nothing is measured. */
function timedStore(
  store: RecordStore,
  name: StoreCall["store"],
  listener: () => ((call: StoreCall) => void) | undefined,
): RecordStore {
  async function timed<T>(operation: StoreCall["operation"], call: () => Promise<T>): Promise<T> {
    const report = listener();
    if (report === undefined) return call();
    const startedAt = performance.now();
    const ended = (result: StoreCall["result"]): void =>
      report({ store: name, operation, result, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const answer = await call();
      ended("success");
      return answer;
    } catch (error) {
      ended(error instanceof ConditionFailed ? "conflict" : "failure");
      throw error;
    }
  }

  return {
    get: (refs, options) => timed("get", () => store.get(refs, options)),
    list: (queries) => timed("list", () => store.list(queries)),
    scan: (kind, after, limit) => timed("scan", () => store.scan(kind, after, limit)),
    count: (queries) => timed("count", () => store.count(queries)),
    commit: (change) => timed("commit", () => store.commit(change)),
    next: (counter, atLeast) => timed("next", () => store.next(counter, atLeast)),
    sweep: (limit) => timed("sweep", () => store.sweep(limit)),
    ping: () => store.ping(),
    close: () => store.close(),
    ...(store.watch !== undefined && {
      watch: (kinds, onChange) => store.watch?.(kinds, onChange) ?? (() => undefined),
    }),
  };
}
