/**
 * The outbox: mail is stored with the change that it is about, and sent later. A worker claims a mail by moving its
 * `due` into the future, on condition that no other worker did. If it dies, the mail becomes due again.
 */
import type { Query } from "../../adapters/record-store.ts";
import type { Sealer } from "../../core/sealing.ts";
import { PAGE, type Records, type Transaction } from "../records.ts";
import { AWAITED_BY_DUE, BY_DUE, HELD, MAIL, REFUSED_MAIL, type StoredMail } from "./mail-kinds.ts";

/** Counts stop here. */
const MOST_COUNTED = 10_000;

/** How much mail waits. */
interface WaitingMail {
  /** At most 10,000. */
  readonly count: number;
  /**
   * When the oldest of the 1,000 that are due first was stored, in milliseconds since the epoch; `undefined` if none
   * waits.
   */
  readonly oldest: number | undefined;
}

/** What the mail server said for good about a mail to an address. */
export interface MailOutcome {
  /** A keyed hash of the address: see {@link recipientHash}. */
  readonly recipient: string;
  /** Why it was refused. Left out: it was accepted. */
  readonly refusal?: string | undefined;
}

/** What {@link MailOutcome} calls an address. @param name in its normal form. */
export const recipientHash = (sealer: Pick<Sealer, "hash">, name: string): string =>
  sealer.hash(JSON.stringify(["mail to", name]));

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Outbox {
  /** Stores a mail that belongs to no account change. A mail about a change is put in the transaction of the change. */
  add(mail: StoredMail): Promise<void>;
  /**
   * Claims due mail: what somebody waits for before notices, and of both the longest due first, one for each recipient
   * in turn. No other worker claims a returned mail until its `due`.
   * @param limit 1 to 1,000.
   * @param recipientOf tells recipients apart. Default: all mail is to one.
   */
  claim(limit: number, leaseMs: number, recipientOf?: (mail: StoredMail) => string): Promise<StoredMail[]>;
  /** Ends a claim: the mail is due again at this time. `false` if another worker has taken it over. */
  postpone(claim: StoredMail, due: number): Promise<boolean>;
  /**
   * Ends a claim: removes the mail. `false` if another worker has taken it over.
   * @param outcome is remembered for the address. Default: nothing is known.
   */
  remove(claim: StoredMail, outcome?: MailOutcome): Promise<boolean>;
  /** Why the last mail to this address was refused, and when in milliseconds since the epoch; `undefined` if it was not. */
  refusal(recipient: string): Promise<{ readonly reason: string; readonly at: number } | undefined>;
  /** When the next mail is due, in milliseconds since the epoch; `undefined` if none waits. */
  nextDue(): Promise<number | undefined>;
  waiting(): Promise<WaitingMail>;
  /** How much mail is held since the storage was restored or promoted. At most 10,000. */
  held(): Promise<number>;
  /** Makes the held mail due. @returns how much it was. */
  release(): Promise<number>;
  /** Calls back soon after any process stored a mail, if the storage can do that. @returns a function that ends it. */
  watch(onChange: () => void): () => void;
}

/** The kinds that {@link Outbox.watch} watches. */
export const WATCHED_MAIL_KINDS: readonly string[] = [MAIL.name];

const HELD_MAIL: Omit<Query, "limit"> = { ...BY_DUE, from: HELD };

/** How many mails are looked at for each that is claimed. */
const CANDIDATES = 20;

/** One mail for each recipient, then the second ones, and so on. */
function inTurn(mails: readonly StoredMail[], recipientOf: (mail: StoredMail) => string): StoredMail[] {
  const seen = new Map<string, number>();
  const rounds: StoredMail[][] = [];
  for (const mail of mails) {
    const recipient = recipientOf(mail);
    const round = seen.get(recipient) ?? 0;
    seen.set(recipient, round + 1);
    (rounds[round] ??= []).push(mail);
  }
  return rounds.flat();
}

/** The other senders wait for new mail, not for what becomes of it. */
const QUIETLY = { quiet: true };

export function createOutbox(records: Records): Outbox {
  const { clock, store } = records;

  /** Ends a claim, unless another worker has taken the mail over. */
  function settle(
    claim: StoredMail,
    act: (tx: Transaction, stored: StoredMail) => void | Promise<void>,
  ): Promise<boolean> {
    return records.transact(async (tx) => {
      const stored = await tx.get(MAIL.ref(claim.id));
      if (stored?.attempts !== claim.attempts || stored.due !== claim.due) return false;
      await act(tx, stored);
      return true;
    }, QUIETLY);
  }

  async function remember(tx: Transaction, { recipient, refusal: reason }: MailOutcome): Promise<void> {
    const before = await tx.get(REFUSED_MAIL.ref(recipient));
    const at = Math.floor(clock.now());
    if (reason !== undefined) tx.put(REFUSED_MAIL.record({ recipient, reason, at }));
    else if (before !== undefined) tx.remove(REFUSED_MAIL.ref(recipient));
  }

  return {
    add: (mail) => records.transact((tx) => tx.overwrite(MAIL.record(mail))),
    claim: (limit, leaseMs, recipientOf = () => "") =>
      records.transact(async (tx) => {
        const now = Math.floor(clock.now());
        const candidates = { to: now, limit: Math.min(PAGE, limit * CANDIDATES) };
        const [awaited = [], due = []] = await tx.list<StoredMail>([
          { ...AWAITED_BY_DUE, ...candidates },
          { ...BY_DUE, ...candidates },
        ]);
        const waitedFor = new Set(awaited.map(({ id }) => id));
        const notices = due.filter(({ id }) => !waitedFor.has(id));
        const next = [...inTurn(awaited, recipientOf), ...inTurn(notices, recipientOf)].slice(0, limit);
        const until = now + leaseMs;
        const claimed = next.map((mail) =>
          Object.assign({}, mail, { due: until, attempts: mail.attempts + 1 }),
        );
        for (const mail of claimed) tx.put(MAIL.record(mail));
        return claimed;
      }, QUIETLY),
    postpone: (claim, due) =>
      settle(claim, (tx, stored) => tx.put(MAIL.record({ ...stored, due: Math.floor(due) }))),
    remove: (claim, outcome) =>
      settle(claim, async (tx) => {
        tx.remove(MAIL.ref(claim.id));
        if (outcome !== undefined) await remember(tx, outcome);
      }),
    refusal: async (recipient) => (await records.find(REFUSED_MAIL.ref(recipient)))?.value,
    async nextDue() {
      const [next] = await records.list<StoredMail>(BY_DUE, 1);
      return next?.value.due;
    },
    async waiting() {
      const [count = 0] = await store.count([{ ...BY_DUE, limit: MOST_COUNTED }]);
      const waiting = await records.list<StoredMail>(BY_DUE, PAGE);
      const oldest =
        waiting.length === 0 ? undefined : Math.min(...waiting.map(({ value }) => value.createdAt));
      return { count, oldest };
    },
    held: async () => (await store.count([{ ...HELD_MAIL, limit: MOST_COUNTED }]))[0] ?? 0,
    async release() {
      let released = 0;
      for (let last = PAGE; last === PAGE; released += last)
        last = await records.transact(async (tx) => {
          const [held = []] = await tx.list<StoredMail>([{ ...HELD_MAIL, limit: PAGE }]);
          for (const mail of held) tx.put(MAIL.record({ ...mail, due: Math.floor(clock.now()) }));
          return held.length;
        });
      return released;
    },
    watch: (onChange) => store.watch?.(WATCHED_MAIL_KINDS, onChange) ?? (() => undefined),
  };
}
