/**
 * Signing in with another provider: how a browser gets there, and who comes back. It knows no accounts and no pages
 * (decisions.md, Signing in with another provider).
 */
import type { IdentityProvider } from "../config/providers.ts";
import { type Clock, monotonic, seconds } from "../core/clock.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { Logger } from "pino";
import { withTimeout } from "../core/with-timeout.ts";
import { type Connection, createConnection, type Exchange } from "./connection.ts";
import type { UpstreamIdentity } from "./claims.ts";
import { faultOf, UpstreamFault } from "./faults.ts";
import { readIdentity } from "./identity.ts";
import type { OutgoingSettings } from "./outgoing.ts";
import { type Departure, PRESETS } from "./presets.ts";

export type { UpstreamIdentity } from "./claims.ts";
export { UpstreamFault } from "./faults.ts";
export type { Departure } from "./presets.ts";

/** What is kept while a browser is at a provider. Plain JSON, and secret. */
export interface Trip {
  /** The key of the provider. */
  readonly provider: string;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirect_uri: string;
  /** What was asked for, in seconds. The provider may have ignored it: see `auth_time`. */
  readonly max_age?: number;
}

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
  /** Ends what runs. */
  close(): Promise<void>;
}

interface UpstreamServices {
  readonly configuration: OutgoingSettings & { readonly providers: readonly IdentityProvider[] };
  readonly clock: Clock;
  readonly events: ServiceEmitter;
  readonly logger: Pick<Logger, "warn">;
}

/** For everything that a provider is asked at the start, or when somebody comes back. The page is there within ten seconds. */
export const PROVIDER_TIMEOUT_MS = 9_000;

/** The parameters of an answer that count (RFC 6749 section 4.1.2, RFC 9207). */
const ANSWER: ReadonlySet<string> = new Set(["code", "state", "error", "iss"]);

/** @param timeoutMs for tests. */
export function createUpstream(
  { configuration, clock, events, logger }: UpstreamServices,
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
    const made = createConnection(provider, configuration, clock, timeoutMs);
    connections.set(key, made);
    return made;
  }

  /** Ends the work in time, and turns whatever goes wrong into a fault. */
  async function ask<T>(key: string, work: (exchange: Exchange) => Promise<T>): Promise<T> {
    const connection = connectionOf(key);
    const late = new UpstreamFault("slow", "timeout");
    const stop = new AbortController();
    running.add(stop);
    const begun = monotonic.now();
    const spent = (): number => (monotonic.now() - begun) / 1000;
    try {
      const asked = connection.open(stop.signal).then(work);
      return await withTimeout(timeoutMs, asked, () => late);
    } catch (error) {
      const fault = faultOf(error);
      events.emit("provider.failed", { provider: key, reason: fault.reason, seconds: spent() });
      if (fault.reason !== "cancelled")
        logger.warn(
          { provider: key, reason: fault.reason, detail: fault.detail },
          "a provider could not be used",
        );
      throw fault;
    } finally {
      running.delete(stop);
      stop.abort(late);
    }
  }

  return {
    providers,
    async begin(key, departure) {
      events.emit("provider.started", { provider: key });
      return ask(key, (exchange) => depart(exchange, departure));
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
    async close() {
      for (const stop of running) stop.abort(new UpstreamFault("slow", "closed"));
      for (const connection of connections.values()) connection.close();
    },
  };
}

async function depart(
  { client, settings, provider }: Exchange,
  departure: Departure,
): Promise<{ url: string; trip: Trip }> {
  const verifier = client.randomPKCECodeVerifier();
  const { fresh, maxAge } = departure;
  const max_age = fresh === true ? 0 : maxAge;
  const trip: Trip = {
    provider: provider.key,
    state: client.randomState(),
    nonce: client.randomNonce(),
    verifier,
    redirect_uri: new URL(departure.redirectUri).href,
    ...(max_age !== undefined && { max_age }),
  };
  const parameters = {
    redirect_uri: trip.redirect_uri,
    scope: provider.scopes.join(" "),
    state: trip.state,
    nonce: PRESETS[provider.preset].metadata === undefined ? trip.nonce : undefined,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    ...PRESETS[provider.preset].parameters(departure, provider),
  };
  const given = Object.entries(parameters).filter((each): each is [string, string] => each[1] !== undefined);
  const url = client.buildAuthorizationUrl(settings, Object.fromEntries(given));
  return { url: url.href, trip };
}

async function comeBack(
  exchange: Exchange,
  trip: Trip,
  answer: URLSearchParams,
  clock: Clock,
): Promise<UpstreamIdentity> {
  const { client, settings, isOpenId } = exchange;
  const url = new URL(trip.redirect_uri);
  for (const [name, value] of answer) if (ANSWER.has(name)) url.searchParams.append(name, value);
  const tokens = await client.authorizationCodeGrant(settings, url, {
    expectedState: trip.state,
    pkceCodeVerifier: trip.verifier,
    ...(isOpenId && { expectedNonce: trip.nonce, idTokenExpected: true }),
  });
  return readIdentity(exchange, tokens, seconds(clock));
}
