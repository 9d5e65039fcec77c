/**
 * Fills a storage with the records of many accounts, in large commits. The functions of the service make the records
 * from records that the service has written itself.
 */
import { hash, randomUUID } from "node:crypto";
import { artifactKey } from "../../provider/adapter.ts";
import type { RecordData } from "../../adapters/record-store.ts";
import { artifactKind, artifactRecord, type ArtifactValue } from "../../records/artifacts/artifact-kinds.ts";
import {
  DELIVERY,
  type StoredDelivery,
  type Lane,
  LANE,
  PAYLOAD,
  type StoredPayload,
} from "../../records/deliveries/delivery-kinds.ts";
import { ACCOUNT, IDENTIFIER, SIGN_IN_NAME, USER_ID } from "../../records/directory/directory-kinds.ts";
import { PERSON } from "../servers/people.ts";
import { type GrowingStorage, SERVICES } from "./storage.ts";

const DAY = 86_400_000;
/** Far longer than a commit may take in a request. */
const FILL_TIMEOUT_MS = 120_000;
/** Records of one commit. */
const TOGETHER = 250;
/** Parallel commits. */
const COMMITS = 4;
/** The shortest time between two lines of progress, in milliseconds. */
const SAY = 10_000;

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

type Make = (index: number) => readonly RecordData[];

/** The kinds of records to fill in. They are filled one after the other, to measure the bytes of each. */
async function makers(place: GrowingStorage): Promise<Readonly<Record<string, Make>>> {
  const account = await place.storage.directory.findAccountByName(PERSON.email);
  if (account === undefined) throw new Error("the service has written no account");
  const delivery = await written<StoredDelivery>(place, "delivery");
  const { payload } = await written<StoredPayload>(place, "payload");
  const artifact = async (model: string): Promise<Make> => {
    const make = await artifactMaker(place, model);
    return (index) => [make(index)];
  };
  // After the existing accounts. The counter is moved past them.
  const first = account.user_id + 1;
  const now = Date.now();
  return {
    account(index) {
      const sub = subOf(index);
      const [email, username] = [`${sub}@example.com`, `person-${index}`];
      const record = { ...account, sub, email, username, user_id: first + index };
      return [
        ACCOUNT.record(record),
        IDENTIFIER.record({ sub }),
        SIGN_IN_NAME.record({ sub }, { key: email }),
        SIGN_IN_NAME.record({ sub }, { key: username }),
        USER_ID.record({ sub }, { key: String(record.user_id) }),
      ];
    },
    session: await artifact("Session"),
    grant: await artifact("Grant"),
    "access token": await artifact("AccessToken"),
    "refresh token": await artifact("RefreshToken"),
    code: await artifact("AuthorizationCode"),
    lane(index) {
      const lane: Lane = {
        receiver: receiverOf(index),
        sub: subOf(index),
        lastSequence: 1,
        lastPosition: now * 1_000,
        isEmpty: true,
        lastDelivered: 0,
        flight: null,
      };
      return [LANE.record(lane)];
    },
    "finished delivery"(index) {
      // Spread over the days for which payloads are stored, so that nothing has to be purged.
      const finishedAt = now - (index % 1_000) * 300_000;
      const id = `msg_${randomUUID()}`;
      return [
        PAYLOAD.record({ id, payload }),
        DELIVERY.record({
          ...delivery,
          id,
          receiver: receiverOf(index),
          sub: subOf(index),
          sequence: 1,
          finishedAt,
          storedAt: finishedAt - 20,
          position: finishedAt * 1_000 + (index % 1_000),
        }),
      ];
    },
  };
}

/** Bytes of one record of each kind in a storage of one size. */
export type Bytes = Readonly<Record<string, number>>;

/** @param size number of accounts. */
export async function fill(place: GrowingStorage, size: number): Promise<Bytes> {
  await finishWaiting(place);
  const bytes: Record<string, number> = {};
  let before = await place.bytes();
  let said = performance.now();
  for (const [name, make] of Object.entries(await makers(place))) {
    for (let index = 0; index < size;) {
      const batch: RecordData[] = [];
      for (; batch.length < COMMITS * TOGETHER && index < size; index += 1) batch.push(...make(index));
      await put(place, batch);
      if (performance.now() - said < SAY) continue;
      said = performance.now();
      console.error(`${place.backend}, ${size} accounts: ${index} of ${name}`);
    }
    const after = await place.bytes();
    bytes[name] = (after - before) / size;
    before = after;
  }
  await place.storage.directory.passUserId(size + 1_000);
  return bytes;
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
