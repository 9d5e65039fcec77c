/** How receivers are: one document each, replaced under the condition that nobody else has replaced it meanwhile. */
import type { ClientSession, ObjectId } from "mongodb";
import { type DeliveryStore, type ReceiverState, untouchedReceiver } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { toKey } from "./keys.ts";

export interface StoredReceiver {
  readonly _id: string;
  /** Another one after every write: never one that was there before. */
  readonly tag: ObjectId;
  readonly state: Omit<ReceiverState, "reason">;
  /** The name and the reason as JSON. */
  readonly json: string;
}

/** A state with what it has to be replaced by. */
interface Read {
  readonly state: ReceiverState;
  /** Of the document; `undefined` where there is none. */
  readonly tag: ObjectId | undefined;
}

export function toReceiverState({ state, json }: StoredReceiver): ReceiverState {
  const { reason } = JSON.parse(json) as { reason: string | null };
  const { paused, failures, heldUntil, holdSpan, releaseUntil } = state;
  return { paused, reason, failures, heldUntil, holdSpan, releaseUntil };
}

export function receiverName({ json }: StoredReceiver): string {
  return (JSON.parse(json) as { name: string }).name;
}

/** @param tag another one than before. */
export function receiverDocument(
  name: string,
  { reason, ...state }: ReceiverState,
  tag: ObjectId,
): StoredReceiver {
  return { _id: toKey(name), tag, state, json: JSON.stringify({ name, reason }) };
}

function isUntouched({ paused, failures, heldUntil, releaseUntil }: ReceiverState): boolean {
  return !paused && failures === 0 && heldUntil === null && releaseUntil === null;
}

/** How many of `limit` claims a receiver in this state lets happen, and whether that is a probe. */
export function allows(
  { paused, heldUntil }: ReceiverState,
  limit: number,
  now: number,
): { readonly allowed: number; readonly probe: boolean } {
  if (paused) return { allowed: 0, probe: false };
  if (heldUntil === null) return { allowed: limit, probe: false };
  return { allowed: heldUntil <= now ? Math.min(1, limit) : 0, probe: true };
}

export interface Receivers {
  read(name: string, session?: ClientSession): Promise<Read>;
  /** With their names. */
  all(): Promise<(readonly [name: string, state: ReceiverState])[]>;
  /** Replaces what was read; false when somebody else did, and then nothing was written. */
  replace(name: string, read: Read, state: ReceiverState, session?: ClientSession): Promise<boolean>;
}

/** Work on the same name, one after the other: in one process nobody has to try again because of another. */
function createTurns(): <T>(name: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>();
  return async (name, work) => {
    const before = last.get(name) ?? Promise.resolve();
    const mine = before.then(work, work);
    last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (last.get(name) === mine) last.delete(name);
    }
  };
}

export function createReceivers(connection: Connection): Receivers {
  const receivers = connection.collection<StoredReceiver>("receivers");

  async function read(name: string, session?: ClientSession): Promise<Read> {
    const found = await receivers.findOne({ _id: toKey(name) }, session && { session });
    return found === null
      ? { state: untouchedReceiver, tag: undefined }
      : { state: toReceiverState(found), tag: found.tag };
  }

  async function insert(document: StoredReceiver, session?: ClientSession): Promise<boolean> {
    try {
      await receivers.insertOne(document, session && { session });
      return true;
    } catch (error) {
      if (isDuplicate(error)) return false;
      throw error;
    }
  }

  async function replace(
    name: string,
    { tag }: Read,
    state: ReceiverState,
    session?: ClientSession,
  ): Promise<boolean> {
    const id = toKey(name);
    const isGone = isUntouched(state);
    const document = receiverDocument(name, state, connection.newId());
    if (tag === undefined) return isGone ? true : insert(document, session);
    if (isGone) {
      const { deletedCount } = await receivers.deleteOne({ _id: id, tag }, session && { session });
      return deletedCount > 0;
    }
    const { matchedCount } = await receivers.replaceOne({ _id: id, tag }, document, session && { session });
    return matchedCount > 0;
  }

  return {
    read,
    async all() {
      const found = await receivers.find().hint({ _id: 1 }).toArray();
      return found.map((each) => [receiverName(each), toReceiverState(each)] as const);
    },
    replace,
  };
}

/** The public calls. */
export function createReceiverCalls(
  connection: Connection,
  receivers: Receivers,
): Pick<DeliveryStore, "receiver" | "receivers" | "changeReceiver"> {
  const inTurn = createTurns();

  async function change(
    name: string,
    decide: (state: ReceiverState) => ReceiverState | undefined,
  ): Promise<{ before: ReceiverState; after: ReceiverState }> {
    for (;;) {
      const found = await receivers.read(name);
      const before = found.state;
      const after = decide(before) ?? before;
      if (after === before || (await receivers.replace(name, found, after))) return { before, after };
    }
  }

  return {
    receiver: (name) => connection.run(async () => (await receivers.read(name)).state),
    receivers: () => connection.run(async () => new Map(await receivers.all())),
    changeReceiver: (name, decide) => connection.run(() => inTurn(name, () => change(name, decide))),
  };
}
