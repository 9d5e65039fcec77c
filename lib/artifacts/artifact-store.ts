/**
 * Codes, tokens, grants, sessions and interactions over the record store. A family is a grant with its children: codes
 * and tokens have the grant as their parent and nothing else to be found by, so that ending a family removes one
 * record. Grants and sessions are found by account and client.
 */
import {
  ANSWERED_WITHIN,
  type Artifact,
  type ArtifactBatch,
  type ArtifactFilter,
  type ArtifactStore,
  type ArtifactWrite,
  type Payload,
} from "../../adapters/artifacts.ts";
import type { RecordStore, Ref } from "../../adapters/record-store.ts";
import type { Clock } from "../clock.ts";
import { ConditionFailed, StorageUnavailable } from "../errors.ts";
import { Changes, type KindRules, PAGE, type Read, Records } from "../records.ts";
import { artifactKind, artifactRecord, GRANT, type KeptArtifact, type State } from "./records.ts";

const refOf = (model: string, key: string): Ref => artifactKind(model).ref(key);
const nameOf = (model: string, key: string): string => `${model} ${key}`;

function toArtifact(
  { answeredAt: _answered, replay, replayUntil, ...artifact }: State,
  now: number,
): Artifact {
  if (replay === undefined || (replayUntil !== undefined && replayUntil <= now)) return artifact;
  return { ...artifact, replay, ...(replayUntil === undefined ? {} : { replayUntil }) };
}

/** What a batch leads to, worked out from what is there. */
class Batch {
  readonly #before: ReadonlyMap<string, Read<State>>;
  readonly #after = new Map<string, State | undefined>();
  readonly #required = new Map<string, Read<State>>();
  readonly #storeTime: number;

  constructor(before: ReadonlyMap<string, Read<State>>, storeTime: number) {
    this.#before = before;
    this.#storeTime = storeTime;
  }

  #get(model: string, key: string): State | undefined {
    const name = nameOf(model, key);
    return this.#after.has(name) ? this.#after.get(name) : this.#before.get(name)?.value;
  }

  #set(model: string, key: string, state: State | undefined): void {
    this.#after.set(nameOf(model, key), state);
  }

  /** @throws ConditionFailed */
  write(write: ArtifactWrite): void {
    if (write.kind === "revoke") {
      this.#set(GRANT, write.grantKey, undefined);
      for (const [name, state] of this.#after) {
        if (state?.grantKey === write.grantKey) this.#after.set(name, undefined);
      }
      return;
    }
    const { model, key } = "artifact" in write ? write.artifact : write;
    const there = this.#get(model, key);
    const isOptional = write.kind === "put" || (write.kind === "remove" && !write.mustExist);
    const isConsumed = write.kind === "consume" && there?.consumedAt !== undefined;
    if ((there === undefined && !isOptional) || isConsumed) {
      throw new ConditionFailed(`the condition of ${write.kind} ${model} does not hold`, [refOf(model, key)]);
    }
    if (write.kind === "remove") this.#set(model, key, undefined);
    else if (write.kind === "require") this.#require(model, key);
    else if (write.kind === "consume") this.#consume(there as State, write);
    else {
      const { grantKey } = write.artifact;
      // A family that has ended takes nobody in.
      if (grantKey !== undefined && model !== GRANT && this.#get(GRANT, grantKey) === undefined) {
        throw new ConditionFailed("the grant of an artifact is gone", [refOf(model, key)]);
      }
      this.#set(model, key, withMarks(write.artifact, there, "merge" in write ? write.merge : undefined));
    }
  }

  #require(model: string, key: string): void {
    const was = this.#before.get(nameOf(model, key));
    if (was !== undefined) this.#required.set(nameOf(model, key), was);
  }

  #consume(there: State, { at, replay, replayUntil }: Extract<ArtifactWrite, { kind: "consume" }>): void {
    this.#set(there.model, there.key, {
      ...there,
      consumedAt: at,
      answeredAt: this.#storeTime + ANSWERED_WITHIN,
      ...(replay === undefined ? {} : { replay }),
      ...(replayUntil === undefined ? {} : { replayUntil }),
    });
  }

  changes(): Changes {
    const changes = new Changes();
    for (const was of this.#required.values()) changes.expect(refOf(was.value.model, was.value.key), was);
    for (const [name, state] of this.#after) {
      const was = this.#before.get(name);
      if (state !== undefined) changes.write(artifactRecord(state), was);
      else if (was !== undefined) changes.delete(refOf(was.value.model, was.value.key), was);
    }
    return changes;
  }
}

/** A mark of consumption is part of what is there: it stays through a replacement. */
function withMarks(artifact: Artifact, there: State | undefined, merge: string | undefined): State {
  const entries =
    merge === undefined
      ? undefined
      : { ...(there?.payload[merge] as object), ...(artifact.payload[merge] as object) };
  const payload: Payload = merge === undefined ? artifact.payload : { ...artifact.payload, [merge]: entries };
  const { consumedAt, replay, replayUntil, answeredAt } = there ?? {};
  return {
    ...artifact,
    payload,
    ...(consumedAt === undefined ? {} : { consumedAt }),
    ...(replay === undefined ? {} : { replay }),
    ...(replayUntil === undefined ? {} : { replayUntil }),
    ...(answeredAt === undefined ? {} : { answeredAt }),
  };
}

function toRead(found: {
  readonly value: unknown;
  readonly version: string;
  readonly expiresAt?: number;
}): Read<State> {
  const kept = found.value as KeptArtifact;
  return {
    value: { ...kept, expiresAt: found.expiresAt ?? Number.POSITIVE_INFINITY },
    version: found.version,
  };
}

/** Every record that a batch touches. */
function refsOf(writes: readonly ArtifactWrite[]): ReadonlyMap<string, Ref> {
  const named = writes.flatMap((write): (readonly [string, string])[] => {
    if (write.kind === "revoke") return [[GRANT, write.grantKey]];
    if (!("artifact" in write)) return [[write.model, write.key]];
    const { model, key, grantKey } = write.artifact;
    return grantKey === undefined
      ? [[model, key]]
      : [
          [model, key],
          [GRANT, grantKey],
        ];
  });
  return new Map(named.map(([model, key]) => [nameOf(model, key), refOf(model, key)] as const));
}

/** The artifacts part of the storage. */
export function createArtifactStore(store: RecordStore, clock: Clock, kinds: KindRules): ArtifactStore {
  const records = new Records(store, clock, kinds);

  async function find(model: string, key: string): Promise<Read<State> | undefined> {
    const [found] = await store.get([refOf(model, key)]);
    return found && toRead(found);
  }

  /** @throws ConditionFailed when a condition of the batch does not hold. */
  async function plan({ writes }: ArtifactBatch): Promise<Changes> {
    const refs = refsOf(writes);
    const names = [...refs.keys()];
    const consumes = writes.some(({ kind }) => kind === "consume");
    const [found, storeTime] = await Promise.all([
      store.get([...refs.values()]),
      consumes ? store.ping() : 0,
    ]);
    const before = found.flatMap((record, index) =>
      record === undefined ? [] : [[names[index] as string, toRead(record)] as const],
    );
    const batch = new Batch(new Map(before), storeTime);
    for (const write of writes) batch.write(write);
    return batch.changes();
  }

  /** What an index has under one key. */
  async function listed(
    model: string,
    index: "uid" | "account" | "client",
    at: string,
  ): Promise<Read<State>[]> {
    const query = artifactKind(model).where(index, at);
    const found: Read<State>[] = [];
    for (let after: string | undefined; ;) {
      const [page] = await store.list([{ ...query, limit: PAGE, ...(after === undefined ? {} : { after }) }]);
      found.push(...(page?.records.map(toRead) ?? []));
      if (page?.next === undefined) return found;
      after = page.next;
    }
  }

  async function removeAll(found: readonly Read<State>[]): Promise<number> {
    const removed = await Promise.all(
      found.map(async ({ value: { model, key } }) => {
        const changes = new Changes();
        changes.drop(refOf(model, key));
        await records.commit(changes);
      }),
    );
    return removed.length;
  }

  /** Grants and sessions of an account. With a grant go its codes and tokens. */
  async function ofAccount({ accountId, clientIds, models }: ArtifactFilter): Promise<Read<State>[]> {
    const found = await Promise.all(
      [GRANT, "Session"]
        .filter((model) => models?.includes(model) ?? true)
        .map((model) => listed(model, "account", accountId)),
    );
    return found
      .flat()
      .filter(
        ({ value: { clientId } }) =>
          clientIds === undefined || (clientId !== undefined && clientIds.includes(clientId)),
      );
  }

  return {
    async find(model, key) {
      const found = await find(model, key);
      return found && toArtifact(found.value, clock.now());
    },
    async findWithGrant(model, key) {
      const [found] = await store.get([refOf(model, key)], { withParents: true });
      if (found === undefined) return undefined;
      const now = clock.now();
      const grant = found.parent && toArtifact(toRead(found.parent).value, now);
      return { artifact: toArtifact(toRead(found).value, now), grant };
    },
    async findByUid(model, uid) {
      const [found] = await listed(model, "uid", uid);
      return found && toArtifact(found.value, clock.now());
    },
    async commit(batch) {
      if (batch.deadline <= clock.now())
        throw new StorageUnavailable("the deadline of this batch has passed");
      // The caller may change its objects before all of it is written.
      const copy = structuredClone(batch);
      // What was read is read again while others change it: only what then does not hold is refused.
      const refusal = await records.retry(async () => {
        const changes = await plan(copy).catch((error: unknown) => {
          if (error instanceof ConditionFailed) return error;
          throw error;
        });
        if (changes instanceof ConditionFailed) return changes;
        await records.commit(changes, { deadline: copy.deadline });
        return undefined;
      });
      if (refusal !== undefined) throw refusal;
    },
    markAnswered: (model, key) =>
      records.retry(async () => {
        const found = await find(model, key);
        if (found?.value.consumedAt === undefined) return;
        const now = await store.ping();
        const { answeredAt = now } = found.value;
        const changes = new Changes();
        changes.write(artifactRecord({ ...found.value, answeredAt: Math.min(answeredAt, now) }), found);
        await records.commit(changes, { relaxed: true });
      }),
    async sinceAnswer(model, key) {
      const found = await find(model, key);
      if (found?.value.answeredAt === undefined) return undefined;
      // Some clocks count in whole milliseconds.
      return (await store.ping()) + 1 - found.value.answeredAt;
    },
    async listByAccount(filter) {
      const now = clock.now();
      return (await ofAccount(filter)).slice(0, PAGE).map(({ value }) => toArtifact(value, now));
    },
    removeByAccount: async (filter) => removeAll(await ofAccount(filter)),
    async removeByClient(clientId) {
      const found = await Promise.all([GRANT, "Session"].map((model) => listed(model, "client", clientId)));
      return removeAll(found.flat());
    },
    purgeExpired: (limit) => store.sweep(limit),
  };
}
