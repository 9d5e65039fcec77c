/** An empty store, a manual clock and samples for every case of the storage contract. */
import { createSecretKey } from "node:crypto";
import { artifactRecord } from "../../../records/artifacts/artifact-kinds.ts";
import { Changes } from "../../../records/records.ts";
import type { Artifact, StoredArtifact } from "../../../records/artifacts/artifact.ts";
import type { Delivery, NewDelivery, WholeDelivery } from "../../../records/deliveries/delivery.ts";
import { readAccount, writeAccount } from "../../../accounts/account-write.ts";
import type { AuditEvent } from "../../../records/audit/audit-event.ts";
import type {
  AccountRecord,
  ClientRecord,
  EntryKind,
  EntryRecord,
} from "../../../records/directory/directory.ts";
import { CLIENT, ENTRIES } from "../../../records/directory/directory-kinds.ts";
import { MAIL, type StoredMail } from "../../../records/people/mail-kinds.ts";
import type { Storage } from "../../../records/storage.ts";
import type { Clock } from "../../../core/clock.ts";
import { type ManualClock, START } from "../../../testing/storage/stage.ts";

export { ManualClock, START } from "../../../testing/storage/stage.ts";

/** The store of the current case. Each case has a new one. */
export interface Stage {
  storage: Storage;
  clock: ManualClock;
}

/** Strings that have broken stores. Each must be a distinct key. */
export const hostileKeys: readonly string[] = [
  "",
  " ",
  "a",
  "A",
  "a ",
  "\0",
  "a\0",
  "a\0b",
  "a\0c",
  "x".repeat(10_000),
  `${"x".repeat(9_999)}y`,
  "ą",
  "a\u0328",
  "é",
  "e\u0301",
  "😀",
  "\ud83d",
  "\ude00",
  "\ud800",
  "\udfff",
  "\ufffd",
  "\ufffe",
  "\u{10ffff}",
  '\u{10ffff}"a"',
  "\u{10ffff}\ud800",
  "' OR 1=1 --",
  '"; DROP TABLE artifacts; --',
  "%",
  "_",
  "*",
  "$where",
  "a.b",
  "{}",
  "null",
  "0",
  "00",
  "__proto__",
  "constructor",
  "toString",
];

/** Writes artifacts unconditionally. */
export async function put(
  { storage, clock }: Stage,
  ...artifacts: (Artifact & Partial<StoredArtifact>)[]
): Promise<void> {
  const changes = new Changes();
  for (const each of artifacts) changes.add(artifactRecord(each));
  await storage.artifacts.commit(changes, clock.now() + 5_000);
}

/** An artifact that lives for a minute. */
export function artifact(clock: Clock, model: string, key: string, parts: Partial<Artifact> = {}): Artifact {
  return {
    model,
    key,
    payload: { kind: model, scope: "openid email", nested: { list: [1, "two", null], text: "ż\0\ud800" } },
    expiresAt: clock.now() + 60_000,
    ...parts,
  };
}

export function account(number: number, parts: Partial<AccountRecord> = {}): AccountRecord {
  return {
    sub: `sub-${number}`,
    user_id: number,
    email: `person${number}@example.com`,
    email_verified: true,
    username: `person${number}`,
    name: "Zażółć",
    surname: null,
    date_of_birth: "1990-12-10",
    gender: null,
    portal: null,
    services: {},
    ways: { password: { hash: "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA", generation: 0 } },
    sessions_generation: 1,
    tokens_generation: 1,
    service_generations: {},
    client_generations: {},
    consents: { shop: { scopes: ["profile"], claims: [] } },
    created_at: 1_800_000_000,
    updated_at: 1_800_000_000,
    ...parts,
  };
}

/** What a test commits with an account. */
export interface Together {
  readonly deliveries?: readonly NewDelivery[];
  readonly mails?: readonly StoredMail[];
  readonly audit?: AuditEvent;
}

/** For the index of the search. */
const SEARCH_KEY = createSecretKey(Buffer.alloc(32, 3));

/** Commits the account as `decide` wants it, with its names and number, and what belongs to the change. */
export function changeAccount(
  { records, deliveries, audit }: Storage,
  sub: string,
  decide: (before: AccountRecord | undefined) => AccountRecord | undefined,
  together: Together = {},
): Promise<void> {
  return records.transact(async (tx) => {
    const before = await readAccount(tx, sub);
    await writeAccount(tx, { before, after: decide(before) }, { clock: records.clock, search: SEARCH_KEY });
    await deliveries.add(tx, together.deliveries ?? []);
    for (const mail of together.mails ?? []) tx.overwrite(MAIL.record(mail));
    if (together.audit !== undefined) tx.overwrite(audit.recordOf(together.audit));
  });
}

/** Stores the account, new or changed. */
export function putAccount(storage: Storage, record: AccountRecord, together?: Together): Promise<void> {
  return changeAccount(storage, record.sub, () => record, together);
}

export function deleteAccount(storage: Storage, sub: string, together?: Together): Promise<void> {
  return changeAccount(storage, sub, () => undefined, together);
}

/** Stores the client, new or changed. */
export function putClient({ records }: Storage, record: ClientRecord): Promise<void> {
  return records.transact(async (tx) => {
    await tx.get(CLIENT.ref(record.client_id));
    tx.put(CLIENT.record(record));
  });
}

/** Stores the entry, new or changed. */
export function putEntry({ records }: Storage, kind: EntryKind, record: EntryRecord): Promise<void> {
  return records.transact(async (tx) => {
    await tx.get(ENTRIES[kind].ref(record.key));
    tx.put(ENTRIES[kind].record(record));
  });
}

export function delivery(
  id: string,
  sub: string,
  receiver = "service:1",
  parts: Partial<NewDelivery> = {},
): NewDelivery {
  const payload = `sealed-${id}`;
  return { id, receiver, sub, type: "PROFILE_CHANGED", payload, at: 1_800_000_000, ...parts };
}

/** Stores deliveries with the creation of another account. */
export async function store({ storage }: Stage, ...deliveries: NewDelivery[]): Promise<void> {
  const number = await storage.directory.nextUserId();
  await putAccount(storage, account(number, { sub: `of-${number}` }), { deliveries });
}

/** The delivery before its first attempt. */
export function stored(
  { payload: _apart, ...wanted }: NewDelivery,
  sequence: number,
  storedAt: number = START,
): Delivery {
  return {
    ...wanted,
    sequence,
    state: "waiting",
    attempts: 0,
    failures: 0,
    storedAt,
    nextAttemptAt: storedAt,
    finishedAt: null,
    reason: null,
    lastError: null,
    isHead: sequence === 1,
  };
}

/** The same with its payload, as `find` and claims return it. */
export function whole(wanted: NewDelivery, sequence: number): WholeDelivery {
  return { ...stored(wanted, sequence), payload: wanted.payload };
}

export function client(id: string, parts: Partial<ClientRecord> = {}): ClientRecord {
  return {
    client_id: id,
    kind: "web",
    name: "News",
    service: null,
    secrets: [{ hash: "aGFzaA" }, { hash: "b2xk", expires_at: 1_800_000_100 }],
    redirect_uris: ["https://news.example/callback"],
    post_logout_redirect_uris: [],
    backchannel_logout_uri: null,
    grant_types: ["authorization_code", "refresh_token"],
    first_party: true,
    refresh_tokens: { rotate: true },
    error_status: "documented",
    tokens_epoch: "epoch",
    disabled: false,
    created_at: 1_800_000_000,
    updated_at: 1_800_000_000,
    ...parts,
  };
}

export function entry(key: string, parts: Partial<EntryRecord> = {}): EntryRecord {
  return { key, name: `Entry ${key}`, group: null, receiver: null, ...parts };
}

/** The stable codes of the errors among the results; `undefined` for a success. */
export async function outcomes(calls: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((result) =>
    result.status === "fulfilled" ? undefined : Reflect.get(Object(result.reason), "code"),
  );
}
