/**
 * The request of a sign-in, sealed into its pages, so that the same authorization can start again after the sign-in has
 * ended: the store has forgotten it by then.
 */
import type { KeyObject } from "node:crypto";
import type { ServiceContext } from "../provider/exchange.ts";
import { ALL_FIELDS } from "../provider/claims.ts";
import { SENT_ACR_VALUES, SENT_MAX_AGE } from "../provider/policy.ts";
import { SENT_STATE } from "../provider/responses.ts";
import type { Clock } from "../core/clock.ts";
import { createEncrypter } from "../core/sealing.ts";

/** What is sealed. Nothing that a person has typed is in it, but for the name. */
export interface SealedRequest {
  /** The query of the authorization request. */
  readonly query: string;
  /** The digest of the browser in which the sign-in began. */
  readonly browser: string;
  /** The end of the sign-in, in milliseconds since the epoch. */
  readonly expiresAt: number;
  /** When a page of the sign-in was made, in milliseconds since the epoch. */
  readonly sealedAt: number;
}

export interface RequestSeals {
  /** @returns `undefined` for a request that no address can hold. */
  seal(ctx: ServiceContext, uid: string, request: SealedRequest): string | undefined;
  /** @returns `undefined` if it was sealed for another sign-in, deployment or service, or more than a day ago. */
  open(ctx: ServiceContext, uid: string, sealed: string): SealedRequest | undefined;
}

/** 24 hours: somebody comes back to the page in the morning. */
const LIFETIME_MS = 86_400_000;
/** A longer query, which only a POST can send, does not fit into the headers of most servers. */
const MAX_QUERY_LENGTH = 8_000;

function context({ exchange: { deployment } }: ServiceContext, uid: string): string {
  return `sign-in again ${deployment.kind} ${uid}`;
}

/** @param keys the first seals, all open; at least one. */
export function createRequestSeals(keys: readonly KeyObject[], clock: Clock): RequestSeals {
  const encrypter = createEncrypter(keys);
  return {
    seal(ctx, uid, request) {
      if (request.query.length > MAX_QUERY_LENGTH) return undefined;
      return encrypter.encrypt(context(ctx, uid), JSON.stringify(request));
    },
    open(ctx, uid, sealed) {
      const text = encrypter.decrypt(context(ctx, uid), sealed);
      if (text === undefined) return undefined;
      const request = JSON.parse(text) as SealedRequest;
      return clock.now() < request.sealedAt + LIFETIME_MS ? request : undefined;
    },
  };
}

/** Our names of parameters that oidc-provider would change or refuse, and the names under which they came. */
const RECEIVED_AS: ReadonlyMap<string, string> = new Map([
  [SENT_STATE, "state"],
  [SENT_MAX_AGE, "max_age"],
  [SENT_ACR_VALUES, "acr_values"],
]);

/** The query that has led to these parameters of oidc-provider: what `compat/authorize.ts` makes of it is the same again. */
export function receivedQuery(params: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    for (const each of Array.isArray(value) ? value : [value]) {
      if (typeof each !== "string") continue;
      const received = RECEIVED_AS.get(name) ?? name;
      // A character in front keeps an empty state.
      if (name === SENT_STATE) query.append(received, each.slice(1));
      else if (name === "scope") appendScope(query, each);
      // oidc-provider copies ours.
      else if (received !== "state") query.append(received, each);
    }
  return query.toString();
}

/** Without the scope that only the service uses. */
function appendScope(query: URLSearchParams, scope: string): void {
  const scopes = scope.split(" ").filter((each) => each !== "" && each !== ALL_FIELDS);
  if (scopes.length > 0) query.append("scope", scopes.join(" "));
}
