/**
 * OpenID Connect Back-Channel Logout 1.0: clients are told that a session ended, in three attempts at most. A logout
 * token is not a notification: nobody keeps one that could not be delivered.
 */
import type { Provider } from "oidc-provider";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { SessionsEnded } from "../domain/account-change.ts";
import type { BackchannelFailure, ServiceEmitter } from "../events.ts";
import { AddressRefused } from "../guarded-agents.ts";

export interface Backchannel {
  /** Tells the clients of all sessions of the account but the one that lives on; the sending goes on in the background. */
  sessionsEnded(provider: Provider, ended: SessionsEnded): Promise<void>;
  /**
   * Makes the first attempt now and the others in the background.
   * @param send one attempt; rejects when the client was not told.
   */
  deliver(clientId: string, send: () => Promise<void>): Promise<void>;
  /** Gives up what waits for another attempt; resolves when no attempt is running. */
  stop(): Promise<void>;
}

/** Seconds before the second and the third attempt. */
const DELAYS = [2, 10];

interface Authorizations {
  readonly [clientId: string]: { readonly sid?: string } | undefined;
}

/** What the library's client offers and its types leave out. */
interface LogoutClient {
  readonly clientId: string;
  readonly backchannelLogoutUri?: string;
  backchannelLogout(sub: string, sid: string): Promise<void>;
}

/** What the errors of an attempt have in common: the library's, those of `fetch`, and those of Node's sockets. */
interface AttemptError {
  readonly name?: unknown;
  readonly code?: unknown;
  /** The library puts the answer here when its status is wrong. */
  readonly response?: unknown;
  /** `fetch` says only that it failed, and has what happened as its cause. */
  readonly cause?: unknown;
}

/** One of a few words: nothing that the other side said gets into logs, events and metrics. */
function failureOf(error: unknown): BackchannelFailure {
  if (!Error.isError(error)) return "internal";
  if (error instanceof AddressRefused) return "refused_address";
  const { name, code, response, cause } = error as AttemptError;
  if (name === "TimeoutError" || name === "AbortError") return "timeout";
  if (response !== undefined) return "status";
  if (typeof code === "string") return "connection";
  return failureOf(cause);
}

/** @param onWarning told, in a sentence, who was not told. */
export function createBackchannel(
  artifacts: ArtifactStore,
  events: ServiceEmitter,
  onWarning: (text: string) => void,
): Backchannel {
  const running = new Set<Promise<void>>();
  /** Of the attempts that wait for their time: what gives each of them up. */
  const waiting = new Map<NodeJS.Timeout, () => void>();
  let isStopped = false;

  function giveUp(client_id: string, reason: BackchannelFailure, attempts: number): void {
    const tried = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    onWarning(`${client_id} was not told that a session ended (${reason}, after ${tried})`);
    events.emit("backchannel.failed", { client_id, reason, attempts });
  }

  /** @param attempts how many there are with this one. */
  async function attempt(clientId: string, send: () => Promise<void>, attempts: number): Promise<void> {
    try {
      await send();
    } catch (error) {
      const reason = failureOf(error);
      // What the address rules forbid now they forbid in ten seconds.
      const delay = reason === "refused_address" || isStopped ? undefined : DELAYS[attempts - 1];
      if (delay === undefined) return giveUp(clientId, reason, attempts);
      const timer = setTimeout(() => {
        waiting.delete(timer);
        track(attempt(clientId, send, attempts + 1));
      }, delay * 1000).unref();
      waiting.set(timer, () => giveUp(clientId, reason, attempts));
      return;
    }
    events.emit("backchannel.delivered", { client_id: clientId, attempts });
  }

  function track(task: Promise<void>): void {
    const tracked = task.finally(() => running.delete(tracked));
    running.add(tracked);
  }

  return {
    deliver: (clientId, send) => attempt(clientId, send, 1),
    async sessionsEnded(provider, { sub, keepSession }) {
      const sessions = await artifacts.sessionsOf(sub);
      for (const { uid, payload } of sessions) {
        if (uid !== undefined && uid === keepSession) continue;
        const authorizations = (payload["authorizations"] ?? {}) as Authorizations;
        for (const [clientId, { sid = "" } = {}] of Object.entries(authorizations)) {
          const client = (await provider.Client.find(clientId)) as unknown as LogoutClient | undefined;
          // The patched method delivers by itself; a deletion does not wait for the clients.
          if (client?.backchannelLogoutUri !== undefined) track(client.backchannelLogout(sub, sid));
        }
      }
    },
    async stop() {
      isStopped = true;
      for (const [timer, abandon] of waiting) {
        clearTimeout(timer);
        abandon();
      }
      waiting.clear();
      await Promise.allSettled(running);
    },
  };
}
