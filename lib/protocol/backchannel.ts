/**
 * OpenID Connect Back-Channel Logout 1.0: clients are told that a session ended, in three attempts. It is not a
 * notification: what three attempts don't reach is given up.
 */
import type { Provider } from "oidc-provider";
import type { ArtifactStore } from "../../adapters/artifacts.ts";
import type { SessionsEnded } from "../domain/account-endings.ts";
import type { ServiceEmitter } from "../events.ts";

export interface Backchannel {
  /** Tells the clients of all sessions of the account but the one that lives on; the sending goes on in the background. */
  sessionsEnded(provider: Provider, ended: SessionsEnded): Promise<void>;
  /**
   * Makes the first attempt now and the others in the background.
   * @param send one attempt; rejects when the client was not told.
   */
  deliver(clientId: string, send: () => Promise<void>): Promise<void>;
  /** Resolves when no attempt is running; those that wait for their time are given up. */
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

export function createBackchannel(artifacts: ArtifactStore, events: ServiceEmitter): Backchannel {
  const running = new Set<Promise<void>>();
  /** Of the attempts that wait for their time. */
  const timers = new Set<NodeJS.Timeout>();
  let isStopped = false;

  async function attempt(clientId: string, send: () => Promise<void>, tries: number): Promise<void> {
    try {
      await send();
    } catch {
      const delay = DELAYS[tries];
      if (delay === undefined || isStopped) {
        events.emit("logout.undelivered", { client_id: clientId });
        return;
      }
      const timer = setTimeout(() => {
        timers.delete(timer);
        track(attempt(clientId, send, tries + 1));
      }, delay * 1000).unref();
      timers.add(timer);
    }
  }

  function track(task: Promise<void>): void {
    const tracked = task.finally(() => running.delete(tracked));
    running.add(tracked);
  }

  return {
    deliver: (clientId, send) => attempt(clientId, send, 0),
    async sessionsEnded(provider, { sub, keepSession }) {
      const sessions = await artifacts.listByAccount({ accountId: sub, models: ["Session"] });
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
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
      await Promise.allSettled(running);
    },
  };
}
