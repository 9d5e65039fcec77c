/** A database of version 0.1: closes it to that version, reads it, and finally deletes the old data. */
import { hash } from "node:crypto";
import type { Collection, Db, Filter, ObjectId } from "mongodb";
import type { Clock } from "../clock.ts";
import { ConfigurationError } from "../errors.ts";
import type { JsonObject } from "../record-store.ts";
import {
  V01_PARTS,
  type V01Artifact,
  type V01Attempt,
  type V01Delivery,
  type V01Items,
  type V01Lane,
  type V01Page,
  type V01Part,
  type V01Source,
} from "../v01.ts";
import { connect } from "./connection.ts";
import { codeOf, isDuplicate } from "./faults.ts";

/** The collections of version 0.1 except `counters`, which stays to identify the format of the database. */
const COLLECTIONS = [
  "clients",
  "accounts",
  "names",
  "entries",
  "entry_guards",
  "kept",
  "audit",
  "artifacts",
  "deliveries",
  "attempts",
  "lanes",
  "receivers",
] as const;

/** The points of rate limits. They expire in minutes and are not migrated. */
const LIMITS = "rate_limits";

/** The prefix of old collections, which stay until they are removed. */
const KEPT = "v01_";

/**
 * `schema` in `counters`. Version 0.1 writes 1 and refuses to start if the number is higher, so a database with
 * records has a higher one.
 */
const SCHEMA = "schema";
const V01_SCHEMA = 1;
const RECORDS_SCHEMA = 2;

/** Milliseconds for one step: long, because no request waits for it. */
const PATIENCE = 60_000;

const NAMESPACE_EXISTS = 48;

/** A document of version 0.1. */
interface Stored {
  readonly _id: string | ObjectId;
  readonly [name: string]: unknown;
}

interface Counter {
  readonly _id: string;
  readonly value: number;
}

const collectionIn = (db: Db, name: string): Collection<Stored> => db.collection<Stored>(KEPT + name);

/**
 * Marks the database as one with records, unless it is marked.
 * @returns whether version 0.1 has marked it.
 */
export async function claimDatabase(db: Db): Promise<boolean> {
  const counters = db.collection<Counter>("counters");
  try {
    await counters.updateOne({ _id: SCHEMA }, { $setOnInsert: { value: RECORDS_SCHEMA } }, { upsert: true });
  } catch (error) {
    // If two processes insert at the same time, one may get this error.
    if (!isDuplicate(error)) throw error;
  }
  const { value = RECORDS_SCHEMA } = (await counters.findOne({ _id: SCHEMA })) ?? {};
  if (value > RECORDS_SCHEMA) {
    throw new ConfigurationError(["config.storage: this database was written by a later version"]);
  }
  return value === V01_SCHEMA;
}

/**
 * Replaces a collection. Writing to a view fails, and reading this one too, so a process of version 0.1 answers 503
 * instead of starting with empty collections.
 */
const CLOSED = { viewOn: "counters", pipeline: [{ $group: { _id: { $toInt: "$_id" } } }] };

async function typeOf(db: Db, name: string): Promise<string | undefined> {
  const [found] = await db.listCollections({ name }, { nameOnly: true }).toArray();
  return found?.type;
}

/** Moves documents that were inserted between the renaming and the creation of the view. */
async function moveStray(db: Db, name: string): Promise<void> {
  const stray = await db.collection<Stored>(name).find().toArray();
  if (stray.length > 0) {
    const writes = stray.map((document) => ({
      replaceOne: { filter: { _id: document._id }, replacement: document, upsert: true },
    }));
    await collectionIn(db, name).bulkWrite(writes, { ordered: false });
  }
  await db.collection(name).drop();
}

/** Renames a collection and puts the view in its place. Each step checks what an earlier run has done. */
async function close(db: Db, name: string): Promise<void> {
  for (;;) {
    const type = await typeOf(db, name);
    if (type === "view") return;
    if (type !== undefined) {
      if ((await typeOf(db, KEPT + name)) === undefined) await db.collection(name).rename(KEPT + name);
      else await moveStray(db, name);
    }
    try {
      await db.createCollection(name, CLOSED);
    } catch (error) {
      // A process of version 0.1 has inserted something meanwhile.
      if (codeOf(error) !== NAMESPACE_EXISTS) throw error;
    }
  }
}

/** An unassigned code point, the prefix of keys that are hashes. */
const MARK = "\u{10FFFF}";
const LONGEST_KEY = 512;

/** The key of a string in version 0.1. */
function toKey(name: string): string {
  if (name.length <= LONGEST_KEY && name.isWellFormed() && !name.startsWith(MARK)) return name;
  return MARK + hash("sha256", JSON.stringify([name]), "base64url");
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  throw new TypeError("a field of a document of version 0.1 holds no text");
}

/** The text that a key was made of. If the key is a hash, the document also contains the text. */
const written = ({ _id, name }: Stored): string =>
  name === undefined ? String(_id) : String(JSON.parse(text(name)));

const parse = (stored: unknown): JsonObject => JSON.parse(text(stored)) as JsonObject;
const textOrNull = (json: unknown): string | null =>
  json === undefined ? null : String(JSON.parse(text(json)));
const numberOrNull = (value: unknown): number | null => (typeof value === "number" ? value : null);

/** Members of the payload that are objects were stored as lists of entries. */
function toArtifact(stored: Stored): V01Artifact {
  const { payload, ...rest } = parse(stored["json"]) as unknown as Omit<V01Artifact, "expiresAt">;
  const members = (stored["members"] as { n: string; e: { n: string; v: string }[] }[]).map(
    ({ n, e }) =>
      [
        String(JSON.parse(n)),
        Object.fromEntries(e.map((entry) => [String(JSON.parse(entry.n)), parse(entry.v)])),
      ] as const,
  );
  const { consumed_at, answered_at, replay, replay_until } = stored;
  return {
    ...rest,
    payload: Object.fromEntries([...Object.entries(payload), ...members]),
    expiresAt: Number(stored["expires_at"]),
    ...(consumed_at === undefined ? {} : { consumedAt: Number(consumed_at) }),
    ...(answered_at === undefined ? {} : { answeredAt: Number(answered_at) }),
    ...(replay === undefined ? {} : { replay: String(JSON.parse(text(replay))) }),
    ...(replay_until === undefined ? {} : { replayUntil: Number(replay_until) }),
  };
}

function toAttempt({ number, started_at, duration, status, error, answer }: Stored): V01Attempt {
  return {
    number: Number(number),
    startedAt: Number(started_at),
    duration: Number(duration),
    status: numberOrNull(status),
    error: textOrNull(error),
    answer: textOrNull(answer),
  };
}

function toDelivery(stored: Stored, history: readonly V01Attempt[], lane: V01Lane | undefined): V01Delivery {
  const fixed = parse(stored["json"]) as unknown as Pick<
    V01Delivery,
    "id" | "receiver" | "sub" | "type" | "at"
  >;
  return {
    ...fixed,
    payload: textOrNull(stored["payload"]),
    sequence: Number(stored["sequence"]),
    state: stored["state"] as V01Delivery["state"],
    attempts: Number(stored["attempts"]),
    failures: Number(stored["failures"]),
    storedAt: Number(stored["stored_at"]),
    nextAttemptAt: numberOrNull(stored["next_attempt_at"]),
    failedAt: numberOrNull(stored["failed_at"]),
    finishedAt: numberOrNull(stored["finished_at"]),
    reason: textOrNull(stored["reason"]),
    history,
    lane,
  };
}

/** The collection of a part, and the indexed field that orders it. */
interface PartSource {
  readonly from: (typeof COLLECTIONS)[number];
  readonly by: string;
  readonly only?: (now: number) => Filter<Stored>;
}

const SOURCES: Readonly<Record<V01Part, PartSource>> = {
  entries: { from: "entries", by: "_id" },
  clients: { from: "clients", by: "_id" },
  accounts: { from: "accounts", by: "user_id" },
  audit: { from: "audit", by: "_id" },
  receivers: { from: "receivers", by: "_id" },
  lanes: { from: "lanes", by: "_id" },
  deliveries: { from: "deliveries", by: "order" },
  grants: { from: "artifacts", by: "_id", only: (now) => ({ model: "Grant", expires_at: { $gt: now } }) },
  artifacts: {
    from: "artifacts",
    by: "_id",
    only: (now) => ({ model: { $ne: "Grant" }, expires_at: { $gt: now } }),
  },
  kept: { from: "kept", by: "_id" },
};

/** Reads documents of version 0.1. */
class V01Reader {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  #all(name: (typeof COLLECTIONS)[number], filter: Filter<Stored>): Promise<Stored[]> {
    return collectionIn(this.#db, name).find(filter).toArray();
  }

  async #lanes(stored: readonly Stored[]): Promise<ReadonlyMap<string, V01Lane>> {
    const ids = stored.map(({ _id }) => String(_id));
    const heads = await collectionIn(this.#db, "deliveries")
      .aggregate<Stored>([
        { $match: { state: "waiting", lane: { $in: ids } } },
        { $group: { _id: "$lane", first: { $min: "$sequence" } } },
      ])
      .toArray();
    const firsts = new Map(heads.map(({ _id, first }) => [String(_id), Number(first)]));
    const claims = stored.flatMap(({ claimed }) => textOrNull(claimed) ?? []).map(toKey);
    const found = await this.#all("deliveries", { _id: { $in: claims } });
    const sequences = new Map(found.map(({ _id, sequence }) => [String(_id), Number(sequence)]));
    const lanes = stored.map((lane) => {
      const { receiver, sub } = parse(lane["json"]) as { receiver: string; sub: string };
      const end = numberOrNull(lane["lease_end"]);
      const claimed = textOrNull(lane["claimed"]) ?? "";
      const made: V01Lane = {
        receiver,
        sub,
        lastSequence: Number(lane["last_sequence"]),
        lastDelivered: numberOrNull(lane["last_delivered"]) ?? 0,
        fence: numberOrNull(lane["fence"]) ?? 0,
        lease:
          end === null
            ? null
            : {
                owner: textOrNull(lane["owner"]) ?? "",
                end,
                claimed,
                sequence: sequences.get(toKey(claimed)) ?? 0,
              },
        head: firsts.get(String(lane._id)) ?? null,
      };
      return [String(lane._id), made] as const;
    });
    return new Map(lanes);
  }

  async #deliveries(stored: readonly Stored[]): Promise<V01Delivery[]> {
    const ids = stored.map(({ _id }) => String(_id));
    const laneIds = [...new Set(stored.map(({ lane }) => String(lane)))];
    const attempts = await this.#all("attempts", { delivery: { $in: ids } });
    const byDelivery = Map.groupBy(attempts, ({ delivery }) => String(delivery));
    const lanes = await this.#lanes(await this.#all("lanes", { _id: { $in: laneIds } }));
    return stored.map((delivery) => {
      const made = (byDelivery.get(String(delivery._id)) ?? []).map(toAttempt);
      const history = made.toSorted((one, other) => one.number - other.number);
      return toDelivery(delivery, history, lanes.get(String(delivery["lane"])));
    });
  }

  async #accounts(stored: readonly Stored[]): Promise<V01Items["accounts"][]> {
    const names = await this.#all("names", { sub: { $in: stored.map(({ _id }) => _id) } });
    const bySub = Map.groupBy(names, ({ sub }) => String(sub));
    return stored.map(({ _id, json }) => ({
      record: parse(json),
      names: (bySub.get(String(_id)) ?? []).map(written),
    }));
  }

  readonly to: { readonly [Part in V01Part]: (stored: readonly Stored[]) => Promise<V01Items[Part][]> } = {
    entries: async (all) => all.map(({ kind, json }) => ({ kind: kind as "service", record: parse(json) })),
    clients: async (all) => all.map(({ json }) => parse(json)),
    accounts: (all) => this.#accounts(all),
    audit: async (all) => all.map(({ json }) => parse(json)),
    receivers: async (all) =>
      all.map(({ json, state }) => {
        const { name, reason } = parse(json) as { name: string; reason: string | null };
        return { ...(state as Omit<V01Items["receivers"], "receiver" | "reason">), receiver: name, reason };
      }),
    lanes: async (all) => [...(await this.#lanes(all)).values()],
    deliveries: (all) => this.#deliveries(all),
    grants: async (all) => all.map(toArtifact),
    artifacts: async (all) => all.map(toArtifact),
    kept: async (all) =>
      all.map((stored) => ({ name: written(stored), value: String(JSON.parse(text(stored["json"]))) })),
  };
}

/**
 * Opens a database that version 0.1 may have written.
 * @throws as `openMongo` does.
 */
export async function openMongoV01({
  url,
  clock,
}: {
  readonly url: string;
  readonly clock: Clock;
}): Promise<V01Source> {
  const connection = await connect(url, clock, { isPatient: true });
  const { ObjectId: Id } = await import("mongodb");
  const { db } = connection;
  const counters = db.collection<Counter>("counters");
  const reader = new V01Reader(db);
  const run = <T>(work: () => Promise<T>): Promise<T> => connection.run(work, PATIENCE);

  /** Texts and numbers are positions as they are. Otherwise MongoDB orders by its own identifiers. */
  function toValue({ by, from }: PartSource, position: string): unknown {
    if (by === "user_id") return Number(position);
    return by === "order" || from === "audit" ? new Id(position) : position;
  }

  async function read<Part extends V01Part>(
    part: Part,
    after: string | undefined,
    limit: number,
  ): Promise<V01Page<V01Items[Part]>> {
    const source = SOURCES[part];
    const { from, by, only } = source;
    const behind = after === undefined ? {} : { [by]: { $gt: toValue(source, after) } };
    const found = await collectionIn(db, from)
      .find({ ...only?.(clock.now()), ...behind })
      .sort({ [by]: 1 })
      .limit(limit)
      .toArray();
    const items = await reader.to[part](found);
    const last = found.length < limit ? undefined : found.at(-1);
    return last === undefined ? { items } : { items, after: String(last[by]) };
  }

  return {
    parts: V01_PARTS,
    isThere: () => run(async () => (await counters.findOne({ _id: SCHEMA }))?.value === V01_SCHEMA),
    async takeAway() {
      // From now on no process of version 0.1 starts.
      await run(() =>
        counters.updateOne({ _id: SCHEMA }, { $set: { value: RECORDS_SCHEMA } }, { upsert: true }),
      );
      for (const name of COLLECTIONS) await run(() => close(db, name));
    },
    read: (part, after, limit) => run(() => read(part, after, limit)),
    count: (part) => run(() => collectionIn(db, SOURCES[part].from).estimatedDocumentCount()),
    lastUserId: () => run(async () => (await counters.findOne({ _id: "user_id" }))?.value ?? 0),
    hasOld: () =>
      run(async () => {
        const types = await Promise.all(COLLECTIONS.map((name) => typeOf(db, KEPT + name)));
        return types.some((type) => type !== undefined);
      }),
    removeOld: () =>
      run(async () => {
        let isRemoved = false;
        for (const name of COLLECTIONS) {
          if ((await typeOf(db, name)) === "view") await db.collection(name).drop();
          if ((await typeOf(db, KEPT + name)) === undefined) continue;
          await collectionIn(db, name).drop();
          isRemoved = true;
        }
        await db.collection(LIMITS).drop();
        return isRemoved;
      }),
    close: () => connection.close(),
  };
}
