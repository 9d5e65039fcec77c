/** The one way to change a client. */
import { setTimeout as pause } from "node:timers/promises";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { ClientRecord, DirectoryStore } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { type Clock, seconds } from "../clock.ts";
import { AlreadyExists, IdentifierTaken, StorageUnavailable, VersionConflict } from "../errors.ts";
import type { ServiceEmitter } from "../events.ts";
import type { SecretKey } from "../sealing.ts";

/** What clients are built from. */
export interface ClientDeps {
  readonly directory: DirectoryStore;
  readonly artifacts: ArtifactStore;
  readonly clock: Clock;
  readonly events: ServiceEmitter;
  /** The random key of this storage under which secrets are kept. */
  readonly secretKey: SecretKey;
  /** Characters of a chosen secret at least: 32, or 16 when all deployments are on loopback. */
  readonly minSecretLength: number;
  /** Forgets what people allowed a client that had this id before. */
  readonly forgetConsents: (client_id: string, caller: Caller) => Promise<void>;
}

/** What names a client change in events and in the audit. */
export type ClientAction =
  | "client.registered"
  | "client.updated"
  | "client.secret_rotated"
  | "client.disabled"
  | "client.enabled"
  | "client.removed";

/** What a change shall be. `updated_at` and `version` are set at the commit. */
export interface ClientDecision {
  readonly action: ClientAction;
  /** The record afterwards; `undefined` removes the client. */
  readonly record: ClientRecord | undefined;
}

/** Decides on the record as it is; `undefined` leaves everything as it is. Called again after a conflict. */
export type DecideClient = (before: ClientRecord | undefined) => ClientDecision | undefined;

/** The record afterwards, and whether anything was written. */
export interface ChangedClient {
  readonly record: ClientRecord | undefined;
  readonly changed: boolean;
}

const TRIES = 50;
const LONGEST_PAUSE = 40;

/**
 * @param caller who asks for the change: the audit keeps it.
 * @throws UnknownReference when the service of the client is missing.
 * @throws IdentifierTaken when a new client's id is the `sub` of an account.
 * @throws StorageUnavailable when the storage fails or too many change this client at once.
 */
export async function changeClient(
  deps: ClientDeps,
  client_id: string,
  caller: Caller,
  decide: DecideClient,
): Promise<ChangedClient> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const before = await deps.directory.findClient(client_id);
    const decision = decide(before);
    if (decision === undefined) return { record: before, changed: false };
    const record = await commit(deps, client_id, before, { ...decision, caller });
    if (record !== "conflict") {
      deps.events.emit("client.changed", { client_id, action: decision.action });
      return { record, changed: true };
    }
    await pause(Math.random() * Math.min(attempt * 2, LONGEST_PAUSE));
  }
  throw new StorageUnavailable("the client is being changed by too many at once");
}

async function commit(
  deps: ClientDeps,
  client_id: string,
  before: ClientRecord | undefined,
  { action, record: decided, caller }: ClientDecision & { readonly caller: Caller },
): Promise<ClientRecord | undefined | "conflict"> {
  const at = seconds(deps.clock);
  const record = decided && { ...decided, updated_at: at, version: (before?.version ?? 0) + 1 };
  try {
    await deps.directory.commitClient({
      client_id,
      expectedVersion: before?.version,
      record,
      audit: { ...caller, action, subject: client_id },
    });
    return record;
  } catch (error) {
    if (error instanceof IdentifierTaken) throw error;
    // Registered by somebody else since it was read: what to do about that is decided on what is there now.
    const overtaken = before === undefined && error instanceof AlreadyExists;
    if (overtaken || error instanceof VersionConflict) return "conflict";
    throw error;
  }
}
