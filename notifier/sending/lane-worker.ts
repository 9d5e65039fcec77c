/**
 * What a worker does with a claim: send, record the result, and go on with the next delivery of the lane. The record is
 * the source of truth: a worker that dies in between loses its lease, and the delivery is sent again with the same id.
 */
import { setTimeout as pause } from "node:timers/promises";
import {
  type AttemptRecord,
  type Claim,
  failureOf,
  type Finished,
  type FinishOptions,
  type LeaseTerms,
  type Outcome,
  TOO_LATE,
} from "../../records/deliveries/delivery.ts";
import { answerContext, deliveryContext } from "../../records/deliveries/delivery-kinds.ts";
import { inSeconds } from "../../core/clock.ts";
import { SignInError, StorageUnavailable } from "../../core/errors.ts";
import type { AttemptResult, AttemptTarget } from "./deliver.ts";
import { NO_KEY } from "../receivers.ts";
import { type Verdict, verdictOf } from "../retry-schedule.ts";
import type { NotifierServices } from "../services.ts";

/** How much longer than an attempt a lease lasts: time for the round trips to the storage. */
const LEASE_MARGIN_MS = 15_000;
const RECORD_RETRY_MS = 250;

/** The reason of a delivery whose receiver is no longer configured. */
export const RECEIVER_REMOVED = "receiver_removed";

/** What to send, or the outcome of a delivery that needs no attempt. */
type Prepared =
  | { readonly target: AttemptTarget; readonly body: string }
  | { readonly outcome: Outcome; readonly paused?: string };

type Services = Pick<
  NotifierServices,
  "configuration" | "clock" | "storage" | "sealer" | "events" | "receivers" | "deliverer"
>;

export class LaneWorker {
  /** The terms under which this worker claims. */
  readonly lease: LeaseTerms;
  readonly #services: Services;
  readonly #random: () => number;
  readonly #attemptTimeoutMs: number;
  readonly #running = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #stopping = false;

  /**
   * @param owner identifies this worker in its leases.
   * @param random returns numbers from 0 to 1.
   */
  constructor(services: Services, owner: string, random: () => number = Math.random) {
    this.#attemptTimeoutMs = services.configuration.notifications.timeouts.total * 1000;
    const span = this.#attemptTimeoutMs + LEASE_MARGIN_MS;
    this.lease = { owner, span };
    this.#services = services;
    this.#random = random;
  }

  /**
   * Sends a claimed delivery, and then the next of the lane for as long as one is due. Never rejects.
   * @param sliceEnd on the scale of `performance.now()`: until then the worker may go on to other lanes of the
   * receiver. By default it does not.
   */
  async run(claim: Claim, sliceEnd = 0): Promise<void> {
    const run = this.#runLanes(claim, sliceEnd).catch((error: unknown) => {
      const code = error instanceof SignInError ? error.code : "unexpected";
      this.#services.events.emit("fault", { where: "notifications", code });
    });
    this.#running.add(run);
    await run;
    this.#running.delete(run);
  }

  /**
   * Starts nothing more from the call on, and aborts after `grace` milliseconds whatever still runs. Deliveries that
   * were not sent are handed back. Call it again to wait for deliveries that were claimed in the meantime.
   */
  async stop(grace: number): Promise<void> {
    this.#stopping = true;
    const timer = setTimeout(() => this.#abort.abort(), grace);
    while (this.#running.size > 0) await Promise.all(this.#running);
    clearTimeout(timer);
  }

  async #runLanes(first: Claim, sliceEnd: number): Promise<void> {
    for (
      let claim: Claim | undefined = first;
      claim !== undefined;
      claim = await this.#step(claim, sliceEnd)
    );
  }

  /** Handles one delivery. @returns the claim of the next one if it may be sent now. */
  async #step(claim: Claim, sliceEnd: number): Promise<Claim | undefined> {
    const { delivery } = claim;
    const { deliverer, receivers, configuration } = this.#services;
    const prepared = await this.#prepare(claim);
    // Hand it back if the worker was stopped just after the claim, so that another can claim it immediately. Also if
    // the process was suspended for so long that the lease could end during the attempt.
    if (this.#stopping || this.#isLate(claim)) return (await this.#finish(claim, { kind: "kept" })).next;
    if ("outcome" in prepared) {
      if (prepared.paused !== undefined)
        await receivers.pauseFailed(delivery.receiver, prepared.paused, null);
      const { recorded, next } = await this.#finish(claim, prepared.outcome);
      if (recorded) this.#emitParked(claim, prepared.outcome, delivery.attempts);
      return next;
    }
    const { signal } = this.#abort;
    const result = await deliverer.attempt(prepared.target, prepared.body, { id: delivery.id, signal });
    const verdict = verdictOf(result, delivery, {
      delays: configuration.notifications.retryDelays,
      random: this.#random,
      signal,
      now: this.#services.clock.now(),
    });
    return this.#record(claim, result, { ...verdict, sliceEnd });
  }

  #isLate({ leaseEnd }: Claim): boolean {
    return leaseEnd - this.#services.clock.now() < this.#attemptTimeoutMs;
  }

  async #prepare({ delivery }: Claim): Promise<Prepared> {
    const { receivers, sealer, clock } = this.#services;
    if ((delivery.until ?? Infinity) <= clock.now()) return { outcome: { kind: "parked", reason: TOO_LATE } };
    const target = await receivers.target(delivery.receiver);
    if (target === "no key") return { outcome: { kind: "kept" }, paused: NO_KEY };
    if (target === "not configured") return { outcome: { kind: "parked", reason: RECEIVER_REMOVED } };
    try {
      return { target, body: sealer.open(deliveryContext(delivery.id), delivery.payload ?? "") };
    } catch {
      return { outcome: { kind: "parked", reason: "payload_unreadable" } };
    }
  }

  async #record(
    claim: Claim,
    result: AttemptResult,
    verdict: Verdict & { readonly sliceEnd: number },
  ): Promise<Claim | undefined> {
    const { receivers } = this.#services;
    const { receiver } = claim.delivery;
    const { outcome } = verdict;
    const attempt = verdict.recorded ? this.#toRecord(claim.delivery.id, result) : undefined;
    const error = attempt === undefined ? null : failureOf(attempt);
    // Pause the receiver first, so that nothing else is sent to it.
    if (typeof verdict.receiver === "object")
      await receivers.pauseFailed(receiver, verdict.receiver.paused, error);
    // After a failure the circuit may be open, so the scheduler decides what comes next.
    const goesOn = outcome.kind === "delivered" && performance.now() < verdict.sliceEnd;
    const finished = await this.#finish(claim, outcome, {
      ...(attempt && { attempt }),
      claimFrom: goesOn ? "receiver" : "lane",
    });
    const { recorded, next } = finished;
    if (recorded && attempt !== undefined) this.#emitResult(claim, attempt, outcome);
    if (verdict.receiver === "well") await receivers.recordSuccess(receiver, finished.receiver);
    if (verdict.receiver === "failing")
      await receivers.recordFailure(receiver, { probe: claim.probe, error });
    return next;
  }

  #toRecord(id: string, result: AttemptResult): AttemptRecord {
    const { startedAt, duration } = result;
    if (result.kind === "answered") {
      const { sealer } = this.#services;
      const answer = result.answer === "" ? null : sealer.seal(answerContext(id), result.answer);
      return { startedAt, duration, status: result.status, error: null, answer };
    }
    const error = result.kind === "failed" ? result.code : "refused";
    return { startedAt, duration, status: null, error, answer: null };
  }

  /**
   * Records an outcome and claims the next delivery, unless the worker stops. Retries while the lease and the grace
   * period of `stop` last, because a delivery whose result is lost is sent again.
   */
  async #finish(
    claim: Claim,
    outcome: Outcome,
    options: Omit<FinishOptions, "lease"> = {},
  ): Promise<Finished> {
    const { storage, clock } = this.#services;
    const end = performance.now() + claim.leaseEnd - clock.now();
    for (;;) {
      try {
        return await storage.deliveries.finish(claim, outcome, {
          ...options,
          ...(!this.#stopping && { lease: this.lease }),
        });
      } catch (error) {
        const over = this.#abort.signal.aborted || performance.now() + RECORD_RETRY_MS > end;
        if (over || !(error instanceof StorageUnavailable)) throw error;
        await pause(RECORD_RETRY_MS);
      }
    }
  }

  #emitResult({ delivery }: Claim, { status, error }: AttemptRecord, outcome: Outcome): void {
    const { events, clock } = this.#services;
    const { id, receiver, sub, type } = delivery;
    const about = { id, receiver, sub, type, attempts: delivery.attempts + 1 };
    if (outcome.kind === "delivered") {
      events.emit("delivery.succeeded", { ...about, status: status ?? 0 });
      return;
    }
    const retry_at = inSeconds(outcome.kind === "retry" ? clock.now() + outcome.after : null);
    events.emit("delivery.failed", { ...about, status, error, retry_at });
    this.#emitParked({ delivery }, outcome, about.attempts);
  }

  #emitParked({ delivery }: Pick<Claim, "delivery">, outcome: Outcome, attempts: number): void {
    if (outcome.kind !== "parked") return;
    const { id, receiver, sub, type, until } = delivery;
    const { reason } = outcome;
    const { events } = this.#services;
    if (until === undefined) events.emit("delivery.parked", { id, receiver, sub, type, attempts, reason });
    else events.emit("delivery.dropped", { receiver, reason, number: 1 });
  }
}
