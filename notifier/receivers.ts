/**
 * Receivers of notifications: where each is, whether it may be sent to and why not, and what operators and attempts say
 * about it. The rules are in `records/deliveries/receiver-state.ts`.
 */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { checked } from "../accounts/arguments.ts";
import { exampleEvent } from "../accounts/events/event-types.ts";
import { NOTIFICATION_TYPES, type NotificationBody } from "../receiver/notification.ts";
import { openReceiver, parseReceiverName, receiverName } from "../accounts/receivers.ts";
import type { Configuration } from "../config/configuration.ts";
import { EVENT_TYPES, type EventReceiverSettings } from "../config/events.ts";
import { signingSecrets } from "../config/value-forms.ts";
import { inSeconds, seconds } from "../core/clock.ts";
import { NotFound, SignInError } from "../core/errors.ts";
import type { AuditAction } from "../records/audit/actions.ts";
import type { Caller } from "../records/audit/audit-event.ts";
import { failureOf, RESTORED } from "../records/deliveries/delivery.ts";
import {
  afterFailure,
  afterPause,
  afterResume,
  afterSuccess,
  type PauseReason,
  type ReceiverState,
  stopOf,
  untouchedReceiver,
} from "../records/deliveries/receiver-state.ts";
import type { EntryKind, ReceiverRecord } from "../records/directory/directory.ts";
import type { StorageServices } from "../records/services.ts";
import {
  type ReceiverReport,
  receiverName as receiverArgument,
  type TestResult,
} from "./receiver-operations.ts";
import type { AttemptResult, AttemptTarget, Deliverer } from "./sending/deliver.ts";

/** For operators: why nothing can be sent until a key that opens the credentials is configured again. */
export const NO_KEY = "no key of keys.secrets opens its credentials";

/** The account of a test notification: no real account has these values. */
const TEST_ACCOUNT = {
  user_id: 0,
  user_uuid: "00000000-0000-0000-0000-000000000000",
  user_email: "nobody@invalid",
};

/**
 * Whether a receiver of events is not in this configuration. While processes with another one are still, or already, running,
 * they send to it.
 */
export function isUnknownReceiver({ receivers }: Configuration["events"], receiver: string): boolean {
  const name = parseReceiverName(receiver);
  return name?.kind === "events" && !Object.hasOwn(receivers, name.key);
}

const noReceiver = (): NotFound => new NotFound("this receiver");

const KINDS: readonly EntryKind[] = ["service", "group", "portal"];

/** A notification about no account, of the type that has the mildest consequences among those that the receiver takes. */
function testNotification(types: readonly string[], timestamp: number): NotificationBody {
  const type =
    NOTIFICATION_TYPES.toReversed().find((each) => types.includes(each)) ?? ("PROFILE_CHANGED" as const);
  return { notification_type: type, data: { ...TEST_ACCOUNT, timestamp, services: {} } };
}

/** The same for a receiver of events. */
function testEvent({ types }: EventReceiverSettings, at: number): ReturnType<typeof exampleEvent> {
  const mildest = types.find((type) => type === "account.updated");
  const other = EVENT_TYPES.find((type) => type !== "account.deleted" && types.includes(type));
  return exampleEvent(mildest ?? other ?? "account.deleted", at);
}

/** Lanes that become due in one step, so that other requests to the storage don't wait long. */
const STEP = 500;

type Services = Pick<StorageServices, "storage" | "sealer" | "configuration" | "events" | "clock"> & {
  readonly deliverer: Deliverer;
};

export class Receivers {
  readonly #services: Services;
  /** The target of each receiver, for as long as its record stays the same: opening it costs more than reading it. */
  readonly #targets = new Map<string, { readonly record: ReceiverRecord; readonly target: AttemptTarget }>();

  /** The receivers of events, by their names. */
  readonly #ofEvents: ReadonlyMap<
    string,
    { readonly settings: EventReceiverSettings; readonly target: AttemptTarget }
  >;

  constructor(services: Services) {
    this.#services = services;
    this.#ofEvents = new Map(
      Object.entries(services.configuration.events.receivers).map(([key, settings]) => [
        receiverName("events", key),
        {
          settings,
          target: { url: settings.url, signing_secrets: signingSecrets(settings.signing_secret) },
        },
      ]),
    );
  }

  async #find(kind: EntryKind, key: string): Promise<ReceiverRecord | undefined> {
    return (await this.#services.storage.directory.findEntry(kind, key))?.receiver ?? undefined;
  }

  async isConfigured(receiver: string): Promise<boolean> {
    const name = parseReceiverName(receiver);
    if (name === undefined) return false;
    const { kind, key } = name;
    return kind === "events" ? this.#ofEvents.has(receiver) : (await this.#find(kind, key)) !== undefined;
  }

  /** Reads the directory each time, so that a change applies to deliveries that already wait. */
  async target(receiver: string): Promise<AttemptTarget | "not configured" | "no key"> {
    const name = parseReceiverName(receiver);
    if (name?.kind === "events") return this.#ofEvents.get(receiver)?.target ?? "not configured";
    const record = name && (await this.#find(name.kind, name.key));
    if (name === undefined || record === undefined) {
      this.#targets.delete(receiver);
      return "not configured";
    }
    const known = this.#targets.get(receiver);
    if (known !== undefined && isDeepStrictEqual(known.record, record)) return known.target;
    try {
      const opened = openReceiver(this.#services.sealer, name.kind, name.key, record);
      const { url, client_id, client_secret, signing_secret } = opened;
      const target = { url, client_id, client_secret, signing_secrets: signingSecrets(signing_secret) };
      this.#targets.set(receiver, { record, target });
      return target;
    } catch (error) {
      if (error instanceof SignInError && error.code === "unusable_secrets") return "no key";
      throw error;
    }
  }

  /** An operator pauses it. */
  async pause(receiver: string, reason: string, caller: Caller): Promise<ReceiverReport> {
    const report = await this.#existing(receiver);
    // The reason is free text, so it is kept with the receiver while it is paused, and not in the audit.
    await this.#audit("receiver.pause_requested", receiver, caller);
    await this.#pause(receiver, { reason });
    return report.paused ? report : { ...report, paused: true, reason };
  }

  /** An operator resumes it, whatever stopped it. */
  async resume(receiver: string, caller: Caller): Promise<ReceiverReport> {
    const report = await this.#existing(receiver);
    await this.#audit("receiver.resume_requested", receiver, caller);
    await this.#resume(receiver);
    return { ...report, paused: false, reason: null, failures: 0, circuit_open_until: null };
  }

  /** Resumes all that are paused since the storage was restored. @returns their names. */
  async resumeRestored(caller: Caller): Promise<string[]> {
    const resumed: string[] = [];
    for (const [receiver, { reason }] of await this.#services.storage.deliveries.receivers()) {
      if (reason !== RESTORED) continue;
      await this.#audit("receiver.resume_requested", receiver, caller);
      if (await this.#resume(receiver, RESTORED)) resumed.push(receiver);
    }
    return resumed.toSorted();
  }

  /** Sends one notification about no real account, to test whether the receiver can be reached and accepts it. */
  async test(receiver: string, caller: Caller): Promise<TestResult> {
    const { deliverer, clock } = this.#services;
    const { types } = await this.#existing(receiver);
    await this.#audit("receiver.test_requested", receiver, caller);
    const settings = this.#ofEvents.get(receiver)?.settings;
    const body =
      settings === undefined ? testNotification(types, seconds(clock)) : testEvent(settings, seconds(clock));
    const type = "type" in body ? body.type : body.notification_type;
    const id = `test_${randomBytes(16).toString("hex")}`;
    const target = await this.target(receiver);
    if (target === "not configured") throw noReceiver();
    const { signal } = new AbortController();
    const result: AttemptResult =
      target === "no key"
        ? { kind: "refused", reason: NO_KEY, startedAt: clock.now(), duration: 0 }
        : await deliverer.attempt(target, JSON.stringify(body), { id, signal });
    const common = { id, type, sent: result.kind !== "refused", duration_ms: result.duration };
    if (result.kind === "answered") {
      const { status, answer } = result;
      return { ok: status >= 200 && status < 300, ...common, status, error: null, answer };
    }
    const error = result.kind === "failed" ? result.code : result.reason;
    return { ok: false, ...common, status: null, error, answer: null };
  }

  /** An attempt succeeded. @param known the state of the receiver, if it has just been read. */
  async recordSuccess(receiver: string, known?: ReceiverState): Promise<void> {
    const { storage, events, clock } = this.#services;
    // Read first: most receivers are well and stay so, and then nothing is written.
    const now = clock.now();
    if (afterSuccess(known ?? (await storage.deliveries.receiver(receiver)), now) === undefined) return;
    const { before } = await storage.deliveries.changeReceiver(receiver, (state) => afterSuccess(state, now));
    const { failures, failingSince, circuitOpenUntil } = before;
    if (failingSince !== null)
      events.emit("receiver.recovered", { receiver, failures, failing_since: inSeconds(failingSince) });
    if (circuitOpenUntil !== null) await this.release(receiver);
  }

  async recordFailure(
    receiver: string,
    failure: { readonly probe: boolean; readonly error: string | null },
  ): Promise<void> {
    const { storage, configuration, events, clock } = this.#services;
    const now = clock.now();
    const { before, after } = await storage.deliveries.changeReceiver(receiver, (state) =>
      afterFailure(state, configuration.notifications.breaker, { now, ...failure }),
    );
    if (before.failingSince === null) events.emit("receiver.failing", { receiver, error: failure.error });
    if (before.circuitOpenUntil === null && after.circuitOpenUntil !== null) {
      const circuit_open_until = inSeconds(after.circuitOpenUntil);
      events.emit("receiver.circuit_opened", { receiver, circuit_open_until });
    }
  }

  /** Nothing can be sent to the receiver. @param error how the attempt failed; `null` if none was made. */
  pauseFailed(receiver: string, reason: string, error: string | null): Promise<void> {
    return this.#pause(receiver, { reason, failed: { now: this.#services.clock.now(), error } });
  }

  async #pause(receiver: string, why: PauseReason): Promise<void> {
    const { storage, events } = this.#services;
    const { before, after } = await storage.deliveries.changeReceiver(receiver, (state) =>
      afterPause(state, why),
    );
    if (before === after) return;
    const by_operator = why.failed === undefined;
    events.emit("receiver.paused", { receiver, reason: why.reason, by_operator });
  }

  /**
   * @param reason resumes it only if it is paused for this reason. Default: always.
   * @returns `false` when nothing was stopped: the receiver was not paused, its circuit was closed, and no delivery waited for
   * its next attempt.
   */
  async #resume(receiver: string, reason?: string): Promise<boolean> {
    const { storage, events, clock } = this.#services;
    const { before, after } = await storage.deliveries.changeReceiver(receiver, (state) =>
      reason === undefined || state.reason === reason ? afterResume(state, clock.now()) : undefined,
    );
    if (before === after) return false;
    const released = await this.release(receiver);
    const wasStopped = stopOf(before) !== null;
    if (wasStopped) events.emit("receiver.resumed", { receiver });
    return wasStopped || released > 0;
  }

  /** Makes everything due that failed before the receiver recovered. @returns how many deliveries. */
  async release(receiver: string): Promise<number> {
    for (let released = 0; ;) {
      const step = await this.#services.storage.deliveries.releaseFailed(receiver, STEP);
      released += step;
      if (step < STEP) return released;
    }
  }

  /** One that is no longer configured. If it comes back, it starts afresh. */
  async forget(receiver: string): Promise<void> {
    await this.#services.storage.deliveries.changeReceiver(receiver, () => untouchedReceiver);
  }

  /** How one is doing; `undefined` if it is not configured, and has neither deliveries nor state. */
  async find(receiver: string): Promise<ReceiverReport | undefined> {
    return (await this.report()).find((each) => each.receiver === receiver);
  }

  /** All receivers that are configured or have deliveries or state, ordered by name. */
  async report(): Promise<ReceiverReport[]> {
    const { directory, deliveries } = this.#services.storage;
    const entries = await Promise.all(
      KINDS.map(async (kind) =>
        (await directory.listEntries(kind)).flatMap(({ key, receiver }) =>
          receiver === null ? [] : [[receiverName(kind, key), receiver] as const],
        ),
      ),
    );
    const ofEvents = [...this.#ofEvents].map(([name, { settings }]) => [name, settings] as const);
    const configured = new Map<string, { readonly url: string; readonly types: readonly string[] }>([
      ...entries.flat(),
      ...ofEvents,
    ]);
    const states = await deliveries.receivers();
    const counts = new Map((await deliveries.counts()).map((each) => [each.receiver, each] as const));
    return [...new Set([...configured.keys(), ...states.keys(), ...counts.keys()])]
      .toSorted((a, b) => (a < b ? -1 : 1))
      .map((receiver) => {
        const { paused, reason, failures, failingSince, lastError, circuitOpenUntil } =
          states.get(receiver) ?? untouchedReceiver;
        const { url, types } = configured.get(receiver) ?? { url: null, types: [] };
        const { waiting, parked, oldest } = counts.get(receiver) ?? { waiting: 0, parked: 0, oldest: null };
        return {
          receiver,
          url,
          types,
          waiting,
          parked,
          oldest_at: inSeconds(oldest),
          paused,
          reason,
          failures,
          failing_since: inSeconds(failingSince),
          last_error: lastError,
          circuit_open_until: inSeconds(circuitOpenUntil),
        };
      });
  }

  async #existing(receiver: string): Promise<ReceiverReport> {
    const report = await this.find(checked("receiver", receiverArgument, receiver));
    if (report === undefined) throw noReceiver();
    return report;
  }

  /** Writes the audit record of a request before it is carried out, so that nothing happens without one. */
  #audit(action: Extract<AuditAction, `receiver.${string}`>, subject: string, caller: Caller): Promise<void> {
    return this.#services.storage.audit.append({ ...caller, action, subject });
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
      const failed = { receiver, failures, seconds: Math.round(clock.now() / 1000) - failing_since };
      logger.warn(failed, "a receiver of notifications works again");
    }
  });
}
