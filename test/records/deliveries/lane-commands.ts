/** What may happen to lanes: each command does it to the real store and to the model, and compares. */
import { expect } from "@jest/globals";
import * as fc from "fast-check";
import type { AttemptRecord, Claim, LeaseTerms, Outcome } from "../../../records/deliveries/delivery.ts";
import { delivery, type Stage, store } from "../rules/stage.ts";
import type { LaneModel } from "./lane-model.ts";

export const SPAN = 30_000;
export const lease = (owner: string): LeaseTerms => ({ owner, span: SPAN });
export const attempt: AttemptRecord = { startedAt: 0, duration: 1, status: 500, error: null, answer: null };

/** The lanes of the model: two users at one receiver, one at another. */
export const LANES: readonly [string, string, string] = ["r1/a", "r1/b", "r2/a"];
export const keyOf = (lane: string): { receiver: string; sub: string } => ({
  receiver: lane.split("/")[0] ?? "",
  sub: lane.split("/")[1] ?? "",
});

export interface Model {
  readonly lanes: Readonly<Record<string, LaneModel>>;
  readonly paused: Set<string>;
  now: number;
  stored: number;
}

export interface Real extends Stage {
  /** Claims that their workers have not finished: those of killed ones stay here and are used late. */
  readonly claims: { readonly lane: string; readonly claim: Claim }[];
}

type Command = fc.AsyncCommand<Model, Real>;

class Add implements Command {
  readonly lane: string;
  constructor(lane: string) {
    this.lane = lane;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    model.stored += 1;
    const id = `d${model.stored}`;
    const { receiver, sub } = keyOf(this.lane);
    await store(real, delivery(id, sub, receiver));
    model.lanes[this.lane]?.add(id, model.now);
  }
  toString = () => `add to ${this.lane}`;
}

/** The lanes of a receiver with a delivery that a worker may claim now. */
const claimableLanes = (model: Model, receiver: string): string[] =>
  LANES.filter(
    (lane) =>
      keyOf(lane).receiver === receiver &&
      !model.paused.has(receiver) &&
      model.lanes[lane]?.claimable(model.now) !== undefined,
  );

/** Two workers ask at once: each lane is given to one of them at most, and only its head. */
class ClaimAll implements Command {
  readonly receiver: string;
  constructor(receiver: string) {
    this.receiver = receiver;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    const { deliveries } = real.storage;
    const asked = await Promise.all(
      ["one", "two"].map((name) => deliveries.claimDue(this.receiver, 9, lease(name))),
    );
    const given = asked.flat();
    expect(given.map(({ delivery: { receiver, sub } }) => `${receiver}/${sub}`).toSorted()).toEqual(
      claimableLanes(model, this.receiver),
    );
    for (const claim of given) {
      const lane = `${this.receiver}/${claim.delivery.sub}`;
      const wanted = model.lanes[lane]?.claim(model.now, SPAN, claim.fence);
      expect({ id: claim.delivery.id, fence: claim.fence, end: claim.leaseEnd }).toEqual(wanted);
      real.claims.push({ lane, claim });
    }
  }
  toString = () => `claim all of ${this.receiver}`;
}

/** A worker asks for one delivery: it gets the head of a lane if one is due. */
class ClaimOne implements Command {
  readonly receiver: string;
  constructor(receiver: string) {
    this.receiver = receiver;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    const claimable = claimableLanes(model, this.receiver);
    const claims = await real.storage.deliveries.claimDue(this.receiver, 1, lease("one"));
    expect(claims).toHaveLength(Math.min(1, claimable.length));
    for (const claim of claims) {
      const lane = `${this.receiver}/${claim.delivery.sub}`;
      expect(claimable).toContain(lane);
      const wanted = model.lanes[lane]?.claim(model.now, SPAN, claim.fence);
      expect({ id: claim.delivery.id, fence: claim.fence, end: claim.leaseEnd }).toEqual(wanted);
      real.claims.push({ lane, claim });
    }
  }
  toString = () => `claim one of ${this.receiver}`;
}

/** Whether a worker goes on: with the next of its lane, or else with one of another lane of the receiver. */
type GoingOn = "stops" | "in its lane" | "at its receiver";

/** A worker says what became of its claim, in time or late, and may go on. */
class Finish implements Command {
  readonly which: number;
  readonly kind: Outcome["kind"];
  readonly goOn: GoingOn;
  constructor(which: number, kind: Outcome["kind"], goOn: GoingOn) {
    this.which = which;
    this.kind = kind;
    this.goOn = goOn;
  }
  check = (_model: Readonly<Model>) => true;
  async run(model: Model, real: Real): Promise<void> {
    const held = real.claims.splice(this.which % Math.max(1, real.claims.length), 1)[0];
    if (held === undefined) return;
    const lane = model.lanes[held.lane];
    if (lane === undefined) throw new Error("no lane");
    const holds = lane.holds(held.claim);
    const outcome: Outcome =
      this.kind === "retry"
        ? { kind: "retry", after: 7000 }
        : this.kind === "parked"
          ? { kind: "parked", reason: "x" }
          : { kind: this.kind };
    const result = await real.storage.deliveries.finish(held.claim, outcome, {
      attempt,
      ...(this.goOn !== "stops" && {
        lease: lease("one"),
        claimFrom: this.goOn === "at its receiver" ? "receiver" : "lane",
      }),
    });
    expect(result.recorded).toBe(holds);
    if (holds) lane.finish(outcome.kind === "retry" ? { dueAt: model.now + 7000 } : outcome.kind);
    const own = holds && this.goOn !== "stops" ? this.due(model, held.lane) : [];
    const others =
      holds && this.goOn === "at its receiver"
        ? this.due(model, ...LANES).filter((name) => keyOf(name).receiver === keyOf(held.lane).receiver)
        : [];
    const { next } = result;
    const gone = next && `${next.delivery.receiver}/${next.delivery.sub}`;
    if (own.length > 0) expect(gone).toBe(held.lane);
    // Heads are read ahead: there may be one that it does not know of.
    else if (gone !== undefined) expect(others).toContain(gone);
    if (next === undefined || gone === undefined) return;
    expect(next.delivery.id).toBe(model.lanes[gone]?.claim(model.now, SPAN, next.fence).id);
    real.claims.push({ lane: gone, claim: next });
  }
  /** Those lanes of which the next may be claimed by whoever has sent to this receiver. */
  due(model: Model, ...lanes: readonly string[]): readonly string[] {
    const mayGo = (name: string): boolean => model.lanes[name]?.claimable(model.now) !== undefined;
    return lanes.filter((name) => !model.paused.has(keyOf(name).receiver) && mayGo(name));
  }
  toString = () => `finish ${this.which} as ${this.kind}, ${this.goOn}`;
}

class Wait implements Command {
  readonly span: number;
  constructor(span: number) {
    this.span = span;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    real.clock.advance(this.span);
    model.now += this.span;
  }
  toString = () => `wait ${this.span}`;
}

class Pause implements Command {
  readonly paused: boolean;
  constructor(paused: boolean) {
    this.paused = paused;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    const { paused } = this;
    await real.storage.deliveries.changeReceiver("r1", (state) => ({ ...state, paused }));
    if (paused) model.paused.add("r1");
    else model.paused.delete("r1");
  }
  toString = () => (this.paused ? "pause" : "resume");
}

class ByHand implements Command {
  readonly which: number;
  readonly action: "redrive" | "force" | "discard";
  constructor(which: number, action: "redrive" | "force" | "discard") {
    this.which = which;
    this.action = action;
  }
  check = (model: Readonly<Model>) => model.stored > 0;
  async run(model: Model, real: Real): Promise<void> {
    const id = `d${(this.which % model.stored) + 1}`;
    const lane = Object.values(model.lanes).find((each) => each.entries.some((entry) => entry.id === id));
    const entry = lane?.entries.find((each) => each.id === id);
    if (lane === undefined || entry === undefined) throw new Error("no delivery");
    const { deliveries } = real.storage;
    if (this.action === "discard") {
      const open = entry.state === "waiting" || entry.state === "parked";
      expect(await deliveries.discard(id, "by_hand")).toBe(open);
      if (open) entry.state = "discarded";
      return;
    }
    const supersedable = this.action === "force" ? [] : ["PROFILE_CHANGED"];
    const result = (await deliveries.redrive([id], { supersedable })).get(id);
    const passed = this.action === "redrive" && lane.isPassed(entry, model.now);
    expect(result).toBe(entry.state === "waiting" ? "waiting" : passed ? "superseded" : "redriven");
    if (result !== "redriven") return;
    entry.state = "waiting";
    // What comes behind it waits for it alone.
    for (const each of lane.entries) if (each.sequence >= entry.sequence) each.dueAt = 0;
  }
  toString = () => `${this.action} ${this.which}`;
}

const kinds = fc.constantFrom<Outcome["kind"]>("delivered", "retry", "parked", "kept");
const goingOn = fc.constantFrom<GoingOn>("stops", "in its lane", "at its receiver");
export const laneCommands: fc.Arbitrary<Iterable<Command>> = fc.commands(
  [
    fc.constantFrom(...LANES).map((lane) => new Add(lane)),
    fc.constantFrom("r1", "r2").map((receiver) => new ClaimOne(receiver)),
    fc.constantFrom("r1", "r2").map((receiver) => new ClaimAll(receiver)),
    fc.tuple(fc.nat(5), kinds, goingOn).map((all) => new Finish(...all)),
    fc.constantFrom(1, 6999, 7000, SPAN - 1, SPAN).map((span) => new Wait(span)),
    fc.boolean().map((paused) => new Pause(paused)),
    fc
      .tuple(fc.nat(20), fc.constantFrom<"redrive" | "force" | "discard">("redrive", "force", "discard"))
      .map((all) => new ByHand(...all)),
  ],
  { maxCommands: 60, size: "max" },
);
