/**
 * Which of `keys.secrets` a storage needs. It knows them by ids, which are keyed hashes, in the order in which they became the first one.
 * A process that would write what others can't read, or can't read what others have written, does not start.
 */
import { SignInError } from "../core/errors.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { defineKind, type Kind } from "./kinds.ts";
import type { Records } from "./records.ts";

/** A secret that was the first of `keys.secrets` of a server or worker. */
export interface KnownSecret {
  /** Twelve hexadecimal digits: see `Sealer.ids`. */
  readonly id: string;
  /** When it became the newest, in seconds since the epoch. */
  readonly known_since: number;
  /** Whether something may be sealed with it: until `keys reseal` has finished with a newer one. */
  readonly needed: boolean;
}

export interface StoredSecrets {
  /** The newest last. A replaced secret stays, so that a process with an old configuration is noticed. */
  readonly secrets: readonly KnownSecret[];
}

export const SEALING_SECRETS: Kind<StoredSecrets> = defineKind<StoredSecrets>({
  name: "sealing-secrets",
  holds:
    "ids of the secrets in `keys.secrets` that were used first, the newest last, and which of them are still needed",
  key: "always the same",
  keyOf: () => "current",
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

const CURRENT = SEALING_SECRETS.ref("current");

/** All calls reject with `StorageUnavailable` when the storage fails. @param ids of `keys.secrets`, in their order. */
export interface SecretStore {
  /** The newest last; none before the first start. */
  read(): Promise<readonly KnownSecret[]>;
  /**
   * Checks the secrets of a process. The first one becomes the newest if the storage has never seen it.
   * @throws SignInError `unusable_secrets` as {@link requireSecrets}.
   */
  admit(ids: readonly string[]): Promise<void>;
  /** Everything is sealed with the secret: those that were known before are no longer needed. */
  replaced(before: readonly KnownSecret[], id: string): Promise<void>;
  /** No other secret is needed, because what they had sealed is void. */
  reset(id: string): Promise<void>;
}

const fresh = (id: string, clock: Clock): KnownSecret => ({
  id,
  known_since: seconds(clock),
  needed: true,
});

/** The secrets without the need for some of them. */
function withoutNeed(
  known: readonly KnownSecret[],
  isReplaced: (id: string) => boolean,
): readonly KnownSecret[] {
  return known.map(({ id, known_since, needed }) => ({
    id,
    known_since,
    needed: needed && !isReplaced(id),
  }));
}

const list = (ids: readonly string[]): string => ids.join(", ");

/** The needed ones among the known that are not in `keys.secrets`. */
export function lackingSecrets(known: readonly KnownSecret[], ids: readonly string[]): readonly string[] {
  return known.filter(({ id, needed }) => needed && !ids.includes(id)).map(({ id }) => id);
}

/** Whether another secret than the first is still needed. */
export function isResealPending(known: readonly KnownSecret[], [first]: readonly string[]): boolean {
  return known.some(({ id, needed }) => needed && id !== first);
}

/** @throws SignInError `unusable_secrets` if one is missing that the storage needs, or an older one than the newest is first. */
export function requireSecrets(known: readonly KnownSecret[], ids: readonly string[]): void {
  const lacking = lackingSecrets(known, ids);
  if (lacking.length > 0)
    throw new SignInError(
      "unusable_secrets",
      `the storage needs ${list(lacking)}, which keys.secrets lacks (it has ${list(ids)}): add it again, and run sign-in-service keys reseal before you remove it; if it is lost for good, run sign-in-service keys reset --lost`,
    );
  const newest = known.at(-1)?.id;
  const [first = ""] = ids;
  if (newest !== first && known.some(({ id }) => id === first))
    throw new SignInError(
      "unusable_secrets",
      `the first of keys.secrets is ${first}, which ${newest} has replaced: put ${newest} first, the secret at place ${ids.indexOf(newest ?? "") + 1}, or a new one`,
    );
}

export function createSecretStore(records: Records): SecretStore {
  const { clock } = records;
  /** @param change gets those that are known. `undefined` changes nothing. */
  function change(
    decide: (known: readonly KnownSecret[]) => readonly KnownSecret[] | undefined,
  ): Promise<void> {
    return records.transact(async (tx) => {
      const { secrets: known } = (await tx.get(CURRENT)) ?? { secrets: [] };
      const secrets = decide(known);
      if (secrets !== undefined) tx.put(SEALING_SECRETS.record({ secrets }));
    });
  }

  return {
    read: async () => (await records.find(CURRENT))?.value.secrets ?? [],
    admit: (ids) =>
      change((known) => {
        requireSecrets(known, ids);
        const [first] = ids;
        if (first === undefined || known.some(({ id }) => id === first)) return undefined;
        return [...known, fresh(first, clock)];
      }),
    replaced: (before, by) =>
      change((known) => withoutNeed(known, (id) => id !== by && before.some((each) => each.id === id))),
    reset: (id) =>
      change((known) => {
        const others = known.filter((each) => each.id !== id);
        return [...withoutNeed(others, () => true), fresh(id, clock)];
      }),
  };
}
