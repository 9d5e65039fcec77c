/**
 * One request, one write. What oidc-provider's adapter writes during a request is collected here and
 * committed as one atomic batch with its conditions once the answer is known to be good.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import type { Clock } from "../../lib/clock.ts";
import type { Artifact, ArtifactStore, ArtifactWrite } from "../artifacts.ts";
import type { ClientRecord } from "../directory.ts";

/** The writes of one request that are not committed yet, and what it has read. */
export interface Unit {
  /** When the request may have begun, on the clock of `performance`. */
  readonly underWaySince: number;
  /** Milliseconds since the epoch: after this nothing is written any more. */
  readonly deadline: number;
  /** The client that the request names, when it was read before: nobody reads it again. */
  readonly client: ClientRecord | undefined;
  /** Set by whoever meets an error that the library would hide: the edge answers with it. */
  failure: unknown;
  find(model: string, key: string): Promise<Artifact | undefined>;
  findByUid(model: string, uid: string): Promise<Artifact | undefined>;
  /** What this unit has read or written under this key, without asking the store. */
  known(model: string, key: string): Artifact | undefined;
  write(write: ArtifactWrite): void;
  /** An artifact that was read in this unit is updated (and must still exist); any other is put. */
  save(artifact: Artifact): void;
  /** Keeps `replay` beside the artifact of this model that this unit consumes, until then; false when it consumes none. */
  attachReplay(model: string, replay: string, until: number): boolean;
  /** Told once it is committed, also when there was nothing to write; never when it fails. The answer waits for it. */
  whenCommitted(tell: () => unknown): void;
  commit(): Promise<void>;
}

/** Carries the unit of a request to the adapter, across everything that the request awaits. */
export interface UnitsOfWork {
  current(): Unit | undefined;
  run<T>(request: UnitRequest, work: (unit: Unit) => Promise<T>): Promise<T>;
}

/** The request that a unit is of. */
export interface UnitRequest extends Pick<Unit, "underWaySince" | "deadline"> {
  readonly client?: ClientRecord | undefined;
  /** What was asked for before the unit began. */
  readonly ahead?: Ahead | undefined;
}

/** A read that is on its way, with the grant of the family where that comes with it: `find` answers from it. */
export interface Ahead {
  readonly model: string;
  readonly key: string;
  readonly found: Promise<{ readonly artifact: Artifact; readonly grant?: Artifact | undefined } | undefined>;
}

const place = (model: string, key: string): string => `${model}:${key}`;

/** Members to which requests at the same time each add their own entry: the clients that a session has been to. */
const MERGED: Readonly<Record<string, string>> = { Session: "authorizations" };

/** Whether the write puts or takes away what is kept in the place of this artifact. */
function touches(write: ArtifactWrite, { model, key, grantKey }: Artifact): boolean {
  if (write.kind === "revoke") return write.grantKey === grantKey;
  if (write.kind === "consume" || write.kind === "require") return false;
  const other = "artifact" in write ? write.artifact : write;
  return other.model === model && other.key === key;
}

class PendingUnit implements Unit {
  readonly underWaySince: number;
  readonly deadline: number;
  readonly client: ClientRecord | undefined;
  failure: unknown;
  readonly #store: ArtifactStore;
  readonly #read = new Map<string, Artifact>();
  readonly #ahead: Ahead | undefined;
  /** The state that the writes lead to: `undefined` for what is removed. */
  readonly #overlay = new Map<string, Artifact | undefined>();
  readonly #clock: Clock;
  #writes: ArtifactWrite[] = [];
  #tell: (() => unknown)[] = [];

  constructor(store: ArtifactStore, clock: Clock, request: UnitRequest) {
    this.#store = store;
    this.#clock = clock;
    this.underWaySince = request.underWaySince;
    this.deadline = request.deadline;
    this.client = request.client;
    this.#ahead = request.ahead;
  }

  async find(model: string, key: string): Promise<Artifact | undefined> {
    // What a request has seen it sees again; whether it still holds is decided by the commit.
    const seen = this.known(model, key);
    const at = place(model, key);
    if (seen !== undefined || this.#overlay.has(at)) return seen;
    if (this.#ahead?.model === model && this.#ahead.key === key) {
      const { artifact, grant } = (await this.#ahead.found) ?? {};
      for (const one of [artifact, grant]) if (one) this.#read.set(place(one.model, one.key), one);
      return this.known(model, key);
    }
    const found = await this.#store.find(model, key);
    if (found !== undefined) this.#read.set(at, found);
    return found;
  }

  async findByUid(model: string, uid: string): Promise<Artifact | undefined> {
    for (const pending of this.#overlay.values()) {
      if (pending?.model === model && pending.uid === uid) return pending;
    }
    const found = await this.#store.findByUid(model, uid);
    if (found === undefined) return undefined;
    const at = place(model, found.key);
    if (this.#overlay.has(at)) return this.#overlay.get(at);
    this.#read.set(at, found);
    return found;
  }

  known(model: string, key: string): Artifact | undefined {
    const at = place(model, key);
    return this.#overlay.has(at) ? this.#overlay.get(at) : this.#read.get(at);
  }

  save(artifact: Artifact): void {
    const at = place(artifact.model, artifact.key);
    const isRemoved = this.#overlay.has(at) && this.#overlay.get(at) === undefined;
    const read = this.#read.get(at);
    if (isRemoved || read === undefined) return this.write({ kind: "put", artifact });
    const merge = MERGED[artifact.model];
    return this.write({ kind: "update", artifact, ...(merge === undefined ? {} : { merge, read }) });
  }

  write(write: ArtifactWrite): void {
    switch (write.kind) {
      case "put":
      case "update":
        this.#writeArtifact(write);
        return;
      case "consume": {
        const before = this.known(write.model, write.key);
        if (before) this.#overlay.set(place(write.model, write.key), { ...before, consumedAt: write.at });
        break;
      }
      case "remove":
        this.#overlay.set(place(write.model, write.key), undefined);
        break;
      case "revoke":
        if (this.#writes.some((earlier) => earlier.kind === "revoke" && earlier.grantKey === write.grantKey))
          return;
        break;
      case "require":
        break;
    }
    this.#writes.push(write);
  }

  /** The last of several writes of one artifact counts; its first condition stays. */
  #writeArtifact(write: Extract<ArtifactWrite, { kind: "put" | "update" }>): void {
    const { model, key } = write.artifact;
    this.#overlay.set(place(model, key), write.artifact);
    const index = this.#writes.findLastIndex((other) => touches(other, write.artifact));
    const earlier = this.#writes[index];
    if (earlier?.kind === "put" || earlier?.kind === "update") {
      this.#writes[index] = { ...earlier, artifact: write.artifact };
    } else this.#writes.push(write);
  }

  attachReplay(model: string, replay: string, until: number): boolean {
    const index = this.#writes.findIndex((write) => write.kind === "consume" && write.model === model);
    const write = this.#writes[index];
    if (write?.kind !== "consume") return false;
    this.#writes[index] = { ...write, replay, replayUntil: until };
    return true;
  }

  whenCommitted(tell: () => unknown): void {
    this.#tell.push(tell);
  }

  async commit(): Promise<void> {
    // Something is consumed when it is committed: who came in until then came in together.
    const at = this.#clock.now();
    const own = this.#writes.map((write) => (write.kind === "consume" ? { ...write, at } : write));
    const writes = [...this.#requiredGrants(), ...own];
    this.#writes = [];
    if (writes.length > 0) await this.#store.commit({ id: randomUUID(), deadline: this.deadline, writes });
    const told = this.#tell;
    this.#tell = [];
    for (const tell of told) await tell();
  }

  /** The grant of every code or token that is written must still be there, unless it is written here. */
  #requiredGrants(): ArtifactWrite[] {
    const keys = new Set<string>();
    for (const write of this.#writes) {
      if (write.kind !== "put" && write.kind !== "update") continue;
      const { model, grantKey } = write.artifact;
      if (grantKey === undefined || model === "Grant") continue;
      if (!this.#overlay.has(place("Grant", grantKey))) keys.add(grantKey);
    }
    return [...keys].map((key) => ({ kind: "require", model: "Grant", key }));
  }
}

/** @param store where the batches go. */
export function createUnitsOfWork(store: ArtifactStore, clock: Clock): UnitsOfWork {
  const storage = new AsyncLocalStorage<Unit>();
  return {
    current: () => storage.getStore(),
    run(request, work) {
      const unit = new PendingUnit(store, clock, request);
      return storage.run(unit, () => work(unit));
    },
  };
}
