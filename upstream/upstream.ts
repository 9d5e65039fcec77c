/**
 * Signing in with another provider: how a browser gets there, and who comes back. It knows no accounts and no pages
 * (decisions.md, Signing in with another provider).
 */
import type { IdentityProvider } from "../config/providers.ts";
import { type Clock, monotonic } from "../core/clock.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { Logger } from "pino";
import { withTimeout } from "../core/with-timeout.ts";
import { type Connection, createConnection, type Work } from "./connection.ts";
import type { UpstreamIdentity } from "./claims.ts";
import { faultOf, UpstreamFault } from "./faults.ts";
import { examine, type ProviderProblem } from "./examine.ts";
import type { OutgoingSettings } from "./outgoing.ts";
import type { Departure } from "./presets.ts";
import { authorizationUrl, comeBack, type Trip } from "./trip.ts";

export type { UpstreamIdentity } from "./claims.ts";
export { UpstreamFault } from "./faults.ts";
export type { ProviderProblem } from "./examine.ts";
export type { Departure } from "./presets.ts";
export type { Trip } from "./trip.ts";

export interface Upstream {
  /** In the order of the configuration. */
  readonly providers: readonly IdentityProvider[];
  /**
   * @returns the address at the provider, and what {@link Upstream.finish} needs.
   * @throws UpstreamFault
   * @throws TypeError for a key that the configuration does not have.
   */
  begin(key: string, departure: Departure): Promise<{ readonly url: string; readonly trip: Trip }>;
  /**
   * @param answer the query with which the browser came back.
   * @throws UpstreamFault
   */
  finish(trip: Trip, answer: URLSearchParams): Promise<UpstreamIdentity>;
  /** For `doctor`: what is wrong with the provider, in words of the operator. */
  examine(key: string, redirectUris: readonly string[]): Promise<readonly ProviderProblem[]>;
  /** Ends what runs. */
  close(): Promise<void>;
}

interface UpstreamServices extends Pick<OutgoingSettings, "telemetry"> {
  readonly configuration: Omit<OutgoingSettings, "telemetry"> & {
    readonly providers: readonly IdentityProvider[];
  };
  readonly clock: Clock;
  readonly events: ServiceEmitter;
  readonly logger: Pick<Logger, "warn">;
}

/** For everything that a provider is asked at the start, or when somebody comes back. The page is there within ten seconds. */
export const PROVIDER_TIMEOUT_MS = 9_000;

/** @param timeoutMs for tests. */
export function createUpstream(
  { configuration, clock, events, logger, telemetry }: UpstreamServices,
  timeoutMs: number = PROVIDER_TIMEOUT_MS,
): Upstream {
  const { providers } = configuration;
  const connections = new Map<string, Connection>();
  const running = new Set<AbortController>();

  function connectionOf(key: string): Connection {
    const known = connections.get(key);
    if (known !== undefined) return known;
    const provider = providers.find((each) => each.key === key);
    if (provider === undefined) throw new TypeError("key: there is no such provider");
    const made = createConnection(provider, { ...configuration, telemetry }, clock, timeoutMs);
    connections.set(key, made);
    return made;
  }

  /** Ends the work in time. */
  async function attempt<T>(connection: Connection, work: Work<T>): Promise<T> {
    const late = new UpstreamFault("slow", "timeout");
    const stop = new AbortController();
    running.add(stop);
    try {
      const asked = connection.open(stop.signal).then((exchange) => work(exchange, stop.signal));
      return await withTimeout(timeoutMs, asked, () => late);
    } catch (error) {
      throw faultOf(error);
    } finally {
      running.delete(stop);
      stop.abort(late);
    }
  }

  /** The same for a person who waits: a fault is counted and logged. */
  async function ask<T>(key: string, work: Work<T>): Promise<T> {
    const connection = connectionOf(key);
    const begun = monotonic.now();
    try {
      return await attempt(connection, work);
    } catch (error) {
      const { reason, detail } = error as UpstreamFault;
      const spent = (monotonic.now() - begun) / 1000;
      events.emit("provider.failed", { provider: key, reason, seconds: spent });
      if (reason !== "cancelled")
        logger.warn({ provider: key, reason, detail }, "a provider could not be used");
      throw error;
    }
  }

  return {
    providers,
    async begin(key, departure) {
      events.emit("provider.started", { provider: key });
      return ask(key, async (exchange) => {
        const { url, trip } = await authorizationUrl(exchange, departure);
        return { url: url.href, trip };
      });
    },
    async finish(trip, answer) {
      const begun = monotonic.now();
      const identity = await ask(trip.provider, (exchange) => comeBack(exchange, trip, answer, clock));
      events.emit("provider.finished", {
        provider: trip.provider,
        seconds: (monotonic.now() - begun) / 1000,
      });
      return identity;
    },
    async examine(key, redirectUris) {
      const connection = connectionOf(key);
      return examine(connection, redirectUris, (work) => attempt(connection, work));
    },
    async close() {
      for (const stop of running) stop.abort(new UpstreamFault("slow", "closed"));
      for (const connection of connections.values()) connection.close();
    },
  };
}
