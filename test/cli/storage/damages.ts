/** Damage that tests plant in a storage, and how `storage check` reports it. */
import { randomUUID } from "node:crypto";
import type { Commit, Found, RecordData, RecordStore, Ref } from "../../../adapters/record-store.ts";
import { artifactKind, artifactRecord } from "../../../records/artifacts/artifact-kinds.ts";
import { DELIVERY, type StoredDelivery, LANE, RECEIVER } from "../../../records/deliveries/delivery-kinds.ts";
import { ACCOUNT, IDENTIFIER, SIGN_IN_NAME, USER_ID } from "../../../records/directory/directory-kinds.ts";
import { PASSKEY, type StoredPasskey } from "../../../records/factors/factor-kinds.ts";
import { IDENTITY, identityId, type StoredIdentity } from "../../../records/people/identity-kinds.ts";
import { type AnyKind, storeOf, type Stores } from "../../../records/kinds.ts";

/** Writes without any checks. */
export async function force(store: RecordStore, change: Pick<Commit, "put" | "remove">): Promise<void> {
  await store.commit({ id: randomUUID(), deadline: Date.now() + 5_000, ...change });
}

export async function find(stores: Stores, kind: AnyKind, ref: Ref): Promise<Found> {
  const [found] = await storeOf(stores, kind).get([ref]);
  if (found === undefined) throw new Error(`there is no ${ref.kind}`);
  return found;
}

/** Changes a record: its value, its index entries, its expiry. */
export async function alter(
  stores: Stores,
  kind: AnyKind,
  ref: Ref,
  change: (record: RecordData) => RecordData,
): Promise<void> {
  await force(storeOf(stores, kind), { put: [change(kind.restore(await find(stores, kind, ref)))] });
}

const withoutEntries = ({ index: _index, ...record }: RecordData): RecordData => record;
export const withValue =
  (parts: object) =>
  (record: RecordData): RecordData => ({ ...record, value: { ...record.value, ...parts } });

/** The deliveries of an account's lane, in their order. */
async function laneOf({ storage }: Stores, sub: string): Promise<StoredDelivery[]> {
  const { records } = await storage.scan(DELIVERY.name, undefined, 1_000);
  const all = records.map(({ value }) => value as unknown as StoredDelivery);
  return all
    .filter((delivery) => delivery.sub === sub)
    .toSorted((one, other) => one.sequence - other.sequence);
}

/** A kind of damage, and how it is reported. */
export type Damage = readonly [
  name: string,
  plant: (stores: Stores, ada: string, bob: string) => Promise<unknown>,
  says: RegExp,
];

const LANE_OF = (sub: string): Ref => LANE.ref(["group:media", sub]);

export const damages: readonly Damage[] = [
  [
    "a record is in none of its indexes",
    (stores, ada) => alter(stores, ACCOUNT, ACCOUNT.ref(ada), withoutEntries),
    /^account: 1 records with wrong index entries, a wrong parent or a wrong expiry \(account [\w-]+\)/m,
  ],
  [
    "a delivery is due at another time",
    async (stores, ada) => {
      const [head] = await laneOf(stores, ada);
      const other = DELIVERY.record({ ...(head as StoredDelivery), nextAttemptAt: Date.now() + 1e9 });
      await alter(stores, DELIVERY, other, (record) => ({ ...record, index: other.index ?? [] }));
    },
    /^delivery: 1 records with wrong index entries/m,
  ],
  [
    "a sign-in name is gone",
    ({ storage }) => force(storage, { remove: [SIGN_IN_NAME.ref("ada")] }),
    /^account: 1 accounts that one of their sign-in names does not lead to \(account [\w-]+\)/m,
  ],
  [
    "an account has a former name",
    ({ storage }, ada) => force(storage, { put: [SIGN_IN_NAME.record({ sub: ada }, { key: "former" })] }),
    /^sign-in-name: 1 accounts with a sign-in name that is not theirs/m,
  ],
  [
    "a name leads to somebody else",
    ({ storage }, _ada, bob) => force(storage, { put: [SIGN_IN_NAME.record({ sub: bob }, { key: "ada" })] }),
    /^sign-in-name: 1 accounts with a sign-in name that is not theirs/m,
  ],
  [
    "a user_id leads nowhere",
    ({ storage }) => force(storage, { put: [USER_ID.record({ sub: "nobody" }, { key: "77" })] }),
    /^user-id: 1 user_ids of nobody \(user-id 77\)/m,
  ],
  [
    "a user_id is gone",
    ({ storage }) => force(storage, { remove: [USER_ID.ref("1")] }),
    /^account: 1 accounts that their user_id does not lead to/m,
  ],
  [
    "a user_id leads to another account",
    ({ storage }, ada) => force(storage, { put: [USER_ID.record({ sub: ada }, { key: "77" })] }),
    /^user-id: 1 user_ids that lead to no account of theirs \(user-id 77\)/m,
  ],
  [
    "the identifier of an account is gone",
    ({ storage }, ada) => force(storage, { remove: [IDENTIFIER.ref(ada)] }),
    /^account: 1 accounts with an identifier that a client has or could get/m,
  ],
  [
    "the mark of a client is gone",
    ({ storage }) => force(storage, { remove: [IDENTIFIER.ref("news")] }),
    /^client: 1 clients with an identifier that an account has or could get \(client news\)/m,
  ],
  [
    "there is a mark of no client",
    ({ storage }) => force(storage, { put: [IDENTIFIER.record({ client_id: "gone" })] }),
    /^identifier: 1 reserved identifiers of clients that do not exist \(identifier gone\)/m,
  ],
  [
    "a passkey is of an account that has none",
    ({ storage }, ada) => force(storage, { put: [PASSKEY.record(passkeyOf(ada))] }),
    /^passkey: 1 passkeys that their account does not list \(account [\w-]+\)/m,
  ],
  [
    "an identity is of an account that does not list it",
    ({ storage }, ada) => force(storage, { put: [IDENTITY.record(identityOf(ada))] }),
    /^identity: 1 identities at providers that their account does not list \(account [\w-]+\)/m,
  ],
  [
    "a lane is missing",
    async ({ storage }, ada) => force(storage, { remove: [LANE_OF(ada)] }),
    /^lane: [12] deliveries missing from their lane/m,
  ],
  [
    "a lane has forgotten its places",
    (stores, ada) => alter(stores, LANE, LANE_OF(ada), withValue({ lastSequence: 1 })),
    /^lane: 1 deliveries missing from their lane/m,
  ],
  [
    "a lane has no head",
    async (stores, ada) => {
      const [head] = await laneOf(stores, ada);
      await force(stores.storage, { put: [DELIVERY.record({ ...(head as StoredDelivery), isHead: false })] });
    },
    /^lane: 1 lanes whose head is not their first waiting delivery/m,
  ],
  [
    "a lane has two heads",
    async (stores, ada) => {
      const [, second] = await laneOf(stores, ada);
      await force(stores.storage, {
        put: [DELIVERY.record({ ...(second as StoredDelivery), isHead: true })],
      });
    },
    /^lane: 1 lanes whose head is not their first waiting delivery/m,
  ],
  [
    "a receiver is forgotten",
    ({ storage }) => force(storage, { remove: [RECEIVER.ref("group:media")] }),
    /^receiver: [1-9] deliveries for an unknown receiver/m,
  ],
  [
    "a grant is in none of its indexes",
    (stores) => alter(stores, GRANT, GRANT.ref("g"), withoutEntries),
    /^grant: 1 records with wrong index entries, a wrong parent or a wrong expiry \(grant …g\)/m,
  ],
];

function passkeyOf(sub: string): StoredPasskey {
  const times = { added_at: 1_790_000_000, last_used_at: null };
  const backup = { backup_eligible: true, backed_up: true };
  const key = { public_key: "AAAA", counter: 0, transports: [], rp_id: "127.0.0.1" };
  return { id: "cred", sub, name: "Phone", ...key, ...backup, ...times };
}

function identityOf(sub: string): StoredIdentity {
  const name = { issuer: "https://accounts.google.com", subject: "1" };
  const rest = { provider: "google", sealed: null, linked_at: 1_790_000_000, last_used_at: null };
  return { id: identityId(name), ...name, sub, ...rest };
}

const GRANT = artifactKind("Grant");

/** A family that a service could have left there. */
export async function addFamily({ artifacts }: Stores, accountId: string): Promise<void> {
  const expiresAt = Date.now() + 3_600_000;
  const shared = { payload: { iat: 1 }, accountId, clientId: "news", grantKey: "g", expiresAt };
  const put = [
    artifactRecord({ ...shared, model: "Grant", key: "g" }),
    artifactRecord({ ...shared, model: "AccessToken", key: "t" }),
  ];
  await force(artifacts, { put });
}

/** Those that depend on the store of a record. The others are found in its value, whatever the store. */
export const ofStores: readonly Damage[] = damages.filter(([name]) =>
  [
    "a record is in none of its indexes",
    "a sign-in name is gone",
    "a lane has two heads",
    "a grant is in none of its indexes",
  ].includes(name),
);
