/**
 * What a worker does with a claim: send, record, go on with the next of the lane. The record is the truth; a worker
 * that dies in between loses its lease, and the delivery goes again with the same id.
 */
import { setTimeout as pause } from "node:timers/promises";
import type {
  AttemptRecord,
  Claim,
  DeliveryStore,
  Finished,
  LeaseTerms,
  Outcome,
} from "../lib/deliveries/delivery.ts";
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import { deliveryContext } from "../lib/domain/account-plan.ts";
import { SignInError, StorageUnavailable } from "../lib/errors.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { Attempt, AttemptResult, AttemptTarget } from "./attempt.ts";
import { createReceiverWatch, type ReceiverWatch } from "./receiver-watch.ts";
import { createTargets, type FindTarget, isUnopened, type TargetDeps, UNOPENED } from "./targets.ts";
import { type Verdict, verdictOf } from "./retry-schedule.ts";

export interface LaneRunDeps extends TargetDeps {
  readonly deliveries: DeliveryStore;
  readonly settings: Pick<NotificationSettings, "retryDelays" | "timeouts" | "breaker">;
  readonly events: ServiceEmitter;
  readonly clock: Clock;
  readonly attempt: Attempt;
  /** Names this worker in its leases. */
  readonly owner: string;
  /** Gives numbers from 0 to 1; default `Math.random`. */
  readonly random?: () => number;
}

export interface LaneRunner {
  /** The terms under which this worker claims. */
  readonly terms: LeaseTerms;
  /**
   * Sends what was claimed, and then the next of the lane as long as it may go. Never rejects.
   * @param turnEnd on the scale of `performance.now()`: until then it may go on to other lanes of the receiver;
   * default: it does not.
   */
  run(claim: Claim, turnEnd?: number): Promise<void>;
  /**
   * Begins nothing more, from the call on; breaks off after `grace` milliseconds what runs then. What was not sent
   * is handed back. May be called again, to wait for what was claimed meanwhile.
   */
  stop(grace: number): Promise<void>;
}

/** How much longer than the attempt a lease is at least: for the way to the storage, there and back. */
const LEASE_MARGIN = 15_000;
/** Milliseconds before a result is recorded again that could not be. */
const RECORD_AGAIN = 250;

/** The context under which an answer is sealed. */
export function answerContext(id: string): string {
  return `answer ${id}`;
}

export const RECEIVER_REMOVED = "receiver_removed";

/** What is to be sent, or what becomes of the delivery without an attempt. */
type Prepared =
  | { readonly target: AttemptTarget; readonly body: string }
  | { readonly outcome: Outcome; readonly paused?: string };

/** What goes to the storage with an outcome. */
interface Made {
  readonly attempt?: AttemptRecord | undefined;
  /** Whether it may go on to another lane of the receiver. */
  readonly onward?: boolean;
}

class Runner implements LaneRunner {
  readonly terms: LeaseTerms;
  readonly #deps: LaneRunDeps;
  readonly #watch: ReceiverWatch;
  readonly #findTarget: FindTarget;
  readonly #running = new Set<Promise<void>>();
  readonly #breakOff = new AbortController();
  #stopping = false;

  constructor(deps: LaneRunDeps) {
    const span = deps.settings.timeouts.total * 1000 + LEASE_MARGIN;
    this.terms = { owner: deps.owner, span, holdAgain: span };
    this.#deps = deps;
    this.#watch = createReceiverWatch(deps);
    this.#findTarget = createTargets(deps);
  }

  async run(claim: Claim, turnEnd = 0): Promise<void> {
    const run = this.#runLanes(claim, turnEnd).catch((error: unknown) => {
      const code = error instanceof SignInError ? error.code : "unexpected";
      this.#deps.events.emit("fault", { where: "notifications", code });
    });
    this.#running.add(run);
    await run;
    this.#running.delete(run);
  }

  async stop(grace: number): Promise<void> {
    this.#stopping = true;
    const timer = setTimeout(() => this.#breakOff.abort(), grace);
    while (this.#running.size > 0) await Promise.all(this.#running);
    clearTimeout(timer);
  }

  async #runLanes(first: Claim, turnEnd: number): Promise<void> {
    for (let claim: Claim | undefined = first; claim !== undefined; claim = await this.#step(claim, turnEnd));
  }

  /** One delivery; the next one that is claimed when it may go now. */
  async #step(claim: Claim, turnEnd: number): Promise<Claim | undefined> {
    const { delivery } = claim;
    const prepared = await this.#prepare(claim);
    // It was claimed in the moment in which this worker was told to stop, and somebody else may have it at once; or
    // this worker stood still since, and somebody else may have it before an attempt is over.
    if (this.#stopping || this.#isLate(claim)) return (await this.#finish(claim, { kind: "kept" })).next;
    if ("outcome" in prepared) {
      if (prepared.paused !== undefined) await this.#watch.paused(delivery.receiver, prepared.paused);
      const { recorded, next } = await this.#finish(claim, prepared.outcome);
      if (recorded) this.#tellParked(claim, prepared.outcome, delivery.attempts);
      return next;
    }
    const { signal } = this.#breakOff;
    const result = await this.#deps.attempt(prepared.target, prepared.body, { id: delivery.id, signal });
    const { settings, random = Math.random } = this.#deps;
    const verdict = verdictOf(result, delivery, { delays: settings.retryDelays, random, signal });
    return this.#record(claim, result, { ...verdict, turnEnd });
  }

  #isLate({ leaseEnd }: Claim): boolean {
    const { settings, clock } = this.#deps;
    return leaseEnd - clock.now() < settings.timeouts.total * 1000;
  }

  async #prepare({ delivery }: Claim): Promise<Prepared> {
    let target;
    try {
      target = await this.#findTarget(delivery.receiver);
    } catch (error) {
      if (!isUnopened(error)) throw error;
      return { outcome: { kind: "kept" }, paused: UNOPENED };
    }
    if (target === undefined) return { outcome: { kind: "parked", reason: RECEIVER_REMOVED } };
    try {
      return { target, body: this.#deps.sealer.open(deliveryContext(delivery.id), delivery.payload ?? "") };
    } catch {
      return { outcome: { kind: "parked", reason: "payload_unreadable" } };
    }
  }

  async #record(
    claim: Claim,
    result: AttemptResult,
    verdict: Verdict & { readonly turnEnd: number },
  ): Promise<Claim | undefined> {
    const { receiver } = claim.delivery;
    const { outcome } = verdict;
    // First, so that nothing else of the receiver is begun.
    if (typeof verdict.receiver === "object") await this.#watch.paused(receiver, verdict.receiver.paused);
    const attempt = verdict.recorded ? this.#toRecord(claim.delivery.id, result) : undefined;
    // A receiver that fails may be held back now: what of it goes next is looked at again.
    const onward = outcome.kind === "delivered" && performance.now() < verdict.turnEnd;
    const { recorded, next } = await this.#finish(claim, outcome, { attempt, onward });
    if (recorded && attempt !== undefined) this.#tell(claim, attempt, outcome);
    if (verdict.receiver === "well") await this.#watch.well(receiver);
    if (verdict.receiver === "failing") await this.#watch.failing(receiver, claim.probe);
    return next;
  }

  #toRecord(id: string, result: AttemptResult): AttemptRecord {
    const { startedAt, duration } = result;
    const { sealer } = this.#deps;
    if (result.kind === "answered") {
      const answer = result.answer === "" ? null : sealer.seal(answerContext(id), result.answer);
      return { startedAt, duration, status: result.status, error: null, answer };
    }
    const error = result.kind === "failed" ? result.code : "refused";
    return { startedAt, duration, status: null, error, answer: null };
  }

  /** Again and again while the lease and the patience of `stop` last: a result that is lost is a repeat for the receiver. */
  async #finish(claim: Claim, outcome: Outcome, { attempt, onward = false }: Made = {}): Promise<Finished> {
    const { deliveries, clock } = this.#deps;
    const end = performance.now() + claim.leaseEnd - clock.now();
    for (;;) {
      try {
        return await deliveries.finish(claim, outcome, {
          ...(attempt && { attempt }),
          ...(!this.#stopping && { lease: this.terms, onward }),
        });
      } catch (error) {
        const over = this.#breakOff.signal.aborted || performance.now() + RECORD_AGAIN > end;
        if (over || !(error instanceof StorageUnavailable)) throw error;
        await pause(RECORD_AGAIN);
      }
    }
  }

  #tell({ delivery }: Claim, { status, error }: AttemptRecord, outcome: Outcome): void {
    const { events, clock } = this.#deps;
    const { id, receiver, sub, type } = delivery;
    const about = { id, receiver, sub, type, attempts: delivery.attempts + 1 };
    if (outcome.kind === "delivered") {
      events.emit("delivery.succeeded", { ...about, status: status ?? 0 });
      return;
    }
    const retryAt = outcome.kind === "retry" ? clock.now() + outcome.after : null;
    events.emit("delivery.failed", { ...about, status, error, retryAt });
    this.#tellParked({ delivery }, outcome, about.attempts);
  }

  #tellParked({ delivery }: Pick<Claim, "delivery">, outcome: Outcome, attempts: number): void {
    if (outcome.kind !== "parked") return;
    const { id, receiver, sub, type } = delivery;
    const { reason } = outcome;
    this.#deps.events.emit("delivery.parked", { id, receiver, sub, type, attempts, reason });
  }
}

export function createLaneRunner(deps: LaneRunDeps): LaneRunner {
  return new Runner(deps);
}
