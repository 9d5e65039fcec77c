/** A sign-in that has ended: why, and the way to start the same authorization again. */
import { isInternal } from "../accounts/clients/client.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import { artifactKey } from "../provider/adapter.ts";
import type { EndedReason } from "../provider/pages.ts";
import type { ProviderServices } from "../provider/services.ts";
import { cookieName } from "../provider/sessions/cookies.ts";
import type { Artifact } from "../records/artifacts/artifact.ts";
import { hasCookie } from "../core/cookies.ts";
import { receivedQuery, type RequestSeals, type SealedRequest } from "./again.ts";
import { clientLook } from "./protocol.ts";
import type { SignInClient } from "./steps/running-sign-in.ts";

/** What a page or a program has sent to the address of the sign-in. */
export interface SentAgain {
  /** The sealed request, from a page of the sign-in. */
  readonly again?: string | undefined;
  /** The name that the person has typed there. Everything else is lost. */
  readonly username?: string | undefined;
}

export interface EndedSignIn {
  readonly reason: EndedReason;
  /** The client that the person wanted to go to, if it is known here. */
  readonly client?: SignInClient;
  /** The sealed request, with the name that was typed; missing if nobody has it. */
  readonly again?: string;
  /** Where the same authorization starts again, as a new request with every check. It comes with `again`. */
  readonly location?: string;
  /** `ui_locales` of the request. */
  readonly uiLocales?: string;
}

export interface EndedSignIns {
  /** About the sign-in of this address, which this browser does not have. It runs in a unit of work. */
  find(ctx: ServiceContext, sent?: SentAgain): Promise<EndedSignIn>;
}

/** The longest e-mail address. */
const MAX_NAME_LENGTH = 254;

/**
 * A browser that blocks cookies gets its first page without any. Only so soon after the beginning is that page taken for the
 * one that has begun the sign-in: its address alone must not reveal the request, such as its `state`.
 */
const BLOCKED_WITHIN_MS = 60_000;

interface StoredSignIn {
  readonly iat?: number;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly parJti?: string;
}

export function createEndedSignIns(
  {
    configuration,
    units,
    clients,
    clock,
  }: Pick<ProviderServices, "configuration" | "units" | "clients" | "clock">,
  seals: RequestSeals,
): EndedSignIns {
  // A browser has it for a sign-in until that expires.
  const interactionCookie = cookieName(configuration, "interaction");

  /** The stored sign-in at this address. Another browser may have it. */
  async function stored(uid: string): Promise<Artifact | undefined> {
    const artifact = await units.required().find("Interaction", artifactKey(uid));
    return artifact !== undefined && artifact.expiresAt > clock.now() ? artifact : undefined;
  }

  /** The request of a browser that has just begun this sign-in, and blocks cookies. */
  function blocked(artifact: Artifact): SealedRequest | undefined {
    const { iat = 0, params, parJti } = artifact.payload as StoredSignIn;
    if (params === undefined || parJti !== undefined) return undefined;
    if (clock.now() > iat * 1_000 + BLOCKED_WITHIN_MS) return undefined;
    return {
      query: receivedQuery(params),
      browser: artifact.browser ?? "",
      expiresAt: artifact.expiresAt,
      sealedAt: Math.floor(clock.now()),
    };
  }

  function reasonOf(
    ctx: ServiceContext,
    request: SealedRequest | undefined,
    artifact: Artifact | undefined,
  ): EndedReason {
    if (!ctx.req.headers.cookie) return "no-cookies";
    const digest = ctx.exchange.browser.digest;
    const owner = request?.browser ?? artifact?.browser;
    if (owner !== undefined && owner !== digest) return "elsewhere";
    if (request !== undefined) return request.expiresAt <= clock.now() ? "expired" : "complete";
    // The browser forgets this cookie when the sign-in expires.
    return artifact !== undefined || hasCookie(ctx, interactionCookie) ? "complete" : "expired";
  }

  async function find(
    ctx: ServiceContext,
    { again = "", username = "" }: SentAgain = {},
  ): Promise<EndedSignIn> {
    const { uid = "", deployment } = ctx.exchange;
    const sent = seals.open(ctx, uid, again);
    const artifact = sent === undefined ? await stored(uid) : undefined;
    const reason = reasonOf(ctx, sent, artifact);
    const request = sent ?? (artifact && reason === "no-cookies" ? blocked(artifact) : undefined);
    const { params = {} } = (artifact?.payload ?? {}) as StoredSignIn;
    const query = new URLSearchParams(request?.query);
    const clientId = query.get("client_id") ?? params["client_id"];
    const record = typeof clientId === "string" ? await clients.record(clientId) : undefined;
    if (record === undefined || record.disabled) return { reason };
    const client: SignInClient = {
      client_id: record.client_id,
      name: record.name,
      ...(isInternal(record) && { own: true }),
      ...clientLook(record, deployment.path),
    };
    if (request === undefined) return { reason, client };
    const name = username.trim();
    if (name !== "" && name.length <= MAX_NAME_LENGTH) query.set("login_hint", name);
    const sealed = seals.seal(ctx, uid, { ...request, query: query.toString() });
    if (sealed === undefined) return { reason, client };
    const uiLocales = query.get("ui_locales");
    return {
      reason,
      client,
      again: sealed,
      location: `${deployment.url}/oauth2/authorize?${query}`,
      ...(uiLocales !== null && { uiLocales }),
    };
  }

  return { find };
}
