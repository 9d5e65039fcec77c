/** The storage of a service: opens the configured stores and combines them with the rules above them. */
import { type OpenedStores, openStores, type StoresConfiguration } from "../adapters/open.ts";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Configuration } from "../config/configuration.ts";
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
import type { OnStoreWarning } from "../core/store-warning.ts";
import { createOutbox, type Outbox, WATCHED_MAIL_KINDS } from "./people/outbox.ts";
import { checkFormat, readFormat, type StoredFormat } from "./formats/format.ts";
import { TranslatedStore } from "./formats/translated-store.ts";
import { createSignInStore, type SignInStore } from "./people/sign-ins.ts";
import { createSealedStore, type SealedStore } from "./sealed-store.ts";
import { createSecretStore, type SecretStore } from "./secrets.ts";
import { createRateLimits, type RateLimits } from "./rate-limits.ts";
import { StoreClocks } from "./clocks.ts";
import { ObservedStore } from "./observed-store.ts";
import { type KindRules, Records } from "./records.ts";
import { createRenewals, type Renewals } from "./backup/renewal.ts";
import { createStorageWatch, identify, type StorageWatch } from "./storage-identity.ts";
import { defaults } from "../config/schema.ts";

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
  /** Resolves if it takes writes, and rejects with `StorageUnavailable` if it doesn't or does not answer. */
  takesWrites(): Promise<void>;
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
  /** Which of `keys.secrets` the storage needs. */
  readonly secrets: SecretStore;
  /** What is sealed with `keys.secrets`, of all kinds. */
  readonly sealed: SealedStore;
  readonly rateLimits: RateLimits;
  /** Notices that the storage has gone back, because a backup was restored or a standby promoted. */
  readonly watch: StorageWatch;
  /** Renews a storage that has gone back. */
  readonly renewals: Renewals;
  /** The parts of the storage, for health checks: at least `storage`. */
  readonly parts: readonly StoragePart[];
  /** The clocks of the stores. While that of this process is wrong, calls to the stores reject with `WrongClock`. */
  readonly clocks: StoreClocks;
  /** The connections of each store that has a pool. */
  pools(): readonly { readonly store: string; readonly used: number; readonly waiting: number }[];
  /** What each store says about its format. Empty for one that no server has used. */
  formats(): Promise<readonly StoredFormat[]>;
  /** The time by the clock of the storage, in milliseconds since the epoch: for deleting what is too old. */
  now(): number;
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
interface StorageConfiguration extends Omit<
  StoresConfiguration,
  "sharedKinds" | "watchedKinds" | "identify"
> {
  /** How long audit records are stored. Default: as in `config/defaults.ts`. */
  readonly audit?: Configuration["audit"];
  /** Whether this process sends the mail that it stores, so that other workers need not be told. Default: it does not. */
  readonly notifications?: Pick<Configuration["notifications"], "worker">;
}

/**
 * Combines open stores into a storage.
 * @param artifacts default: `main`.
 * @param onWarning gets messages about wrong clocks. Default: they are dropped.
 */
export function storageOver(
  main: RecordStore,
  {
    clock,
    storage,
    audit: retention = defaults.audit,
  }: Pick<StorageConfiguration, "clock" | "audit"> & Partial<Pick<StorageConfiguration, "storage">>,
  artifacts?: RecordStore,
  onWarning?: OnStoreWarning,
): Storage {
  let listener: ((call: StoreCall) => void) | undefined;
  const first = { name: "storage", store: main } as const;
  const second = artifacts && ({ name: "artifacts", store: artifacts } as const);
  const clocks = new StoreClocks(second === undefined ? [first] : [first, second], clock, onWarning);
  const observers = { clock, clocks, listener: () => listener };
  const store = new ObservedStore(first, observers);
  const artifactStore = second && new ObservedStore(second, observers);
  const stores = artifactStore === undefined ? [store] : [store, artifactStore];
  const lanes = new LaneAccess(store, clock, KINDS);
  const positions = createPositions(lanes);
  const audit = createAuditStore(lanes, positions, retention);
  const keys = createSigningKeyStore(lanes, audit);
  const secrets = createSecretStore(lanes);
  const deliveries = createDeliveryStore(lanes, positions);
  const hasOwnArtifacts = artifactStore !== undefined;
  // In one store, whatever belongs to a sign-in can be in its commit.
  const rules: KindRules = hasOwnArtifacts
    ? KINDS
    : { checkTogether: (names) => Array.from(names, (name) => KINDS.get(name)) };
  const watch = createStorageWatch({
    records: lanes,
    artifacts: artifactStore && new Records(artifactStore, clock, KINDS),
    storage,
  });
  return {
    records: lanes,
    directory: createDirectoryRecords(lanes),
    keys,
    artifacts: createArtifactStore(artifactStore ?? store, clock, rules),
    deliveries,
    outbox: createOutbox(lanes),
    signIns: createSignInStore(lanes),
    audit,
    secrets,
    sealed: createSealedStore(lanes, keys, secrets),
    rateLimits: createRateLimits(new Records(artifactStore ?? store, clock, rules), clock),
    watch,
    renewals: createRenewals({ records: lanes, keys, audit, deliveries, watch, hasOwnArtifacts }),
    parts: stores,
    clocks,
    formats: async () => (await Promise.all(stores.map(readFormat))).filter((each) => each !== undefined),
    now: () => clocks.timeOf("storage"),
    pools: () =>
      stores.flatMap((each) => (each.pool === undefined ? [] : [{ store: each.name, ...each.pool() }])),
    measure: (report) => (listener = report),
    async sweep(limit) {
      await clocks.check();
      const swept = await Promise.all(stores.map((each) => each.sweep(limit, clocks.timeOf(each.name))));
      return Math.max(...swept);
    },
    async close() {
      await clocks.stop();
      await Promise.all(stores.map((each) => each.close()));
    },
  };
}

/**
 * Opens the stores, and checks their formats.
 * @param configuration.isMigrating accepts stores that have to be migrated before a service may use them.
 */
export async function openChecked(
  configuration: Omit<StoresConfiguration, "identify"> & { readonly isMigrating?: boolean },
  onWarning?: OnStoreWarning,
): Promise<OpenedStores> {
  const { clock, mustExist = false, isMigrating = false } = configuration;
  const open: { main?: RecordStore; artifacts?: RecordStore } = {};
  const close = async (): Promise<void> =>
    void (await Promise.all([open.main?.close(), open.artifacts?.close()]));
  async function checked(store: RecordStore, key: "storage" | "artifacts"): Promise<Records> {
    const records = new Records(store, clock, KINDS);
    await checkFormat({ store, key }, records, { mustExist, isMigrating });
    return records;
  }
  async function identifyChecked(opened: RecordStore): Promise<string | undefined> {
    open.main = new TranslatedStore(opened);
    return identify(await checked(open.main, "storage"), mustExist);
  }
  try {
    const opened = await openStores({ ...configuration, identify: identifyChecked }, onWarning);
    const { main = opened.main } = open;
    if (opened.artifacts === undefined) return { main, artifacts: undefined, close };
    open.artifacts = new TranslatedStore(opened.artifacts);
    await checked(open.artifacts, "artifacts");
    return { main, artifacts: open.artifacts, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Opens the configured storage. The code of a backend is loaded when it is chosen.
 * @param onWarning gets messages for the operator. Default: they are dropped.
 * @param through wraps each store, for tests. Default: no wrapper.
 * @throws ConfigurationError for an unknown backend, an unsuitable server, or data of another version.
 * @throws StorageUnavailable when a store can't be reached or opened.
 * @throws WrongClock when its clock and that of this process differ by more than 60 seconds.
 */
export async function openStorage(
  configuration: StorageConfiguration,
  onWarning?: OnStoreWarning,
  through: (store: RecordStore) => RecordStore = (store) => store,
): Promise<Storage> {
  const watchedKinds = configuration.notifications?.worker
    ? WATCHED_KINDS.filter((kind) => !WATCHED_MAIL_KINDS.includes(kind))
    : WATCHED_KINDS;
  const opened = await openChecked({ ...configuration, sharedKinds: SHARED_KINDS, watchedKinds }, onWarning);
  const { main, artifacts } = opened;
  const storage = storageOver(through(main), configuration, artifacts && through(artifacts), onWarning);
  try {
    await storage.clocks.check();
    storage.clocks.require();
  } catch (error) {
    await opened.close();
    throw error;
  }
  storage.clocks.start();
  return storage;
}
