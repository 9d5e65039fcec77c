/**
 * Trips to providers: a person leaves with a POST, and comes back once, in the same browser, for the same provider, deployment
 * and sign-in or account session. Besides `state`, the browser needs two cookies: that of the trip, and its own, which no
 * sibling host can plant.
 */
import { hash, randomBytes } from "node:crypto";
import type { Ref } from "../adapters/record-store.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import type { ProviderServices } from "../provider/services.ts";
import { cookieName } from "../provider/sessions/cookies.ts";
import { ACCOUNT } from "../records/directory/directory-kinds.ts";
import {
  returnedDigest,
  type StoredTrip,
  TRIP,
  TRIP_SECONDS,
  tripContext,
  tripDigest,
  type TripOwner,
} from "../records/people/trip-kinds.ts";
import type { Attempt } from "../accounts/limits/attempt-limits.ts";
import type { Transaction } from "../records/records.ts";
import { readCookie, setCookie } from "../core/cookies.ts";
import { isEqual } from "../core/sealing.ts";
import type { Trip, UpstreamFault, UpstreamIdentity } from "../upstream/upstream.ts";

/** How somebody leaves. */
export interface Departure {
  /** The key of the provider. */
  readonly provider: string;
  readonly owner: TripOwner;
  /** The greatest age of the sign-in there, in seconds. 0: a new one. Default: any. */
  readonly maxAge?: number | undefined;
  /** Whom to ask for, as the client said. */
  readonly loginHint?: string | undefined;
  /** The language of the page. */
  readonly locale: string;
}

/** Somebody who is back, with what the answer is checked with. The trip is over: it can't be taken again. */
export interface EndedTrip extends Pick<StoredTrip, "provider" | "owner" | "startedAt"> {
  readonly trip: Trip;
}

/** What a provider has answered: who it is, or why nobody came. */
export type Returned = { readonly identity: UpstreamIdentity } | { readonly fault: UpstreamFault["reason"] };

/** Somebody who is back at the account pages. `startedAt`: milliseconds since the epoch. */
export type ReturnedTrip = Returned & Pick<StoredTrip, "provider" | "startedAt">;

export interface Trips {
  /**
   * Takes the points, asks the provider where to go, stores the trip in the commit of this request, and sets the cookie.
   * @throws UpstreamFault if the provider can't be used; StorageUnavailable.
   */
  begin(
    ctx: ServiceContext,
    departure: Departure,
  ): Promise<{ readonly kind: "begun"; readonly location: string } | TooManyTrips>;
  /**
   * Ends the trip with this `state`, if this browser makes it to this provider at this deployment.
   * @returns why it can't: there is none, or another browser makes it.
   */
  end(ctx: ServiceContext, provider: string, state: string): Promise<EndedTrip | "gone" | "elsewhere">;
  /** Keeps what has come back to a session of an account, until the end of the ten minutes. The newest counts. */
  keep(ctx: ServiceContext, ended: EndedTrip, returned: Returned): Promise<void>;
  /** What has come back to this session of this account, if nothing has ended its sessions since. */
  returned(
    ctx: ServiceContext,
    person: { readonly sub: string; readonly session: string; readonly generation: number },
  ): Promise<ReturnedTrip | undefined>;
  /** Removes what {@link Trips.keep} has kept: it was used, or is not wanted. */
  forget(session: string): Promise<void>;
}

interface TooManyTrips {
  readonly kind: "limited";
  readonly attempt: Attempt;
}

/** The path of the callback of a provider, as the browser sees it. */
export const callbackPath = (provider: string): string => `/providers/${provider}/callback`;

/** Characters of the digest in the name of the cookie. */
const NAME_CHARACTERS = 16;
const SECRET = /^[\w-]{43}$/;

type Services = Pick<
  ProviderServices,
  "configuration" | "storage" | "sealer" | "limits" | "units" | "upstream" | "clock"
>;

export function createTrips({
  configuration,
  storage: { records },
  sealer,
  limits,
  units,
  upstream,
  clock,
}: Services): Trips {
  function setTripCookie(ctx: ServiceContext, provider: string, digest: string, value: string): void {
    const { path, secure } = ctx.exchange.deployment;
    setCookie(ctx, {
      name: nameOf(ctx, digest),
      value,
      lifetimeSeconds: value === "" ? 0 : TRIP_SECONDS,
      secure,
      path: path + callbackPath(provider),
    });
  }

  function nameOf({ exchange: { deployment } }: ServiceContext, digest: string): string {
    const name = cookieName(configuration, `trip_${digest.slice(0, NAME_CHARACTERS)}`);
    return `${deployment.secure ? "__Secure-" : ""}${name}`;
  }

  /** With the other writes of the request, if it collects them. Nobody comes back to an account that is deleted meanwhile. */
  async function store(trip: StoredTrip): Promise<void> {
    const { sub } = trip.owner;
    const put = async (tx: Transaction): Promise<void> => {
      const [owner] = sub === undefined ? [] : await tx.peekAll([ACCOUNT.ref(sub)]);
      // A session has one that has come back: the newest.
      if (sub === undefined || owner !== undefined) tx.overwrite(TRIP.record(trip));
    };
    const unit = units.current();
    if (unit === undefined) await records.transact(put);
    else unit.alongside(put);
  }

  /** Of several that remove it at once, one succeeds. */
  const remove = (ref: Ref): Promise<boolean> =>
    records.transact(async (tx) => {
      if ((await tx.get(ref)) === undefined) return false;
      tx.remove(ref);
      return true;
    });

  async function find(digest: string): Promise<StoredTrip | undefined> {
    const found = await records.find(TRIP.ref(digest));
    return found !== undefined && found.value.expiresAt > clock.now() ? found.value : undefined;
  }

  return {
    async begin(ctx, { provider, owner, maxAge, loginHint, locale }) {
      const { deployment, browser, address } = ctx.exchange;
      const about = owner.kind === "sign-in" ? owner.uid : owner.sub;
      const attempt = await limits.trip({ about, address });
      if (!attempt.allowed) return { kind: "limited", attempt };
      const { url, trip } = await ctx.exchange.outside(() =>
        upstream.begin(provider, {
          redirectUri: deployment.url + callbackPath(provider),
          locale,
          ...(maxAge !== undefined && { maxAge }),
          ...(maxAge === 0 && { fresh: true }),
          ...(loginHint !== undefined && { loginHint }),
        }),
      );
      const secret = randomBytes(32).toString("base64url");
      const digest = tripDigest(trip.state);
      const startedAt = Math.floor(clock.now());
      await store({
        digest,
        provider,
        deployment: deployment.kind,
        browser: browser.digest,
        cookie: hash("sha256", secret, "base64url"),
        owner,
        sealed: sealer.seal(tripContext(digest), JSON.stringify(trip)),
        startedAt,
        expiresAt: startedAt + TRIP_SECONDS * 1_000,
      });
      browser.remember(ctx);
      setTripCookie(ctx, provider, digest, secret);
      return { kind: "begun", location: url };
    },

    async end(ctx, provider, state) {
      const { deployment, browser } = ctx.exchange;
      const digest = tripDigest(state);
      const trip = await find(digest);
      if (trip === undefined || trip.provider !== provider || trip.deployment !== deployment.kind)
        return "gone";
      const secret = readCookie(ctx, nameOf(ctx, digest)) ?? "";
      const isOwn =
        SECRET.test(secret) &&
        isEqual(hash("sha256", secret, "base64url"), trip.cookie) &&
        isEqual(browser.digest, trip.browser);
      if (!isOwn) return "elsewhere";
      setTripCookie(ctx, provider, digest, "");
      if (!(await remove(TRIP.ref(digest)))) return "gone";
      return { ...trip, trip: JSON.parse(sealer.open(tripContext(digest), trip.sealed)) as Trip };
    },

    async keep(ctx, { provider, owner, startedAt }, returned) {
      if (owner.kind !== "account") return;
      const digest = returnedDigest(owner.session);
      await store({
        digest,
        provider,
        deployment: ctx.exchange.deployment.kind,
        browser: ctx.exchange.browser.digest,
        cookie: "",
        owner,
        sealed: sealer.seal(tripContext(digest), JSON.stringify(returned)),
        startedAt,
        expiresAt: startedAt + TRIP_SECONDS * 1_000,
      });
    },

    async returned({ exchange: { browser } }, { sub, session, generation }) {
      const digest = returnedDigest(session);
      const trip = await find(digest);
      if (trip === undefined || !isEqual(browser.digest, trip.browser)) return undefined;
      const { owner, provider, startedAt } = trip;
      if (owner.kind !== "account" || owner.sub !== sub || owner.generation !== generation) return undefined;
      const returned = JSON.parse(sealer.open(tripContext(digest), trip.sealed)) as Returned;
      return { ...returned, provider, startedAt };
    },

    forget: async (session) => void (await remove(TRIP.ref(returnedDigest(session)))),
  };
}
