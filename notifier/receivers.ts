/** Receivers: how to reach one, a test of one, and a report about all of them. */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { untouchedReceiver } from "../records/deliveries/delivery.ts";
import type { EntryKind, ReceiverRecord } from "../records/directory/directory.ts";
import { inSeconds, type Clock, seconds } from "../core/clock.ts";
import {
  openReceiver,
  parseReceiverName,
  type ReceiverName,
  receiverName,
  signingSecrets,
} from "../accounts/receivers.ts";
import { SignInError } from "../core/errors.ts";
import type { ReceiverReport, TestResult } from "./receiver-operations.ts";
import type { Attempt, AttemptResult, AttemptTarget } from "./sending/deliver.ts";
import { NOTIFICATION_TYPES, type NotificationBody, type NotificationType } from "../accounts/plan.ts";
import type { StorageServices } from "../records/services.ts";

/** For operators: why nothing can be sent until a key that opens the credentials is configured again. */
export const NO_KEY = "no key of keys.secrets opens its credentials";

/** The account of a test notification: no real account has these values. */
const TEST_ACCOUNT = {
  user_id: 0,
  user_uuid: "00000000-0000-0000-0000-000000000000",
  user_email: "nobody@invalid",
};

const KINDS: readonly EntryKind[] = ["service", "group", "portal"];

/** Of the types that the receiver takes, the one with the mildest consequences. */
function testType(types: readonly string[]): NotificationType {
  return NOTIFICATION_TYPES.toReversed().find((type) => types.includes(type)) ?? "PROFILE_CHANGED";
}

export class Receivers {
  readonly #services: Pick<StorageServices, "storage" | "sealer">;
  /** The target of each receiver, for as long as its record stays the same: opening it costs more than reading it. */
  readonly #targets = new Map<string, { readonly record: ReceiverRecord; readonly target: AttemptTarget }>();

  constructor(services: Pick<StorageServices, "storage" | "sealer">) {
    this.#services = services;
  }

  async #find({ kind, key }: ReceiverName): Promise<ReceiverRecord | undefined> {
    return (await this.#services.storage.directory.findEntry(kind, key))?.receiver ?? undefined;
  }

  async isConfigured(receiver: string): Promise<boolean> {
    const name = parseReceiverName(receiver);
    return name !== undefined && (await this.#find(name)) !== undefined;
  }

  /** Reads the directory each time, so that a change applies to deliveries that already wait. */
  async target(receiver: string): Promise<AttemptTarget | "not configured" | "no key"> {
    const name = parseReceiverName(receiver);
    const record = name && (await this.#find(name));
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

  /**
   * Sends one notification about no real account, to test whether the receiver can be reached and accepts it.
   * @returns `undefined` when no such receiver is configured.
   */
  async test(receiver: string, attempt: Attempt, clock: Clock): Promise<TestResult | undefined> {
    const name = parseReceiverName(receiver);
    const type = testType((name && (await this.#find(name)))?.types ?? []);
    const data = { ...TEST_ACCOUNT, timestamp: seconds(clock), services: {} };
    const body: NotificationBody = { notification_type: type, data };
    const id = `test_${randomBytes(16).toString("hex")}`;
    const target = await this.target(receiver);
    if (target === "not configured") return undefined;
    const { signal } = new AbortController();
    const result: AttemptResult =
      target === "no key"
        ? { kind: "refused", reason: NO_KEY, startedAt: clock.now(), duration: 0 }
        : await attempt(target, JSON.stringify(body), { id, signal });
    const common = { id, type, sent: result.kind !== "refused", duration_ms: result.duration };
    if (result.kind === "answered") {
      const { status, answer } = result;
      return { ok: status >= 200 && status < 300, ...common, status, error: null, answer };
    }
    const error = result.kind === "failed" ? result.code : result.reason;
    return { ok: false, ...common, status: null, error, answer: null };
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
    const configured = new Map(entries.flat());
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
}
