/** Thousands of records of every kind, put into a storage as its own transfer takes them in. */
import {
  PARTS,
  type PartName,
  type StorageTransfer,
  type TransferPart,
  type TransferRecords,
} from "../../adapters/transfer.ts";
import { account, client, delivery, entry, hostileKeys } from "../../lib/testing/contract/stage.ts";

const HOUR = 3_600_000;
/** Attempts of one delivery. */
const ATTEMPTS = 2;
const DELIVERIES_IN_LANE = 4;

/** Text of which some is hostile: a different one for each number. */
function text(number: number): string {
  return `${hostileKeys[number % hostileKeys.length]?.slice(0, 300)} ${number}`;
}

type Make = { readonly [Name in PartName]: (index: number, now: number) => TransferRecords[Name] };

const STATES = ["waiting", "delivered", "parked", "discarded"] as const;

/** Lane and place of the delivery of this number. */
function laneOf(index: number): {
  readonly receiver: string;
  readonly sub: string;
  readonly sequence: number;
} {
  const lane = Math.floor(index / DELIVERIES_IN_LANE);
  const sequence = (index % DELIVERIES_IN_LANE) + 1;
  return { receiver: `service:${lane % 7}`, sub: text(lane), sequence };
}

const MAKE: Make = {
  entries: (index) => ({ kind: "service", record: entry(text(index), { name: text(index + 1) }) }),
  clients: (index) => client(text(index), { name: text(index + 3), service: text(index) }),
  accounts: (index) => ({
    record: account(2 * index + 1, {
      sub: text(index),
      surname: text(index + 1),
      services: { [text(index)]: index },
    }),
    names: [`a ${text(index)}`, `b ${text(index)}`],
  }),
  audit: (index) => ({ at: index / 2, action: "account.deleted", subject: text(index), detail: { index } }),
  deliveries(index, now) {
    const { receiver, sub, sequence } = laneOf(index);
    const state = STATES[index % STATES.length] ?? "waiting";
    const isWaiting = state === "waiting";
    return {
      ...delivery(`id ${text(index)}`, sub, receiver, { payload: text(index + 2) }),
      sequence,
      state,
      attempts: ATTEMPTS,
      failures: isWaiting ? 1 : 0,
      storedAt: now - index,
      nextAttemptAt: isWaiting ? now + index + 0.5 : null,
      finishedAt: isWaiting ? null : now - 1,
      reason: state === "parked" ? "attempts_used_up" : null,
      failedAt: isWaiting ? now - 2 : null,
    };
  },
  attempts: (index, now) => ({
    delivery: `id ${text(Math.floor(index / ATTEMPTS))}`,
    number: (index % ATTEMPTS) + 1,
    startedAt: now - 10,
    duration: 1.25,
    status: index % 2 === 0 ? 503 : null,
    error: index % 2 === 0 ? null : "connection_refused",
    answer: text(index),
  }),
  lanes(index, now) {
    const { receiver, sub } = laneOf(index * DELIVERIES_IN_LANE);
    const id = `id ${text(index * DELIVERIES_IN_LANE)}`;
    const lease = index % 5 === 0 ? { owner: text(index), end: now + HOUR, claimed: id } : null;
    return { receiver, sub, lastSequence: DELIVERIES_IN_LANE + index, lastDelivered: 2, fence: index, lease };
  },
  receivers: (index) => ({
    receiver: `service:${text(index)}`,
    paused: index % 2 === 0,
    reason: text(index),
    failures: index + 1,
    heldUntil: null,
    holdSpan: 0,
    releaseUntil: index,
  }),
  artifacts: (index, now) => ({
    model: ["AccessToken", "RefreshToken", "Session"][index % 3] ?? "",
    key: text(index),
    payload: { text: text(index + 4), nested: [{ index }, null, true, 1e21, -0.5] },
    expiresAt: now + HOUR + index / 4,
    grantKey: `grant ${text(Math.floor(index / 3))}`,
    accountId: text(Math.floor(index / 9)),
    clientId: text(index % 11),
    ...(index % 3 === 2 && { uid: `uid ${text(index)}` }),
    ...(index % 3 === 1 && { consumedAt: now - index, replay: text(index), replayUntil: now + HOUR }),
  }),
  counters: () => ({ name: "user_id", value: 123_456_789 }),
  kept: (index) => ({ name: `name ${text(index)}`, value: text(index + 1) }),
};

/** How many there are of each part, for a size. */
function countOf(name: PartName, size: number): number {
  // Each has many documents where they are guarded.
  if (name === "entries") return Math.min(size, 300);
  if (name === "counters") return 1;
  if (name === "attempts") return ATTEMPTS * size;
  return name === "lanes" ? Math.floor(size / DELIVERIES_IN_LANE) : size;
}

/** Fills an empty storage. @param size how many accounts, clients, deliveries … there are. */
export async function fillWith({ parts }: StorageTransfer, size: number, now: number): Promise<void> {
  for (const name of PARTS) {
    const part: TransferPart<unknown> = parts[name];
    const all = Array.from({ length: countOf(name, size) }, (_, index) => MAKE[name](index, now));
    for (let at = 0; at < all.length; at += 500) await part.write(all.slice(at, at + 500), at);
  }
}
