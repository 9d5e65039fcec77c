/** The servers that are compared at OAuth endpoints, and the requests to them. */
import { join } from "node:path";
import { startDistance } from "./distance.ts";
import { CONNECTIONS, type LoadRequest, type LoadResult, once } from "./load.ts";
import {
  basic,
  CALLBACK,
  CLIENT,
  type Credentials,
  ID_TOKEN_CLIENTS,
  type IdTokenAlgorithm,
} from "./servers/people.ts";
import { signIn, signInMany } from "./session.ts";
import { type BenchRedis, startRedis } from "./redis.ts";
import type { Effort, Sample } from "./rounds.ts";
import { LOAD_CORE, type Side, startSide } from "./side.ts";

/** What a code exchange needs from a server. */
export interface ExchangeSide {
  readonly base: string;
  exchange(code: string): LoadRequest;
  /** New codes. */
  codes(count: number): Promise<readonly string[]>;
  cpuTime(): number;
}

/** A server on which an end user is signed in. */
export interface OauthSide extends ExchangeSide {
  /** A request that returns a code. */
  readonly authorize: LoadRequest;
  /** The status of a redirect with a code. */
  readonly redirectStatus: number;
  /** The same exchanges, with an ID token of this algorithm. */
  withIdToken(algorithm: IdTokenAlgorithm): ExchangeSide;
  refresh(token: string): LoadRequest;
  userinfo(token: string): LoadRequest;
  /** An access token for userinfo. */
  accessToken(): Promise<string>;
  /** Complete sign-ins of parallel browsers. @returns sign-ins per second. */
  signIns(count: number, browsers: number): Promise<number>;
  stop(): Promise<void>;
}

/** The same scope on both, for which no ID token is signed. */
const SCOPES = { service: "", "oidc-provider": "account" } as const;
const PATHS = {
  service: { authorize: "/oauth2/authorize", token: "/oauth2/token", userinfo: "/resources/userinfo" },
  "oidc-provider": { authorize: "/auth", token: "/token", userinfo: "/me" },
} as const;

const CODE = /[?&]code=([A-Za-z0-9_-]+)/;

type Kind = keyof typeof PATHS;

const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** The deployment of the service that issues ID tokens. */
const OPENID = { service: "/openid", "oidc-provider": "" } as const;

function authorizePath(kind: Kind, scope: string, { client_id }: Credentials = CLIENT): string {
  const query = new URLSearchParams({
    client_id,
    response_type: "code",
    redirect_uri: CALLBACK,
  });
  if (scope !== "") query.set("scope", scope);
  return `${PATHS[kind].authorize}?${query.toString()}`;
}

function token(
  kind: Kind,
  fields: Readonly<Record<string, string>>,
  client: Credentials = CLIENT,
): LoadRequest {
  const headers = { ...FORM, authorization: basic(client) };
  const body = new URLSearchParams(fields).toString();
  return { method: "POST", target: PATHS[kind].token, headers, body };
}

function withSide(kind: Kind, side: Side, cookie: string): OauthSide {
  const base = side.ready["base"] ?? "";
  const authorize: LoadRequest = {
    method: "GET",
    target: authorizePath(kind, SCOPES[kind]),
    headers: { cookie },
  };
  const redirectStatus = kind === "service" ? 302 : 303;
  const exchange = (code: string): LoadRequest =>
    token(kind, { grant_type: "authorization_code", code, redirect_uri: CALLBACK });
  return {
    base,
    authorize,
    redirectStatus,
    exchange,
    withIdToken(algorithm) {
      const client = ID_TOKEN_CLIENTS[algorithm];
      const prefix = OPENID[kind];
      const request = { ...authorize, target: prefix + authorizePath(kind, "openid", client) };
      return {
        base,
        exchange(code) {
          const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
          const asked = token(kind, fields, client);
          return { ...asked, target: prefix + asked.target };
        },
        async codes(count) {
          const requests = Array.from({ length: count }, () => request);
          return (await once(base, requests, { status: redirectStatus, find: CODE })).found;
        },
        cpuTime: () => side.cpuTime(),
      };
    },
    refresh: (refresh_token) => token(kind, { grant_type: "refresh_token", refresh_token }),
    userinfo: (access) => ({
      method: "GET",
      target: `${PATHS[kind].userinfo}?client_id=${CLIENT.client_id}`,
      headers: { authorization: `Bearer ${access}` },
    }),
    async codes(count) {
      const requests = Array.from({ length: count }, () => authorize);
      return (await once(base, requests, { status: redirectStatus, find: CODE })).found;
    },
    async accessToken() {
      const { code } = await signIn(base + authorizePath(kind, "openid"));
      const { target, headers, body = "" } = exchange(code);
      const response = await fetch(base + target, { method: "POST", headers, body });
      return ((await response.json()) as { access_token: string }).access_token;
    },
    signIns: (count, browsers) =>
      signInMany({ url: base + authorize.target, bases: [base], browsers, count }),
    cpuTime: () => side.cpuTime(),
    stop: () => side.stop(),
  };
}

/** Where the two store their artifacts: in Redis if it is set, otherwise in their SQLite files. */
export interface Stores {
  readonly folder: string;
  readonly redis?: Pick<BenchRedis, "url">;
  /** Where the service stores everything else. Default: in its SQLite file. */
  readonly storage?: string;
}

async function start(
  kind: Kind,
  { folder, redis, ...stores }: Stores,
  checkout?: string,
): Promise<OauthSide> {
  const name = checkout === undefined ? kind : "other-checkout";
  const file = join(folder, `${name}${redis === undefined ? "" : "-redis"}.db`);
  // Separate databases, because the two don't know each other's keys.
  const place = redis === undefined ? {} : { redis: `${redis.url}/${name === "service" ? 0 : 1}` };
  const side = await startSide(kind, {
    options: { file, ...place, ...stores },
    checkout,
  });
  const { cookie } = await signIn(`${side.ready["base"] ?? ""}${authorizePath(kind, SCOPES[kind])}`);
  return withSide(kind, side, cookie);
}

/** Starts the service alone. */
export function startService(stores: Stores): Promise<OauthSide> {
  return start("service", stores);
}

/** Starts oidc-provider alone. */
export function startOidcProvider(stores: Stores): Promise<OauthSide> {
  return start("oidc-provider", stores);
}

type Work<T> = (service: OauthSide, other: OauthSide) => Promise<T>;

async function beside<T>(stores: Stores, startOther: () => Promise<OauthSide>, work: Work<T>): Promise<T> {
  const service = await start("service", stores);
  try {
    const other = await startOther();
    try {
      return await work(service, other);
    } finally {
      await other.stop();
    }
  } finally {
    await service.stop();
  }
}

/** Runs the work on the service and oidc-provider, each with its own stores. */
export function withBoth<T>(stores: Stores, work: Work<T>): Promise<T> {
  return beside(stores, () => startOidcProvider(stores), work);
}

/** Runs the work on the services of two checkouts, each with its own stores. */
export function withOther<T>(stores: Stores, checkout: string, work: Work<T>): Promise<T> {
  return beside(stores, () => start("service", stores, checkout), work);
}

/** Prepares one kind of request for a side, for a number of parallel connections. The result sends them all. */
export type OauthLoad = (
  side: OauthSide,
  effort: Effort,
  connections: number,
) => Promise<() => Promise<Sample>>;

/** The speed of a server, and the CPU time that it used. */
export async function metered(
  { cpuTime }: Pick<OauthSide, "cpuTime">,
  send: () => Promise<Pick<LoadResult, "perSecond" | "answered">>,
): Promise<Sample> {
  const before = cpuTime();
  const { perSecond, answered } = await send();
  return { perSecond, cpu: cpuTime() - before, answered };
}

/** A set of stores on which both are compared. */
export interface Ground {
  /** The adapter that oidc-provider uses, and further remarks, for the table. */
  readonly against: string;
  readonly stores: Stores;
  /** Parallel requests. */
  readonly connections: number;
}

/** Milliseconds to a Redis on another machine in the same data center. */
const DISTANCE = 0.5;
/** Parallel requests of a server that is not saturated. */
const HANDFUL = 4;

/**
 * Runs the work on SQLite, then on SQLite with Redis for the artifacts. Redis shares the core of the load, so it takes
 * nothing from the server, as if it ran on another machine. First without a delay and with as many requests as the
 * server can process, which measures CPU; then with the delay of a network and few requests.
 */
export async function onEachGround<T>(
  folder: string,
  work: (ground: Ground) => Promise<readonly T[]>,
): Promise<T[]> {
  const connections = CONNECTIONS;
  const rows = [
    ...(await work({ against: "oidc-provider, SQLite adapter", stores: { folder }, connections })),
  ];
  const redis = await startRedis(folder, LOAD_CORE);
  const far = await startDistance(redis.port, DISTANCE);
  try {
    const against = "oidc-provider, Redis adapter";
    rows.push(...(await work({ against, stores: { folder, redis }, connections })));
    const stores = { folder, redis: { url: `redis://127.0.0.1:${far.port}` } };
    rows.push(...(await work({ against: `${against}, ${DISTANCE} ms away`, stores, connections: HANDFUL })));
  } finally {
    await far.stop();
    await redis.stop();
  }
  return rows;
}
