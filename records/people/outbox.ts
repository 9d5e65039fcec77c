/**
 * The outbox: mail is stored with the change that it is about, and sent later. A worker claims a mail by moving its
 * `due` into the future, on condition that no other worker did. If it dies, the mail becomes due again.
 */
import { ConditionFailed } from "../../core/errors.ts";
import { Changes, type Records } from "../records.ts";
import { BY_CREATION, BY_DUE, MAIL, mailRecord, type StoredMail } from "./mail-kinds.ts";

/** A mail that this process may send until `mail.due`. */
export interface MailClaim {
  readonly mail: StoredMail;
  /** The version of the record: results are written only while it is current. */
  readonly version: string;
}

/** How much mail waits. */
export interface WaitingMail {
  readonly count: number;
  /** When the oldest was stored, in milliseconds since the epoch; `undefined` if none waits. */
  readonly oldest: number | undefined;
}

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Outbox {
  /** Stores a mail that no account change goes with. One that does is put in the transaction of the change. */
  add(mail: StoredMail): Promise<void>;
  /**
   * Claims due mail, the longest due first.
   * @param lease milliseconds for the attempt. After that, other workers may claim it.
   */
  claim(limit: number, lease: number): Promise<MailClaim[]>;
  /** Ends a claim: the mail is due again at this time. `false` if another worker has taken it over. */
  postpone(claim: MailClaim, due: number): Promise<boolean>;
  /** Ends a claim: removes the mail. `false` if another worker has taken it over. */
  remove(claim: MailClaim): Promise<boolean>;
  /** When the next mail is due, in milliseconds since the epoch; `undefined` if none waits. */
  nextDue(): Promise<number | undefined>;
  waiting(): Promise<WaitingMail>;
  /** Calls back soon after any process stored a mail, if the storage can do that. @returns a function that ends it. */
  watch(onChange: () => void): () => void;
}

/** The kinds that {@link Outbox.watch} watches. */
export const WATCHED_MAIL_KINDS: readonly string[] = [MAIL.name];

export function createOutbox(records: Records): Outbox {
  const { clock, store } = records;

  /** Commits unless the mail has changed since it was read. @returns the new version. */
  async function settled(changes: Changes): Promise<string | undefined> {
    try {
      return await records.commit(changes);
    } catch (error) {
      if (error instanceof ConditionFailed) return undefined;
      throw error;
    }
  }

  function write(mail: StoredMail, version: string): Promise<string | undefined> {
    const changes = new Changes();
    changes.write(mailRecord(mail), { version });
    return settled(changes);
  }

  return {
    async add(mail) {
      const changes = new Changes();
      changes.add(mailRecord(mail));
      await records.commit(changes);
    },
    async claim(limit, lease) {
      const now = Math.floor(clock.now());
      const due = await records.list<StoredMail>({ ...BY_DUE, to: now }, limit);
      const claims = due.map(async ({ value, version }): Promise<MailClaim[]> => {
        const mail = { ...value, due: now + lease, attempts: value.attempts + 1 };
        const claimed = await write(mail, version);
        return claimed === undefined ? [] : [{ mail, version: claimed }];
      });
      return (await Promise.all(claims)).flat();
    },
    postpone: async ({ mail, version }, due) =>
      (await write({ ...mail, due: Math.floor(due) }, version)) !== undefined,
    async remove({ mail, version }) {
      const changes = new Changes();
      changes.delete(MAIL.ref(mail.id), { version });
      return (await settled(changes)) !== undefined;
    },
    async nextDue() {
      const [next] = await records.list<StoredMail>(BY_DUE, 1);
      return next?.value.due;
    },
    async waiting() {
      const [count = 0] = await store.count([{ ...BY_CREATION, limit: 1 }]);
      const [oldest] = await records.list<StoredMail>(BY_CREATION, 1);
      return { count, oldest: oldest?.value.createdAt };
    },
    watch: (onChange) => store.watch?.(WATCHED_MAIL_KINDS, onChange) ?? (() => undefined),
  };
}
