/** The two servers that are compared at OAuth's endpoints: where these are, and the requests. */
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
import { signIn } from "./session.ts";
import { type BenchRedis, startRedis } from "./redis.ts";
import type { Effort, Sample } from "./rounds.ts";
import { LOAD_CORE, type Side, startSide } from "./side.ts";

/** What a code exchange needs of a server. */
export interface ExchangeSide {
  readonly base: string;
  exchange(code: string): LoadRequest;
  /** So many fresh codes. */
  codes(count: number): Promise<readonly string[]>;
  cpuTime(): number;
}

/** One of the two, with a person who is signed in. */
export interface OauthSide extends ExchangeSide {
  /** Requests that give a code each. */
  readonly authorize: LoadRequest;
  /** Status of a redirect with a code. */
  readonly redirectStatus: number;
  /** The same exchanges with an ID token of this algorithm. */
  withIdToken(algorithm: IdTokenAlgorithm): ExchangeSide;
  refresh(token: string): LoadRequest;
  userinfo(token: string): LoadRequest;
  /** An access token that opens userinfo. */
  accessToken(): Promise<string>;
  stop(): Promise<void>;
}

/** The same scope of nothing in particular on both: no ID token is signed. */
const SCOPES = { service: "", "oidc-provider": "account" } as const;
const PATHS = {
  service: { authorize: "/oauth2/authorize", token: "/oauth2/token", userinfo: "/resources/userinfo" },
  "oidc-provider": { authorize: "/auth", token: "/token", userinfo: "/me" },
} as const;

const CODE = /[?&]code=([A-Za-z0-9_-]+)/;

type Kind = keyof typeof PATHS;

const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** Where the service issues ID tokens: its other deployment. */
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
    cpuTime: () => side.cpuTime(),
    stop: () => side.stop(),
  };
}

/** Where the two keep their short-lived artifacts; with `redis` there, else in their SQLite file. */
export interface Stores {
  readonly folder: string;
  readonly redis?: Pick<BenchRedis, "url">;
  /** Where the service keeps everything else; left out: in an SQLite file. */
  readonly storage?: string;
}

async function start(kind: Kind, { folder, redis, storage }: Stores, checkout?: string): Promise<OauthSide> {
  const name = checkout === undefined ? kind : "other-checkout";
  const file = join(folder, `${name}${redis === undefined ? "" : "-redis"}.db`);
  // Databases of their own, for neither knows the keys of the other.
  const place = redis === undefined ? {} : { redis: `${redis.url}/${name === "service" ? 0 : 1}` };
  const side = await startSide(kind, {
    options: { file, ...place, ...(storage === undefined ? {} : { storage }) },
    checkout,
  });
  const { cookie } = await signIn(`${side.ready["base"] ?? ""}${authorizePath(kind, SCOPES[kind])}`);
  return withSide(kind, side, cookie);
}

/** The service by itself. */
export function startService(stores: Stores): Promise<OauthSide> {
  return start("service", stores);
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

/** The service and oidc-provider, each with stores of its own, for as long as the work lasts. */
export function withBoth<T>(stores: Stores, work: Work<T>): Promise<T> {
  return beside(stores, () => start("oidc-provider", stores), work);
}

/** The service of this checkout and of another one, each with stores of its own, for as long as the work lasts. */
export function withOther<T>(stores: Stores, checkout: string, work: Work<T>): Promise<T> {
  return beside(stores, () => start("service", stores, checkout), work);
}

/** Prepares one kind of request on a side, so many `connections` at once; what it gives sends all of them. */
export type OauthLoad = (
  side: OauthSide,
  effort: Effort,
  connections: number,
) => Promise<() => Promise<Sample>>;

/** The speed of a server, and the CPU that it used for it. */
export async function metered(
  { cpuTime }: Pick<OauthSide, "cpuTime">,
  send: () => Promise<Pick<LoadResult, "perSecond" | "answered">>,
): Promise<Sample> {
  const before = cpuTime();
  const { perSecond, answered } = await send();
  return { perSecond, cpu: cpuTime() - before, answered };
}

/** A kind of storage on which both are compared. */
export interface Ground {
  /** What oidc-provider uses there and what else is said of it, for the table. */
  readonly against: string;
  readonly stores: Stores;
  /** Requests at once. */
  readonly connections: number;
}

/** Milliseconds to a Redis that is another machine of the same place. */
const DISTANCE = 0.5;
/** Requests at once where people wait for an answer, not for a server that has more than it can do. */
const HANDFUL = 4;

/**
 * The work on SQLite, then on SQLite with Redis for the artifacts; all rows. Redis runs beside the load, for it is
 * another machine: first without any way to it and with as many requests as a server can take, where only what is
 * computed counts, then as far away as it would be, with a handful of requests.
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
