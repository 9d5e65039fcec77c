/** The records of signing keys: one for each key, and one that lists them. */
import type { AuditEvent, AuditStore } from "./audit/audit-event.ts";
import { type Kind, defineKind } from "./kinds.ts";
import type { Records, Transaction } from "./records.ts";

/** A stored signing key. Its state follows from its times, in seconds since the epoch. */
export interface SigningKeyRecord {
  readonly kid: string;
  /** As in RFC 7518: `RS256`. */
  readonly alg: string;
  /** The private JWK, sealed for `signing-key KID`. */
  readonly sealed: string;
  /** When it enters the JWKS. */
  readonly published_at: number;
  /** When it starts to sign. */
  readonly signs_from: number;
  /** When it stops signing; `null` while there is no next key. */
  readonly retires_at: number | null;
}

/** All signing keys of a storage at one moment, the oldest first. */
export interface StoredSigningKeys {
  readonly keys: readonly SigningKeyRecord[];
  /** It changes with every change of a key; `undefined` before the first key. */
  readonly version: string | undefined;
}

/** A change of the keys. */
interface SigningKeyChange {
  /** All keys after the change. */
  readonly keys: readonly SigningKeyRecord[];
  readonly audit: readonly AuditEvent[];
}

export interface SigningKeyStore {
  read(): Promise<StoredSigningKeys>;
  /** Only the `version`, which is cheaper to read. */
  version(): Promise<string | undefined>;
  /**
   * Changes the keys in one commit. Of two concurrent changes one succeeds and the other is retried.
   * @param decide gets the current keys; `undefined` changes nothing.
   */
  change(
    decide: (
      stored: StoredSigningKeys,
    ) => SigningKeyChange | undefined | Promise<SigningKeyChange | undefined>,
  ): Promise<void>;
  /** Calls back soon after another process may have changed the keys, but not reliably. @returns a function that stops it. */
  watch(onChange: () => void): () => void;
}

/** The sealing context of a signing key. */
export const signingKeyContext = (kid: string): string => `signing-key ${kid}`;

/**
 * A key that stops signing now. What it has signed stays valid as usual. Somebody may have retired it since the backup because it was
 * compromised.
 */
export function retired(key: SigningKeyRecord, nowMs: number): SigningKeyRecord {
  const now = Math.floor(nowMs / 1000);
  return {
    ...key,
    signs_from: Math.min(key.signs_from, now),
    retires_at: Math.min(key.retires_at ?? now, now),
  };
}

export const SIGNING_KEY: Kind<SigningKeyRecord> = defineKind<SigningKeyRecord>({
  name: "signing-key",
  holds:
    "a key that signs ID tokens, sealed with `keys.secrets`, and when it is published, signs and retires",
  key: "its `kid`",
  keyOf: ({ kid }) => kid,
  sealed: ({ sealed, ...rest }, replace) => ({
    ...rest,
    sealed: replace(signingKeyContext(rest.kid), sealed),
  }),
  store: "storage",
  exported: true,
  afterRestore: { becomes: "published as long as a retired key, and never signs again", change: retired },
  afterReset: "removed",
  personal: undefined,
});

/** Every change of a key writes this record, so that two concurrent changes conflict. */
interface KeySet {
  readonly kids: readonly string[];
}

export const SIGNING_KEY_SET: Kind<KeySet> = defineKind<KeySet>({
  name: "signing-key-set",
  holds: "the list of signing keys, oldest first",
  key: "always the same",
  keyOf: () => "all",
  references: ({ kids }) => kids.map((kid) => SIGNING_KEY.ref(kid)),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

const SET = SIGNING_KEY_SET.ref("all");

/** The kinds that change whenever a signing key does. */
export const WATCHED_KEY_KINDS: readonly string[] = [SIGNING_KEY_SET.name];

async function readAll(tx: Transaction): Promise<StoredSigningKeys> {
  const set = await tx.get(SET);
  if (set === undefined) return { keys: [], version: undefined };
  const found = await tx.getAll(set.kids.map((kid) => SIGNING_KEY.ref(kid)));
  const keys = found.filter((key) => key !== undefined);
  // A missing key was removed after the set was read.
  if (keys.length < found.length) throw tx.outdated("the signing keys were changed in between");
  return { keys, version: tx.versionOf(SET) };
}

/** @param recordOf builds the audit record of a change. */
export function createSigningKeyStore(
  records: Records,
  { recordOf }: Pick<AuditStore, "recordOf">,
): SigningKeyStore {
  return {
    read: () => records.transact(readAll),
    version: async () => (await records.find(SET))?.version,
    change: (decide) =>
      records.transact(async (tx) => {
        const stored = await readAll(tx);
        const change = await decide(stored);
        if (change === undefined) return;
        const { keys, audit } = change;
        const kids = new Set(keys.map(({ kid }) => kid));
        tx.put(SIGNING_KEY_SET.record({ kids: [...kids] }));
        for (const key of keys) if (!stored.keys.includes(key)) tx.overwrite(SIGNING_KEY.record(key));
        for (const { kid } of stored.keys) if (!kids.has(kid)) tx.remove(SIGNING_KEY.ref(kid));
        for (const each of audit) tx.create(recordOf(each));
      }),
    watch: (onChange) => records.store.watch?.(WATCHED_KEY_KINDS, onChange) ?? (() => undefined),
  };
}
