/**
 * Fills a storage with the records of many accounts. The functions of the service make the records from records that the service has
 * written itself.
 */
import { createSecretKey, hash, randomUUID } from "node:crypto";
import { searchRecord } from "../../accounts/search/search-words.ts";
import { artifactKey } from "../../provider/adapter.ts";
import type { RecordData } from "../../adapters/record-store.ts";
import { artifactKind, artifactRecord, type ArtifactValue } from "../../records/artifacts/artifact-kinds.ts";
import {
  DELIVERY,
  LANE,
  newDeliveryId,
  newLane,
  PAYLOAD,
  type StoredDelivery,
  type StoredPayload,
} from "../../records/deliveries/delivery-kinds.ts";
import { ACCOUNT, IDENTIFIER, SIGN_IN_NAME, USER_ID } from "../../records/directory/directory-kinds.ts";
import { PERSON } from "../servers/people.ts";
import type { Bulk } from "./bulk.ts";
import { type GrowingStorage, SERVICES } from "./storage.ts";

const DAY = 86_400_000;
/** Far longer than a commit may take in a request. */
const FILL_TIMEOUT_MS = 120_000;
/** Records of one commit. */
const TOGETHER = 250;
/** Of the hashes in the index of the search, which nobody searches here. */
const SEARCH_KEY = createSecretKey(Buffer.alloc(32, 1));

/** The UUID of an account, derived from its number. */
export function subOf(index: number): string {
  const hex = hash("sha256", `account ${index}`);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}

/** The key of an artifact of an account. `round` distinguishes several of them. */
export function keyOf(model: string, index: number, round: number = 0): string {
  return artifactKey(`${model} ${index} ${round}`);
}

/** A record of this kind that the service has written. */
async function written<Value>({ store }: GrowingStorage, kind: string): Promise<Value> {
  const { records } = await store.scan(kind, undefined, 1_000);
  const value = records.at(-1)?.value;
  if (value === undefined) throw new Error(`the service has written no ${kind}`);
  return value as unknown as Value;
}

/** Writes records directly. */
export async function put(
  { store }: Pick<GrowingStorage, "store">,
  records: readonly RecordData[],
): Promise<void> {
  const starts = Array.from({ length: Math.ceil(records.length / TOGETHER) }, (_each, at) => at * TOGETHER);
  const deadline = Date.now() + FILL_TIMEOUT_MS;
  await Promise.all(
    starts.map((at) =>
      store.commit({ id: randomUUID(), deadline, put: records.slice(at, at + TOGETHER), relaxed: true }),
    ),
  );
}

/** Makes an artifact of an account, based on one that the service has written. */
export type MakeArtifact = (
  index: number,
  parts?: { readonly round?: number; readonly expiresAt?: number },
) => RecordData;

export async function artifactMaker(place: GrowingStorage, model: string): Promise<MakeArtifact> {
  const like = await written<ArtifactValue>(place, artifactKind(model).name);
  const { consumedAt: _consumed, spentAt: _spent, replay: _replay, replayUntil: _until, ...fresh } = like;
  return (index, { round = 0, expiresAt = Date.now() + 30 * DAY } = {}) => {
    const key = keyOf(model, index, round);
    return artifactRecord({
      ...fresh,
      model,
      key,
      expiresAt,
      accountId: subOf(index),
      ...(like.uid === undefined ? {} : { uid: key }),
      ...(like.grantKey === undefined ? {} : { grantKey: keyOf("Grant", index) }),
    });
  };
}

const receiverOf = (index: number): string => `service:${SERVICES[index % SERVICES.length] ?? ""}`;

/** The records that are written together, the parent first. */
type Families = readonly (readonly RecordData[])[];

/** A walk through all accounts that has nothing to do with the order of their rows. */
const shuffled = (at: number, size: number): number => (at * 7_368_787 + 1) % size;

/**
 * Makes the records of a storage in the order in which they would have been written.
 * @param place a storage that was used once.
 * @returns what there is to write for each account, in passes over all of them.
 */
async function passes(place: GrowingStorage, size: number): Promise<((at: number) => Families)[]> {
  const account = await place.storage.directory.findAccountByName(PERSON.email);
  if (account === undefined) throw new Error("the service has written no account");
  const delivery = await written<StoredDelivery>(place, "delivery");
  const { payload } = await written<StoredPayload>(place, "payload");
  const [session, grant, access, refresh] = (await Promise.all(
    ["Session", "Grant", "AccessToken", "RefreshToken"].map((model) => artifactMaker(place, model)),
  )) as [MakeArtifact, MakeArtifact, MakeArtifact, MakeArtifact];
  // After the existing accounts. The counter is moved past them.
  const first = account.user_id + 1;
  const now = Date.now();
  return [
    (index) => {
      const sub = subOf(index);
      const [email, username] = [`${sub}@example.com`, `person-${index}`];
      const record = { ...account, sub, email, username, user_id: first + index };
      return [
        [
          ACCOUNT.record(record),
          IDENTIFIER.record({ sub }),
          SIGN_IN_NAME.record({ sub }, { key: email }),
          SIGN_IN_NAME.record({ sub }, { key: username }),
          USER_ID.record({ sub }, { key: String(record.user_id) }),
          searchRecord(record, SEARCH_KEY),
        ],
      ];
    },
    // The oldest sign-in first: what it has left expires first.
    (at) => {
      const index = shuffled(at, size);
      const ends = (from: number, to: number): { readonly expiresAt: number } => ({
        expiresAt: now + from + Math.floor(((to - from) * at) / size),
      });
      return [
        [session(index, ends(DAY, 14 * DAY))],
        [
          grant(index, ends(DAY, 30 * DAY)),
          access(index, ends(DAY / 8, DAY / 2)),
          refresh(index, ends(DAY, 30 * DAY)),
        ],
      ];
    },
    (at) => {
      const index = shuffled(size - 1 - at, size);
      // Spread over the days for which payloads are stored, so that nothing has to be purged.
      const finishedAt = now - Math.floor(((size - at) / size) * 3 * DAY);
      const lane = { receiver: receiverOf(index), sub: subOf(index) };
      const id = newDeliveryId(finishedAt);
      const position = finishedAt * 1_000 + (at % 1_000);
      return [
        [LANE.record({ ...newLane(lane), lastSequence: 1, lastPosition: position })],
        [PAYLOAD.record({ id, payload })],
        [
          DELIVERY.record({
            ...delivery,
            ...lane,
            id,
            sequence: 1,
            finishedAt,
            storedAt: finishedAt - 20,
            position,
          }),
        ],
      ];
    },
  ];
}

/**
 * Prepares to fill a storage that was used once.
 * @returns a function that fills it, once nothing has it open.
 */
export async function filler(place: GrowingStorage, size: number): Promise<(bulk: Bulk) => Promise<void>> {
  await finishWaiting(place);
  const all = await passes(place, size);
  await place.storage.directory.passUserId(size + 1_000);
  return async (bulk) => {
    for (const pass of all)
      for (let at = 0; at < size; at += 1) for (const family of pass(at)) await bulk.add(family);
    await bulk.finish();
  };
}

/**
 * Delivers waiting deliveries, as a worker would.
 * @returns how many.
 */
export async function finishWaiting(
  { storage }: Pick<GrowingStorage, "storage">,
  most: number = 10,
): Promise<number> {
  const { deliveries } = storage;
  const terms = { owner: "bench", span: 30_000 };
  let finished = 0;
  for (;;) {
    const claims = await Promise.all(
      SERVICES.map((key) => deliveries.claimDue(`service:${key}`, most, terms)),
    );
    const attempt = { startedAt: Date.now(), duration: 12, status: 200, error: null, answer: null };
    await Promise.all(
      claims.flat().map((claim) => deliveries.finish(claim, { kind: "delivered" }, { attempt })),
    );
    finished += claims.flat().length;
    if (claims.every((some) => some.length === 0)) return finished;
  }
}
