/**
 * The circuit breaker of each receiver. After several failures in a row its circuit is open, and one delivery at a
 * time probes it. The first success makes every delivery due that failed before. Specification: `decisions.md`, "A
 * receiver that fails".
 */
import {
  type DeliveryStore,
  failureOf,
  type ReceiverState,
  untouchedReceiver,
} from "../../records/deliveries/delivery.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import { type Clock, inSeconds } from "../../core/clock.ts";
import type { ServiceEmitter } from "../../core/events.ts";
import type { StorageServices } from "../../records/services.ts";

/** The state after a failed attempt. `probe`: the attempt was made while the circuit was open. */
export function afterFailure(
  state: ReceiverState,
  settings: NotificationSettings["breaker"],
  { now, probe, error }: { readonly now: number; readonly probe: boolean; readonly error: string | null },
): ReceiverState {
  const failures = state.failures + 1;
  const failed = { ...state, failures, failingSince: state.failingSince ?? now, lastError: error };
  const isOpen = state.circuitOpenUntil !== null;
  // Attempts that were in flight when the circuit opened say nothing new.
  if (isOpen ? !probe : failures < settings.failures) return failed;
  const span = isOpen ? state.openSpan : settings.probe * 1000;
  const openSpan = Math.min(span * 2, settings.longestProbe * 1000);
  return { ...failed, circuitOpenUntil: now + span, openSpan };
}

/** The state after a success; `undefined` when the receiver was well before. */
export function afterSuccess(state: ReceiverState, now: number): ReceiverState | undefined {
  const isOpen = state.circuitOpenUntil !== null;
  if (!isOpen && state.failingSince === null) return undefined;
  return {
    ...state,
    failures: 0,
    failingSince: null,
    lastError: null,
    circuitOpenUntil: null,
    openSpan: 0,
    releaseUntil: isOpen ? now : state.releaseUntil,
  };
}

/** Why a receiver is paused. Without `failed`, an operator paused it, and it may work. */
export interface PauseReason {
  /** For operators. */
  readonly reason: string;
  /** When nothing could be sent, and how the attempt failed if one was made. */
  readonly failed?: { readonly now: number; readonly error: string | null };
}

/** Nothing is sent until `afterResume`. A paused receiver keeps its first reason. */
export function afterPause(state: ReceiverState, { reason, failed }: PauseReason): ReceiverState | undefined {
  if (state.paused) return undefined;
  if (failed === undefined) return { ...state, paused: true, reason };
  const failingSince = state.failingSince ?? failed.now;
  return { ...state, paused: true, reason, failingSince, lastError: failed.error };
}

/**
 * An operator resumes the receiver: everything that waits is due, whatever stopped it. That it failed stays known until
 * its first success.
 */
export function afterResume({ failingSince, lastError }: ReceiverState, now: number): ReceiverState {
  return { ...untouchedReceiver, failingSince, lastError, releaseUntil: now };
}

/** Lanes that become due in one step, so that other requests to the storage don't wait long. */
const STEP = 500;

/** Records what attempts and operators say about a receiver, and emits the events. */
export class CircuitBreaker {
  readonly #deliveries: DeliveryStore;
  readonly #settings: NotificationSettings["breaker"];
  readonly #events: ServiceEmitter;
  readonly #clock: Clock;

  constructor({
    storage,
    configuration,
    events,
    clock,
  }: Pick<StorageServices, "storage" | "configuration" | "events" | "clock">) {
    this.#deliveries = storage.deliveries;
    this.#settings = configuration.notifications.breaker;
    this.#events = events;
    this.#clock = clock;
  }

  /** @param known the state of the receiver, if it has just been read. */
  async recordSuccess(receiver: string, known?: ReceiverState): Promise<void> {
    // Read first: most receivers are well and stay so, and then nothing is written.
    const now = this.#clock.now();
    if (afterSuccess(known ?? (await this.#deliveries.receiver(receiver)), now) === undefined) return;
    const { before } = await this.#deliveries.changeReceiver(receiver, (state) => afterSuccess(state, now));
    const { failures, failingSince, circuitOpenUntil } = before;
    if (failingSince !== null)
      this.#events.emit("receiver.recovered", { receiver, failures, failing_since: inSeconds(failingSince) });
    if (circuitOpenUntil !== null) await this.release(receiver);
  }

  async recordFailure(
    receiver: string,
    failure: { readonly probe: boolean; readonly error: string | null },
  ): Promise<void> {
    const now = this.#clock.now();
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      afterFailure(state, this.#settings, { now, ...failure }),
    );
    if (before.failingSince === null)
      this.#events.emit("receiver.failing", { receiver, error: failure.error });
    if (before.circuitOpenUntil === null && after.circuitOpenUntil !== null) {
      this.#events.emit("receiver.circuit_opened", {
        receiver,
        circuit_open_until: inSeconds(after.circuitOpenUntil),
      });
    }
  }

  /** An operator pauses the receiver. @returns `false` when it was paused already. */
  pause(receiver: string, reason: string): Promise<boolean> {
    return this.#pause(receiver, { reason });
  }

  /** Nothing can be sent to the receiver. @param error how the attempt failed; `null` if none was made. */
  async pauseFailed(receiver: string, reason: string, error: string | null): Promise<void> {
    await this.#pause(receiver, { reason, failed: { now: this.#clock.now(), error } });
  }

  async #pause(receiver: string, why: PauseReason): Promise<boolean> {
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      afterPause(state, why),
    );
    if (before === after || before.paused) return false;
    const by_operator = why.failed === undefined;
    this.#events.emit("receiver.paused", { receiver, reason: why.reason, by_operator });
    return true;
  }

  /**
   * @param reason resumes it only if it is paused for this reason. Default: always.
   * @returns `false` when nothing was stopped: the receiver was not paused, its circuit was closed, and no delivery waited for
   * its next attempt.
   */
  async resume(receiver: string, reason?: string): Promise<boolean> {
    const { before, after } = await this.#deliveries.changeReceiver(receiver, (state) =>
      reason === undefined || state.reason === reason ? afterResume(state, this.#clock.now()) : undefined,
    );
    if (before === after) return false;
    const released = await this.release(receiver);
    const wasStopped = before.paused || before.circuitOpenUntil !== null;
    if (wasStopped) this.#events.emit("receiver.resumed", { receiver });
    return wasStopped || released > 0;
  }

  /** Makes everything due that failed before the receiver recovered. @returns how many deliveries. */
  async release(receiver: string): Promise<number> {
    for (let released = 0; ;) {
      const step = await this.#deliveries.releaseFailed(receiver, STEP);
      released += step;
      if (step < STEP) return released;
    }
  }
}

/** Between two log lines that a receiver fails. */
const LOG_INTERVAL_MS = 60_000;

/**
 * Logs receivers in few lines: one when a receiver begins to fail, one when its circuit opens, or it is paused because nothing can be
 * sent to it, and one when it works again. One that fails and works by turns is logged at most once a minute.
 */
export function logReceivers({
  events,
  logger,
  clock,
}: Pick<StorageServices, "events" | "logger" | "clock">): void {
  const logged = new Map<string, { at: number; isQuiet: boolean }>();

  function begins(receiver: string, detail: object, text: string): void {
    const now = clock.now();
    const last = logged.get(receiver);
    // The absolute difference, because the clock may be set back.
    const isQuiet = last !== undefined && Math.abs(now - last.at) < LOG_INTERVAL_MS;
    logged.set(receiver, { at: isQuiet ? last.at : now, isQuiet });
    if (!isQuiet) logger.warn({ receiver, ...detail }, text);
  }

  function fails(receiver: string, error: string | null): void {
    begins(
      receiver,
      { error },
      "a receiver of notifications fails; they are tried again until it accepts them",
    );
  }

  events.on("receiver.failing", ({ receiver, error }) => fails(receiver, error));
  events.on("delivery.failed", ({ receiver, status, error }) => {
    if (logged.get(receiver)?.isQuiet === true) fails(receiver, failureOf({ status, error }));
  });
  events.on("receiver.circuit_opened", ({ receiver, circuit_open_until }) => {
    if (logged.get(receiver)?.isQuiet === true) return;
    const text =
      "the circuit of a receiver of notifications is open; one delivery is tried from time to time until it accepts one";
    logger.warn({ receiver, until: new Date(circuit_open_until * 1000).toISOString() }, text);
  });
  events.on("receiver.paused", ({ receiver, reason, by_operator }) => {
    // The audit has what operators do; their reason is text that somebody typed.
    if (by_operator) return;
    logged.delete(receiver);
    const text = "a receiver of notifications is paused; they wait until sign-in-service receivers resume";
    begins(receiver, { reason }, text);
  });
  events.on("receiver.recovered", ({ receiver, failures, failing_since }) => {
    const last = logged.get(receiver);
    if (last?.isQuiet === true) logged.set(receiver, { ...last, isQuiet: false });
    else {
      const seconds = Math.round(clock.now() / 1000) - failing_since;
      logger.warn({ receiver, failures, seconds }, "a receiver of notifications works again");
    }
  });
}
