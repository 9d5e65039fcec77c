/**
 * The circuit breaker of each receiver. After several failures in a row a receiver is held back, and one delivery at a
 * time probes it. The first success makes every delivery due that failed before. Specification: `decisions.md`, "A
 * receiver that fails".
 */
import {
  type DeliveryStore,
  type ReceiverState,
  untouchedReceiver,
} from "../../records/deliveries/delivery.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import type { Clock } from "../../core/clock.ts";
import type { ServiceEmitter } from "../../core/events.ts";

/** The state after a failed attempt. `probe`: the attempt was made while the receiver was held back. */
export function afterFailure(
  state: ReceiverState,
  settings: NotificationSettings["breaker"],
  { now, probe }: { readonly now: number; readonly probe: boolean },
): ReceiverState {
  const failures = state.failures + 1;
  const held = state.heldUntil !== null;
  // Attempts that were in flight when the hold began say nothing new.
  if (held ? !probe : failures < settings.failures) return { ...state, failures };
  const span = held ? state.holdSpan : settings.probe * 1000;
  const holdSpan = Math.min(span * 2, settings.longestProbe * 1000);
  return { ...state, failures, heldUntil: now + span, holdSpan };
}

/** The state after a success; `undefined` when the receiver was well before. */
export function afterSuccess(state: ReceiverState, now: number): ReceiverState | undefined {
  const held = state.heldUntil !== null;
  if (!held && state.failures === 0) return undefined;
  return {
    ...state,
    failures: 0,
    heldUntil: null,
    holdSpan: 0,
    releaseUntil: held ? now : state.releaseUntil,
  };
}

/** Nothing is sent until `afterResume`. A paused receiver keeps its first reason. */
export function afterPause(state: ReceiverState, reason: string): ReceiverState | undefined {
  return state.paused ? undefined : { ...state, paused: true, reason };
}

/** An operator resumes the receiver: everything that waits is due, whatever held it back. */
export function afterResume(now: number): ReceiverState {
  return { ...untouchedReceiver, releaseUntil: now };
}

/** Lanes that become due in one step, so that other requests to the storage don't wait long. */
const STEP = 500;

/** Records what attempts and operators say about a receiver, and emits the events. */
export class CircuitBreaker {
  readonly #deliveries: Pick<DeliveryStore, "receiver" | "changeReceiver" | "releaseHeld">;
  readonly #settings: NotificationSettings["breaker"];
  readonly #events: ServiceEmitter;
  readonly #clock: Clock;

  constructor(
    deliveries: Pick<DeliveryStore, "receiver" | "changeReceiver" | "releaseHeld">,
    settings: NotificationSettings["breaker"],
    events: ServiceEmitter,
    clock: Clock,
  ) {
    this.#deliveries = deliveries;
    this.#settings = settings;
    this.#events = events;
    this.#clock = clock;
  }

  async recordSuccess(receiver: string): Promise<void> {
    // Read first: most receivers are well and stay so, and then nothing is written.
    const now = this.#clock.now();
    if (afterSuccess(await this.#deliveries.receiver(receiver), now) === undefined) return;
    const { before } = await this.#deliveries.changeReceiver(receiver, (state) => afterSuccess(state, now));
    if (before.heldUntil === null) return;
    this.#events.emit("receiver.recovered", { receiver });
    await this.release(receiver);
  }

  async recordFailure(receiver: string, { probe }: { readonly probe: boolean }): Promise<void> {
    const now = this.#clock.now();
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      afterFailure(state, this.#settings, { now, probe }),
    );
    if (before.heldUntil === null && after.heldUntil !== null) {
      this.#events.emit("receiver.held", { receiver, until: after.heldUntil });
    }
  }

  /** @param reason for operators. @returns `false` when the receiver was paused already. */
  async pause(receiver: string, reason: string): Promise<boolean> {
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      afterPause(state, reason),
    );
    if (before === after || before.paused) return false;
    this.#events.emit("receiver.paused", { receiver, reason });
    return true;
  }

  /**
   * @param reason resumes it only if it is paused for this reason. Default: always.
   * @returns `false` when the receiver was neither paused nor held back.
   */
  async resume(receiver: string, reason?: string): Promise<boolean> {
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      reason === undefined || state.reason === reason ? afterResume(this.#clock.now()) : undefined,
    );
    if (before === after) return false;
    await this.release(receiver);
    const wasStopped = before.paused || before.heldUntil !== null;
    if (wasStopped) this.#events.emit("receiver.resumed", { receiver });
    return wasStopped;
  }

  /** Makes everything due that failed before the receiver recovered. */
  async release(receiver: string): Promise<void> {
    while ((await this.#deliveries.releaseHeld(receiver, STEP)) === STEP);
  }
}
