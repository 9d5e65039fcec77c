/** The callers, which request account changes from two app processes, sometimes of one account from both at once. */
import { setTimeout as pause } from "node:timers/promises";
import type { Answer, Order } from "./app.ts";
import type { Entry } from "./ledger.ts";
import type { Member } from "./member.ts";
import { Person } from "./person.ts";
import type { Random } from "./random.ts";

export interface CallersOptions {
  readonly users: number;
  readonly random: Random;
}

/** Milliseconds between two checks for changes that are due. */
const TICK = 10;
/** The most changes in flight at one process. After a fault the limit is one, and it grows by one with each answer. */
const MOST = 12;
/** Milliseconds before a process that has answered with a fault is asked again. */
const AGAIN = 1000;
/** The share of changes that are requested together with another one of the same user. */
const TOGETHER = 0.2;
/** A few users are changed much more often than others. */
const BUSY = { users: 10, share: 0.2 };

/** A change that was sent and not answered. */
interface Pending {
  readonly person: Person;
  readonly entry: Entry;
  readonly app: Member;
}

export class Callers {
  /** All requested changes, by number. */
  readonly entries: Entry[] = [];
  readonly people: readonly Person[];
  /** How many changes were answered without a fault, and how many were in flight when their process ended. */
  answers = 0;
  unanswered = 0;
  readonly #random: Random;
  readonly #pending = new Map<number, Pending>();
  readonly #atMember = new Map<Member, Set<number>>();
  /** How many changes each process may have, and from when on, on the clock of `performance`. */
  readonly #allowed = new Map<Member, { readonly most: number; readonly from: number }>();

  constructor({ users, random }: CallersOptions) {
    this.people = Array.from({ length: users }, (_, index) => new Person(index, random));
    this.#random = random;
  }

  /** How many changes this process has not answered. */
  inFlight(member: Member): number {
    return this.#atMember.get(member)?.size ?? 0;
  }

  /** How many changes were requested and are no longer in flight. */
  get settled(): number {
    return this.entries.length - this.#pending.size;
  }

  answered({ number, outcome, at }: Answer): void {
    const pending = this.#pending.get(number);
    if (pending === undefined) return;
    pending.entry.outcome = outcome;
    pending.entry.answeredAt = at;
    pending.person.learn(pending.entry.change, outcome);
    const { most, from } = this.#allowanceOf(pending.app);
    const isFault = outcome.kind === "failed";
    if (!isFault) this.answers += 1;
    this.#allowed.set(
      pending.app,
      isFault ? { most: 1, from: performance.now() + AGAIN } : { most: Math.min(MOST, most + 1), from },
    );
    this.#settle(number);
  }

  /** Call it when a process has ended: the outcome of what it has not answered is unknown. */
  gone(member: Member): void {
    this.unanswered += this.inFlight(member);
    for (const number of this.#atMember.get(member) ?? []) this.#settle(number);
  }

  /**
   * Requests this many changes, spread over this many milliseconds in which a process can take one: what was late would
   * come all at once, and be over before the next fault. Resolves when none is in flight.
   */
  async ask(
    apps: readonly Member[],
    plan: { count: number; milliseconds: number; signal: AbortSignal },
  ): Promise<void> {
    const { count, milliseconds, signal } = plan;
    let [passed, before] = [0, performance.now()];
    while (this.entries.length < count) {
      signal.throwIfAborted();
      const [free, now] = [apps.filter((app) => this.#isFree(app)), performance.now()];
      if (free.length > 0) passed += now - before;
      before = now;
      const due = Math.min(1, passed / milliseconds) * count;
      if (this.entries.length >= due || free.length === 0) await pause(TICK);
      else this.#askOnce(free, count);
    }
    while (this.settled < count) {
      signal.throwIfAborted();
      await pause(TICK);
    }
  }

  #allowanceOf(app: Member): { readonly most: number; readonly from: number } {
    return this.#allowed.get(app) ?? { most: MOST, from: 0 };
  }

  #isFree(app: Member): boolean {
    const { most, from } = this.#allowanceOf(app);
    return app.isReady && performance.now() >= from && this.inFlight(app) < most;
  }

  #askOnce(free: readonly Member[], count: number): void {
    const random = this.#random;
    const busy = this.people.slice(0, BUSY.users);
    const person = random.pick(random.chance(BUSY.share) ? busy : this.people);
    const both = free.length > 1 && this.entries.length + 1 < count && random.chance(TOGETHER);
    for (const app of both ? free : [random.pick(free)]) this.#send(app, person);
  }

  #send(app: Member, person: Person): void {
    const number = this.entries.length;
    const change = person.next(number);
    // Recorded before it is sent.
    const entry: Entry = { change, outcome: undefined, askedAt: Date.now() };
    this.entries.push(entry);
    this.#pending.set(number, { person, entry, app });
    const own = this.#atMember.get(app) ?? new Set();
    this.#atMember.set(app, own.add(number));
    const order: Order = { number, change };
    app.send(order);
  }

  #settle(number: number): void {
    this.#pending.delete(number);
    for (const numbers of this.#atMember.values()) numbers.delete(number);
  }
}
