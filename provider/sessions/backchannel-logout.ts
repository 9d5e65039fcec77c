/**
 * OpenID Connect Back-Channel Logout 1.0: clients learn that a session has ended. Each gets at most three attempts. A
 * logout token is not a notification: it is not stored, and one that can't be delivered is lost.
 */
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Client, Provider } from "oidc-provider";
import type { Configuration } from "../../config/configuration.ts";
import type { ArtifactStore } from "../../records/artifacts/artifact-store.ts";
import type { StoredArtifact } from "../../records/artifacts/artifact.ts";
import type { SessionsEnded } from "../../accounts/account-change.ts";
import type { BackchannelFailure, ServiceEmitter } from "../../core/events.ts";
import { AddressRefused, createGuardedAgents, type GuardedAgents } from "../../core/outbound-agents.ts";
import { type AddressRules, createAddressRules } from "../../core/outbound-addresses.ts";

export interface BackchannelLogout {
  /** Repeats the attempts of this instance that fail. oidc-provider makes the first one when someone signs out. */
  listen(provider: Provider): void;
  /** Begins to notify the clients of the account's sessions, except the one that is kept. Does not wait for them. */
  sessionsEnded(provider: Provider, ended: SessionsEnded): Promise<void>;
  /** Begins to notify the clients of one session that has ended. Does not wait for them. */
  sessionEnded(provider: Provider, sub: string, session: Pick<StoredArtifact, "payload">): Promise<void>;
  /** Gives up the attempts that are due later; resolves when none is in flight. */
  stop(): Promise<void>;
}

/** Before the second and the third attempt. */
const RETRY_DELAYS_SECONDS = [2, 10];

interface Authorizations {
  readonly [clientId: string]: { readonly sid?: string } | undefined;
}

/** A client of oidc-provider, with a method that its types leave out. */
interface LogoutClient {
  readonly clientId: string;
  readonly backchannelLogoutUri?: string;
  backchannelLogout(sub: string, sid: string): Promise<void>;
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

/** One logout token: oidc-provider makes a new one for each attempt. */
interface Logout {
  readonly client: LogoutClient;
  readonly sub: string;
  readonly sid: string;
}

function asLogout(client: Client, sub: string, sid: string): Logout {
  return { client: client as unknown as LogoutClient, sub, sid };
}

/** @param onWarning called with a sentence for each client that could not be notified. */
export function createBackchannelLogout(
  artifacts: Pick<ArtifactStore, "sessionsOf">,
  events: ServiceEmitter,
  onWarning: (text: string) => void,
): BackchannelLogout {
  const inFlight = new Set<Promise<void>>();
  /** The timers of later attempts, each with the function that gives up. */
  const later = new Map<NodeJS.Timeout, () => void>();
  let isStopped = false;

  function delivered({ client }: Logout, attempts: number): void {
    events.emit("backchannel.delivered", { client_id: client.clientId, attempts });
  }

  function giveUp({ client: { clientId } }: Logout, reason: BackchannelFailure, attempts: number): void {
    const tried = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    onWarning(`${clientId} was not notified that a session ended (${reason}, after ${tried})`);
    events.emit("backchannel.failed", { client_id: clientId, reason, attempts });
  }

  /** @param attempts how many there were, this one included. */
  function failed(logout: Logout, error: unknown, attempts: number): void {
    const reason = failureOf(error);
    // The address rules will not change within seconds.
    const delay = reason === "refused_address" || isStopped ? undefined : RETRY_DELAYS_SECONDS[attempts - 1];
    if (delay === undefined) return giveUp(logout, reason, attempts);
    const timer = setTimeout(() => {
      later.delete(timer);
      attempt(logout, attempts + 1);
    }, delay * 1000).unref();
    later.set(timer, () => giveUp(logout, reason, attempts));
  }

  function attempt(logout: Logout, attempts: number): void {
    const { client, sub, sid } = logout;
    const sending = client
      .backchannelLogout(sub, sid)
      .then(
        () => delivered(logout, attempts),
        (error: unknown) => failed(logout, error, attempts),
      )
      .finally(() => inFlight.delete(sending));
    inFlight.add(sending);
  }

  async function sessionEnded(
    provider: Provider,
    sub: string,
    { payload }: Pick<StoredArtifact, "payload">,
  ): Promise<void> {
    const authorizations = (payload["authorizations"] ?? {}) as Authorizations;
    for (const [clientId, { sid = "" } = {}] of Object.entries(authorizations)) {
      const client = (await provider.Client.find(clientId)) as unknown as LogoutClient | undefined;
      if (client?.backchannelLogoutUri !== undefined) attempt({ client, sub, sid }, 1);
    }
  }

  return {
    listen(provider) {
      provider.on("backchannel.success", (_ctx, client, sub, sid) =>
        delivered(asLogout(client, sub, sid), 1),
      );
      provider.on("backchannel.error", (_ctx, error, client, sub, sid) =>
        failed(asLogout(client, sub, sid), error, 1),
      );
    },
    async sessionsEnded(provider, { sub, keepSession }) {
      const sessions = await artifacts.sessionsOf(sub);
      for (const session of sessions) {
        if (session.uid !== undefined && session.uid === keepSession) continue;
        await sessionEnded(provider, sub, session);
      }
    },
    sessionEnded,
    async stop() {
      isStopped = true;
      for (const [timer, abandon] of later) {
        clearTimeout(timer);
        abandon();
      }
      later.clear();
      await Promise.allSettled(inFlight);
    },
  };
}

/** Bytes of a response that are read. */
const MAX_READ_BYTES = 64 * 1024;
/** Statuses without a body: `Response` refuses one. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** oidc-provider passes its guard against special-use addresses as `dispatcher`. */
type GuardedInit = RequestInit & { dispatcher?: unknown };

/** The response with the beginning of its body. Rejects when the connection breaks. */
async function toResponse(message: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_READ_BYTES) break;
  }
  const { statusCode: status = 0 } = message;
  const body = BODILESS.has(status) ? null : Buffer.concat(chunks);
  const type = message.headers["content-type"];
  return new Response(body, { status, ...(type === undefined ? {} : { headers: { "content-type": type } }) });
}

function closedEarly(): Error {
  return Object.assign(new Error("the connection was closed without an answer"), { code: "ECONNRESET" });
}

/** Follows no redirects, decompresses nothing and keeps no connections. */
async function guardedFetch(agents: GuardedAgents, logout: Request): Promise<Response> {
  try {
    return await sendGuarded(agents, logout);
  } catch (error) {
    // Like `fetch`, which rejects with the reason of an aborted signal.
    throw logout.signal.aborted ? logout.signal.reason : error;
  }
}

async function sendGuarded(agents: GuardedAgents, logout: Request): Promise<Response> {
  const url = new URL(logout.url);
  const body = Buffer.from(await logout.arrayBuffer());
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const request = send(url, {
      method: logout.method,
      headers: Object.fromEntries(logout.headers),
      agent: agents.agentFor(url.protocol),
      signal: logout.signal,
    });
    request.on("response", resolve);
    request.on("error", reject);
    request.on("close", () => reject(closedEarly()));
    request.end(body);
  });
  return toResponse(message);
}

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

/** `fetch` of oidc-provider: logout tokens obey the address rules of notifications. */
export function backchannelFetch({ fetch: ownFetch, notifications }: Configuration): typeof globalThis.fetch {
  const rules = createAddressRules(notifications.allowedReceivers);
  if (ownFetch !== undefined) return hostFetch(ownFetch, rules);
  const agents = createGuardedAgents({ rules, keep: 0 });
  return (target, init) => {
    const { dispatcher: _guard, ...rest } = (init ?? {}) as GuardedInit;
    return guardedFetch(agents, new Request(target, rest));
  };
}
