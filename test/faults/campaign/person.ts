/** A user of a campaign: what callers believe about the account, and what they request next. */
import type { AccountChanges } from "../../../lib/index.ts";
import type { Change, Known, Outcome, Services } from "./change.ts";
import { PORTALS, SERVICE_KEYS } from "./directory.ts";
import type { Random } from "./random.ts";

/** How often each kind of change is requested for an existing account: kind → share. */
const SHARES = { update: 50, assign: 16, unassign: 18, delete: 10, move: 6 } as const;
type Kind = keyof typeof SHARES;

const DRAWN: readonly Kind[] = (Object.keys(SHARES) as Kind[]).flatMap((kind) =>
  Array.from({ length: SHARES[kind] }, () => kind),
);

const DAY = 24 * 60 * 60 * 1000;
const FIRST_DAY = Date.UTC(1900, 0, 1);

/** Values that no other change writes: `number` is that of the change. */
const VALUES: Readonly<Record<string, (user: number, number: number) => string>> = {
  email: (user, number) => `user${user}.${number}@example.com`,
  username: (user, number) => `user${user}.${number}`,
  name: (_user, number) => `Name ${number}`,
  surname: (_user, number) => `Żółć "${number}"`,
  date_of_birth: (_user, number) => new Date(FIRST_DAY + number * DAY).toISOString().slice(0, 10),
  gender: (_user, number) => `gender ${number}`,
};
const FIELDS = Object.keys(VALUES);

export class Person {
  readonly #index: number;
  readonly #random: Random;
  #known: Known | undefined;
  /** The last identifier that the account had. */
  #sub: string | undefined;

  constructor(index: number, random: Random) {
    this.#index = index;
    this.#random = random;
  }

  /** The account with which the campaign begins. */
  first(number: number): Extract<Change, { readonly kind: "import" }> {
    return this.#import(this.#random.uuid(), `user${this.#index}@example.com`, number);
  }

  /** @param number of the change; no other change has it. */
  next(number: number): Change {
    if (this.#known === undefined) return this.#comeBack(number);
    const { sub, services } = this.#known;
    const random = this.#random;
    const kind = random.pick(DRAWN);
    if (kind === "update") return { kind, sub, changes: this.#profile(number) };
    if (kind === "delete") return { kind, sub };
    if (kind === "move") return { kind, sub, portal: random.pick([...PORTALS, null]) };
    const assigned = Object.keys(services);
    if (kind === "assign" || assigned.length === 0) {
      return { kind: "assign", sub, service: random.pick(SERVICE_KEYS), number };
    }
    const leaving = assigned.filter(() => random.chance(0.4));
    return { kind, sub, services: leaving.length === 0 ? [random.pick(assigned)] : leaving };
  }

  /** Records what a caller has learned. Without an outcome, nothing is believed to have changed. */
  learn(change: Change, outcome: Outcome): void {
    if (outcome.kind === "failed") return;
    if (outcome.account !== undefined) this.#know(outcome.account);
    else if (outcome.kind === "done" || outcome.code === "not_found") this.#forget(change);
    // The identifier is taken: try another one.
    else if (outcome.code === "already_exists") this.#sub = undefined;
  }

  #know(account: Known): void {
    this.#known = account;
    this.#sub = account.sub;
  }

  #forget(change: Change): void {
    if (!("sub" in change) || change.sub === this.#known?.sub) this.#known = undefined;
  }

  /** Creates a deleted account again, with a new identifier or with its old one. */
  #comeBack(number: number): Change {
    const random = this.#random;
    const own = random.chance(0.6);
    const email = own ? `user${this.#index}@example.com` : `user${this.#index}.${number}@example.com`;
    if (random.chance(0.3)) return { kind: "create", email, portal: random.pick([...PORTALS, null]) };
    const sub = this.#sub !== undefined && random.chance(0.5) ? this.#sub : random.uuid();
    return this.#import(sub, email, number);
  }

  #import(sub: string, email: string, number: number): Extract<Change, { readonly kind: "import" }> {
    const random = this.#random;
    const keys = SERVICE_KEYS.filter(() => random.chance(0.6));
    const services: Services = Object.fromEntries(
      keys.map((key) => [key, random.chance(0.2) ? null : number * 10 + Number(key)]),
    );
    return { kind: "import", sub, email, portal: random.pick([...PORTALS, null]), services };
  }

  #profile(number: number): AccountChanges {
    const random = this.#random;
    const some = FIELDS.filter(() => random.chance(0.2));
    const fields = some.length === 0 ? [random.pick(FIELDS)] : some;
    return Object.fromEntries(fields.map((field) => [field, VALUES[field]?.(this.#index, number)]));
  }
}
