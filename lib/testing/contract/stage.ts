/** What every case of the storage contract plays on: an empty store, a clock that is moved by hand, samples. */
import { randomUUID } from "node:crypto";
import type { Artifact, ArtifactWrite } from "../../../adapters/artifacts.ts";
import type { Delivery, NewDelivery } from "../../../adapters/deliveries.ts";
import type { AccountChange, AccountRecord, ClientRecord, EntryRecord } from "../../../adapters/directory.ts";
import type { Storage } from "../../../adapters/storage.ts";
import type { Clock } from "../../clock.ts";

/** When the clock of every case begins. */
export const START = 1_800_000_000_000;

/** A clock that stands still until it is moved. */
export class ManualClock implements Clock {
  #now: number;
  constructor(now: number = START) {
    this.#now = now;
  }
  now(): number {
    return this.#now;
  }
  /** @param milliseconds how far it is moved. */
  advance(milliseconds: number): void {
    this.#now += milliseconds;
  }
}

/** A backend as the suite needs it. */
export interface StorageBackend {
  /** Opens a store with nothing in it. Everything that depends on time follows this clock. */
  open(clock: Clock): Promise<Storage>;
  /** Opens again what was opened last and has been closed; or why that can't be. */
  readonly restart: { reopen(clock: Clock): Promise<Storage> } | { readonly impossible: string };
  /**
   * Cases that can't be on this backend, each with the reason: they are skipped, and the report says why. A case is
   * named by the titles that lead to it: `"artifacts > Session > keeps …"`. Naming one that there is not fails.
   */
  readonly differences?: Readonly<Record<string, string>>;
}

/** The store of the running case; a new one for each. */
export interface Stage {
  storage: Storage;
  clock: ManualClock;
}

/** Strings that have broken stores: each must be a key that finds only itself. */
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

/** Writes one batch, due in five seconds. */
export function commit({ storage, clock }: Stage, ...writes: ArtifactWrite[]): Promise<void> {
  return storage.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 5000, writes });
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
    password_hash: "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA",
    sessions_generation: 1,
    tokens_generation: 1,
    service_generations: {},
    client_generations: {},
    consents: { shop: { scopes: ["profile"], claims: [] } },
    created_at: 1_800_000_000,
    updated_at: 1_800_000_000,
    version: 1,
    ...parts,
  };
}

/** The change that creates the account. */
export function creation(record: AccountRecord, parts: Partial<AccountChange> = {}): AccountChange {
  return {
    sub: record.sub,
    expectedVersion: undefined,
    record,
    claimNames: [record.email],
    releaseNames: [],
    requireServices: [],
    deliveries: [],
    ...parts,
  };
}

/** The change from this version of the account to the next one. */
export function change(
  before: AccountRecord,
  parts: Partial<AccountRecord>,
  more: Partial<AccountChange> = {},
): AccountChange {
  const record = { ...before, ...parts, version: before.version + 1 };
  return creation(record, { expectedVersion: before.version, claimNames: [], ...more });
}

/** The change that deletes the account. */
export function deletion(before: AccountRecord, parts: Partial<AccountChange> = {}): AccountChange {
  return {
    ...creation(before),
    expectedVersion: before.version,
    record: undefined,
    claimNames: [],
    releaseNames: [before.email],
    ...parts,
  };
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

/** Stores deliveries with the creation of an account that is not theirs. */
export async function store({ storage }: Stage, ...deliveries: NewDelivery[]): Promise<void> {
  const number = await storage.directory.nextUserId();
  await storage.directory.commitAccount(creation(account(number, { sub: `of-${number}` }), { deliveries }));
}

/** The delivery as it is found before anything was tried. */
export function stored(wanted: NewDelivery, sequence: number, storedAt: number = START): Delivery {
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
  };
}

export function client(id: string, parts: Partial<ClientRecord> = {}): ClientRecord {
  return {
    client_id: id,
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
    disabled: false,
    created_at: 1_800_000_000,
    updated_at: 1_800_000_000,
    version: 1,
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
