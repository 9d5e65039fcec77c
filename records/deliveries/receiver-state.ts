/**
 * Whether deliveries may be sent to a receiver, and why not: an operator has paused it, nothing can be sent to it, or its
 * circuit is open. After several failures in a row the circuit opens, and one delivery at a time probes the receiver.
 * Specification: `decisions.md`, "A receiver that fails". Pure functions.
 */
import type { NotificationSettings } from "../../config/configuration.ts";

/** The state of a receiver. The initial state is {@link untouchedReceiver}. */
export interface ReceiverState {
  /** While `true`, nothing is claimed. */
  readonly paused: boolean;
  /** Why the receiver is paused, for operators; `null` if it is not. */
  readonly reason: string | null;
  /** Failed attempts in a row. */
  readonly failures: number;
  /** When it began to fail; `null` if it works. A receiver that was resumed works again with its first success. */
  readonly failingSince: number | null;
  /** How the last of these attempts failed, see `failureOf`; `null` if it works, or nothing could be sent. */
  readonly lastError: string | null;
  /** The circuit is open: nothing is claimed before this time, and then one delivery as a probe. `null`: it is closed. */
  readonly circuitOpenUntil: number | null;
  /** How long the circuit is open after the next failed probe; 0 while it is closed. */
  readonly openSpan: number;
  /** Deliveries that failed up to this time are still to be made due, see `releaseFailed`; `null`: none. */
  readonly releaseUntil: number | null;
}

/** The state of a receiver without a record. */
export const untouchedReceiver: ReceiverState = Object.freeze({
  paused: false,
  reason: null,
  failures: 0,
  failingSince: null,
  lastError: null,
  circuitOpenUntil: null,
  openSpan: 0,
  releaseUntil: null,
});

/** Whether anything must be remembered about the receiver. */
export function isTouched(state: ReceiverState): boolean {
  const { paused, failures, failingSince, circuitOpenUntil, releaseUntil } = state;
  return (
    paused || failures > 0 || failingSince !== null || circuitOpenUntil !== null || releaseUntil !== null
  );
}

type Gate = Pick<ReceiverState, "paused" | "circuitOpenUntil">;

/** What stops deliveries to a receiver; `null` if nothing does. */
export function stopOf({ paused, circuitOpenUntil }: Gate): "receiver_paused" | "circuit_open" | null {
  if (paused) return "receiver_paused";
  return circuitOpenUntil === null ? null : "circuit_open";
}

/** From when on a delivery may be sent to the receiver, be it as a probe: 0 at any time, infinity while it is paused. */
export const opensAt = ({ paused, circuitOpenUntil }: Gate): number =>
  paused ? Number.POSITIVE_INFINITY : (circuitOpenUntil ?? 0);

/** How many of `limit` deliveries may be sent to the receiver now. While its circuit is open, a probe at most. */
export function allowedNow(state: Gate, limit: number, now: number): number {
  if (opensAt(state) > now) return 0;
  return stopOf(state) === null ? limit : Math.min(1, limit);
}

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
