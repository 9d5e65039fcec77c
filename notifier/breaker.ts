/**
 * What becomes of a receiver's state. After so many failures in a row it is held back, and one delivery at a time
 * is a probe; the first success makes everything due that failed until then. Pure.
 * Specification: `decisions.md`, "A receiver that fails".
 */
import { type ReceiverState, untouchedReceiver } from "../lib/deliveries/delivery.ts";
import type { NotificationSettings } from "../config/configuration.ts";

/** A failed attempt. `probe`: it was made while the receiver was held back. */
export function afterFailure(
  state: ReceiverState,
  settings: NotificationSettings["breaker"],
  { now, probe }: { readonly now: number; readonly probe: boolean },
): ReceiverState {
  const failures = state.failures + 1;
  const held = state.heldUntil !== null;
  // What was in flight when the hold began says nothing new.
  if (held ? !probe : failures < settings.failures) return { ...state, failures };
  const span = held ? state.holdSpan : settings.probe * 1000;
  const holdSpan = Math.min(span * 2, settings.longestProbe * 1000);
  return { ...state, failures, heldUntil: now + span, holdSpan };
}

/** A success; `undefined` when the receiver was well before. */
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

/** Nothing is sent until `afterResume`. A receiver that is paused keeps its first reason. */
export function afterPause(state: ReceiverState, reason: string): ReceiverState | undefined {
  return state.paused ? undefined : { ...state, paused: true, reason };
}

/** By hand: everything that waits is due, whatever was before. */
export function afterResume(now: number): ReceiverState {
  return { ...untouchedReceiver, releaseUntil: now };
}
