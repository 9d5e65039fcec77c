/** Which processes use a storage, and of which version: `storage migrate` waits for old ones to be stopped. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Outage } from "../../core/outages.ts";
import { packageVersion } from "../../core/package-version.ts";
import { type Repeating, startRepeating } from "../../core/repeating.ts";
import { currentFormat } from "../../core/storage-formats.ts";
import { defineKind, type Kind } from "../kinds.ts";
import type { Records } from "../records.ts";

export interface StoredProcess {
  readonly id: string;
  readonly role: "server" | "worker";
  /** Of the package. */
  readonly version: string;
  /** The format that this version writes. */
  readonly format: number;
  /** The name of its machine or container, at most 100 characters. */
  readonly host: string;
  /** When it announced itself last, in milliseconds since the epoch. */
  readonly seenAt: number;
}

const ANNOUNCE_INTERVAL_MS = 60_000;
/** A process that was killed is forgotten after three announcements that did not come. */
const FORGOTTEN_AFTER_MS = 3 * ANNOUNCE_INTERVAL_MS;

const ALL = "all";

export const PROCESS: Kind<StoredProcess, "all"> = defineKind<StoredProcess, "all">({
  name: "process",
  holds: "a server or worker that uses the storage, and its version",
  key: "random",
  keyOf: ({ id }) => id,
  index: { all: ({ seenAt }) => [{ at: ALL, order: seenAt }] },
  indexFor: { all: "the processes of older versions, before `storage migrate`" },
  expires: "three minutes after it was last seen",
  expiresAt: ({ seenAt }) => seenAt + FORGOTTEN_AFTER_MS,
  store: "storage",
  exported: false,
  afterRestore: "removed",
  personal: undefined,
});

/** More than any installation has. */
const MAX_PROCESSES = 1_000;

/** The processes that were seen in the last three minutes. */
export async function listProcesses(records: Pick<Records, "list">): Promise<StoredProcess[]> {
  const query = { ...PROCESS.where("all", ALL), descending: true, limit: MAX_PROCESSES };
  return (await records.list<StoredProcess>(query)).map(({ value }) => value);
}

/**
 * Announces this process, now and once a minute, until it stops. Call it when the store is open: the format is looked at after the
 * announcement, so either `storage migrate` sees the process, or the process sees what `storage migrate` has begun.
 */
export async function announceProcess(
  records: Records,
  role: StoredProcess["role"],
  outage: Outage,
): Promise<Repeating> {
  const self = {
    id: randomUUID(),
    role,
    version: packageVersion(),
    format: currentFormat().format,
    host: hostname().slice(0, 100),
  };
  const announce = (): Promise<void> =>
    records.transact(
      (tx) => tx.overwrite(PROCESS.record({ ...self, seenAt: Math.floor(records.clock.now()) })),
      {
        relaxed: true,
      },
    );
  await announce().then(
    () => outage.worked(),
    (error: unknown) => outage.failed(error),
  );
  const repeating = startRepeating(ANNOUNCE_INTERVAL_MS, announce, outage);
  return {
    async stop() {
      await repeating.stop();
      // One that can't be removed is forgotten by itself.
      await records.transact((tx) => tx.remove(PROCESS.ref(self.id))).catch(() => undefined);
    },
  };
}
