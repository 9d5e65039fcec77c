/** One notification about nobody, to see whether a receiver is reached and takes it. */
import { randomBytes } from "node:crypto";
import type { DirectoryStore } from "../lib/directory/directory.ts";
import { type Clock, seconds } from "../lib/clock.ts";
import { findReceiver, parseReceiverName, signingSecrets } from "../lib/domain/receivers.ts";
import type { Sealer } from "../lib/sealing.ts";
import type { Attempt, AttemptResult } from "./attempt.ts";
import { NOTIFICATION_TYPES, type NotificationBody, type NotificationType } from "./plan.ts";
import { isUnopened, UNOPENED } from "./targets.ts";

/** What came of a test. */
export interface TestResult {
  /** It was answered with 2xx. */
  readonly ok: boolean;
  /** The `webhook-id` that was sent: of no delivery. */
  readonly id: string;
  readonly type: NotificationType;
  readonly status: number | null;
  /** A short code when there was no answer, or why nothing was sent: the address is not allowed, no key opens the credentials. */
  readonly error: string | null;
  /** Milliseconds. */
  readonly duration: number;
  /** The beginning of the answer, at most 4 KiB: text of the receiver, so escape it. */
  readonly answer: string | null;
}

export interface TestDeps {
  readonly directory: Pick<DirectoryStore, "findEntry">;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly attempt: Attempt;
}

/** Who nobody is: no account ever has these. */
const NOBODY = {
  user_id: 0,
  user_uuid: "00000000-0000-0000-0000-000000000000",
  user_email: "nobody@invalid",
};

/** The type that does the least, of those that the receiver takes. */
function typeFor(types: readonly string[]): NotificationType {
  return NOTIFICATION_TYPES.toReversed().find((type) => types.includes(type)) ?? "PROFILE_CHANGED";
}

/** `undefined` when there is no such receiver. One whose credentials no key opens is told of as the worker does. */
async function attempted(
  deps: TestDeps,
  receiver: string,
  { id, body }: { readonly id: string; readonly body: NotificationBody },
): Promise<AttemptResult | undefined> {
  const { signal } = new AbortController();
  try {
    const found = await findReceiver(deps, receiver);
    if (found === undefined) return undefined;
    const target = { ...found, signing_secrets: signingSecrets(found.signing_secret) };
    return await deps.attempt(target, JSON.stringify(body), { id, signal });
  } catch (error) {
    if (!isUnopened(error)) throw error;
    return { kind: "refused", reason: UNOPENED, startedAt: deps.clock.now(), duration: 0 };
  }
}

/** @returns `undefined` when no such receiver is configured. */
export async function sendTest(deps: TestDeps, receiver: string): Promise<TestResult | undefined> {
  const place = parseReceiverName(receiver);
  const entry = place && (await deps.directory.findEntry(place.kind, place.key));
  const type = typeFor(entry?.receiver?.types ?? []);
  const data = { ...NOBODY, timestamp: seconds(deps.clock), services: {} };
  const body: NotificationBody = { notification_type: type, data };
  const id = `test_${randomBytes(16).toString("hex")}`;
  const result = await attempted(deps, receiver, { id, body });
  if (result === undefined) return undefined;
  const common = { id, type, duration: result.duration };
  if (result.kind === "answered") {
    const { status, answer } = result;
    return { ok: status >= 200 && status < 300, ...common, status, error: null, answer };
  }
  const error = result.kind === "failed" ? result.code : result.reason;
  return { ok: false, ...common, status: null, error, answer: null };
}
