/**
 * OpenID Connect Back-Channel Logout 1.0: clients learn that a session has ended. Logout tokens wait in a queue of this
 * process, so no request waits for a client. Each gets at most three attempts. A logout token is not a notification: it is
 * not stored, and one that can't be delivered is lost.
 */
import { setTimeout } from "node:timers/promises";
import type { Provider } from "oidc-provider";
import type { Configuration } from "../../config/configuration.ts";
import type { StoredArtifact } from "../../records/artifacts/artifact.ts";
import type { BackchannelFailure, ServiceEmitter, ServiceEvents } from "../../core/events.ts";
import { FairQueue } from "../../core/fair-queue.ts";
import { guardedFetch } from "../../core/guarded-fetch.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { AddressRefused, createGuardedAgents } from "../../core/outbound-agents.ts";
import { type AddressRules, createAddressRules } from "../../core/outbound-addresses.ts";
import { Running } from "../../core/running.ts";

/** A client to notify. oidc-provider makes a new logout token for each attempt. */
export interface Logout {
  readonly client_id: string;
  readonly sub: string;
  /** The identifier of the session at this client. */
  readonly sid: string;
}

export interface BackchannelLogout {
  /** Queues one logout token. */
  add(logout: Logout): void;
  /** Queues a logout token for each client of these sessions of an account, which have ended. */
  sessionsEnded(sub: string, sessions: readonly Pick<StoredArtifact, "payload">[]): Promise<void>;
  /** Resolves when each one was delivered or given up, or after the time-out. @returns whether none is left. */
  settled(timeoutMs: number): Promise<boolean>;
  /** Gives up what waits; resolves when none is in flight. */
  stop(): Promise<void>;
}

/** Before the second and the third attempt. */
const RETRY_DELAYS_MS = [2_000, 10_000];

/** Waits for the next attempt. Rejects as soon as the signal aborts. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<unknown>;

const timer: Pause = (ms, signal) => setTimeout(ms, undefined, { signal, ref: false });

const REFUSAL = "too many logout tokens wait";
/** Beyond these, a client that answers slowly would fill the memory. */
const MAX_WAITING = 10_000;
const FOR_ONE_CLIENT = {
  capacity: 10,
  maxWaiting: MAX_WAITING,
  maxWaitMs: Number.POSITIVE_INFINITY,
  refusal: REFUSAL,
};
const IN_ALL = { ...FOR_ONE_CLIENT, capacity: 50, maxWaiting: Number.POSITIVE_INFINITY };
/** Longer than an attempt takes. */
const STOP_TIMEOUT_MS = 10_000;

interface Authorizations {
  readonly [clientId: string]: { readonly sid?: string } | undefined;
}

/** A client of oidc-provider, with a method that `patches.ts` adds. */
interface LogoutClient {
  readonly backchannelLogoutUri?: string;
  sendLogoutToken(sub: string, sid: string): Promise<void>;
}

/** The members of an error of oidc-provider, `fetch` or a socket that say what went wrong. */
interface AttemptError {
  readonly name?: unknown;
  readonly code?: unknown;
  /** Set by oidc-provider when the status is wrong. */
  readonly response?: unknown;
  /** `fetch` has the error of its connection here. */
  readonly cause?: unknown;
}

/** One of a few words, so that nothing the other side sent gets into logs, events and metrics. */
function failureOf(error: unknown): BackchannelFailure {
  if (!Error.isError(error)) return "internal";
  if (error instanceof AddressRefused) return "refused_address";
  const { name, code, response, cause } = error as AttemptError;
  if (name === "TimeoutError" || name === "AbortError") return "timeout";
  if (response !== undefined) return "status";
  if (typeof code === "string") return "connection";
  return failureOf(cause);
}

/** The sentence about a client that could not be notified. */
export function failureText({ client_id, reason, attempts }: ServiceEvents["backchannel.failed"]): string {
  const tried = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  return `${client_id} was not notified that a session ended (${reason}, after ${tried})`;
}

/**
 * @param currentProvider the instance that signs the tokens.
 * @param onWarning called with a sentence for each client that could not be notified.
 * @param pause default: a timer, which keeps no process alive.
 */
export function createBackchannelLogout(
  currentProvider: () => Pick<Provider, "Client">,
  events: ServiceEmitter,
  onWarning: (text: string) => void,
  pause: Pause = timer,
): BackchannelLogout {
  const all = new FairQueue(IN_ALL);
  const byClient = new Map<string, FairQueue>();
  /** Tokens that are neither delivered nor given up. */
  const pending = new Running();
  const stopping = new AbortController();

  /** @param attempts how many there were. */
  function giveUp({ client_id }: Logout, reason: BackchannelFailure, attempts: number): void {
    const failure = { client_id, reason, attempts };
    onWarning(failureText(failure));
    events.emit("backchannel.failed", failure);
  }

  /** @returns `undefined` if it can't be notified, because it is gone, disabled, or has no address. */
  async function clientOf(client_id: string): Promise<LogoutClient | undefined> {
    const client = (await currentProvider().Client.find(client_id)) as unknown as LogoutClient | undefined;
    return client?.backchannelLogoutUri === undefined ? undefined : client;
  }

  function queueOf(client_id: string): FairQueue {
    const queue = byClient.get(client_id) ?? new FairQueue(FOR_ONE_CLIENT);
    byClient.set(client_id, queue);
    return queue;
  }

  /** Waits for a turn and makes one attempt. @returns why it failed; `undefined` if it is done. */
  async function attempt({ client_id, sub, sid }: Logout): Promise<BackchannelFailure | undefined> {
    const leave = await queueOf(client_id).enter(client_id);
    const leaveAll = await all.enter(client_id);
    try {
      if (stopping.signal.aborted) return "closed";
      // What the client is now decides, not what it was when the session ended.
      await (await clientOf(client_id))?.sendLogoutToken(sub, sid);
      return undefined;
    } catch (error) {
      return failureOf(error);
    } finally {
      leaveAll();
      leave();
    }
  }

  /** @returns whether there is another attempt, which is due now. */
  const isDue = (delayMs: number): Promise<boolean> =>
    pause(delayMs, stopping.signal).then(
      () => true,
      () => false,
    );

  async function deliver(logout: Logout): Promise<void> {
    const { client_id } = logout;
    for (let attempts = 0; ;) {
      let reason: BackchannelFailure | undefined;
      try {
        reason = await attempt(logout);
      } catch {
        return giveUp(logout, "too_many", attempts);
      }
      if (reason === "closed") return giveUp(logout, reason, attempts);
      attempts += 1;
      if (reason === undefined) return void events.emit("backchannel.delivered", { client_id, attempts });
      // The address rules will not change within seconds.
      const delayMs = reason === "refused_address" ? undefined : RETRY_DELAYS_MS[attempts - 1];
      if (delayMs === undefined || !(await isDue(delayMs))) return giveUp(logout, reason, attempts);
    }
  }

  function add(logout: Logout): void {
    const end = pending.begin();
    void deliver(logout).finally(end);
  }

  return {
    add,
    async sessionsEnded(sub, sessions) {
      const notified = new Map<string, boolean>();
      for (const { payload } of sessions) {
        const authorizations = (payload["authorizations"] ?? {}) as Authorizations;
        for (const [client_id, { sid = "" } = {}] of Object.entries(authorizations)) {
          if (!notified.has(client_id)) notified.set(client_id, (await clientOf(client_id)) !== undefined);
          if (notified.get(client_id)) add({ client_id, sub, sid });
        }
      }
    },
    settled: (timeoutMs) => pending.idle(timeoutMs),
    async stop() {
      stopping.abort();
      await pending.idle(STOP_TIMEOUT_MS);
    },
  };
}

/** oidc-provider passes its guard against special-use addresses as `dispatcher`. */
type GuardedInit = RequestInit & { dispatcher?: unknown };

/** Of a client's response, which says nothing more than its status. */
const BODY = { bytes: 64 * 1024, beyond: "cut" } as const;

/** The message with which oidc-provider's guard destroys a connection. */
const GUARD = "hostname resolves to a special-use IP address";

/** `fetch` has the error of its connection as the cause of its own. */
function isGuardError(error: unknown): boolean {
  return Error.isError(error) && (error.message === GUARD || isGuardError(error.cause));
}

/** The `fetch` of the host application opens its own connections, so it gets the guard of oidc-provider, unless the address is allowed. */
function hostFetch(send: typeof globalThis.fetch, rules: AddressRules): typeof globalThis.fetch {
  return async (target, init) => {
    const url = new URL(target instanceof Request ? target.url : target);
    const { dispatcher: _guard, ...rest } = (init ?? {}) as GuardedInit;
    if (rules.names(url.hostname.replace(/^\[|\]$/g, ""))) return send(target, rest);
    try {
      return await send(target, init);
    } catch (error) {
      throw isGuardError(error) ? new AddressRefused(GUARD) : error;
    }
  };
}

function untracedFetch({ fetch: ownFetch, notifications }: Configuration): typeof globalThis.fetch {
  const rules = createAddressRules(notifications.allowedReceivers);
  if (ownFetch !== undefined) return hostFetch(ownFetch, rules);
  const agents = createGuardedAgents({ rules, keep: 0 });
  return (target, init) => {
    const { dispatcher: _guard, ...rest } = (init ?? {}) as GuardedInit;
    return guardedFetch(agents, new Request(target, rest), BODY);
  };
}

/** `fetch` of oidc-provider: logout tokens obey the address rules of notifications. */
export function backchannelFetch(
  configuration: Configuration,
  telemetry?: Telemetry,
): typeof globalThis.fetch {
  const send = untracedFetch(configuration);
  if (telemetry === undefined) return send;
  return (target, init) => {
    const url = target instanceof Request ? target.url : target;
    return telemetry.sent({ whom: "client", method: init?.method ?? "GET", url }, () => send(target, init));
  };
}
