/** From a request to its endpoint: by the full original path, exactly, and by host only where paths are equal. */
import type { Context, Middleware } from "koa";
import { endpointsOf, type EndpointName } from "../config/addresses.ts";
import type { Deployment } from "../config/configuration.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { accountSteps } from "./account.ts";
import { answerError, takeBack } from "./answers.ts";
import { callerAddress, requestedHost } from "./caller.ts";
import { EndpointError } from "./endpoint-error.ts";
import { compose, endpointTable } from "./endpoints.ts";
import type { CompatDependencies, Exchange, Step } from "./exchange.ts";
import { Fields } from "./form-fields.ts";
import { lateBody, receiveForm } from "./request-body.ts";
import { createWithinTime, type WithinTime } from "./within-time.ts";

/** Milliseconds, from the last byte of a request, in which something of it may be committed: below the 5 s that are promised. */
const DEADLINE = 4_500;

/**
 * Milliseconds, from its last byte, after which a request is given up: later than its deadline, so that a commit that
 * is under way can still say what became of it.
 */
const PATIENCE = 4_800;

/** Milliseconds that a body has to arrive: much for 64 KiB. */
const LONGEST_BODY = 10_000;

/**
 * Milliseconds between the head of a request and its last byte that count as being under way: a head that was sent
 * long ago and kept for a stolen code says nothing.
 */
const LONGEST_UNDER_WAY = 1_000;

interface Route {
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  readonly methods: readonly string[];
  readonly steps: ReadonlyMap<string, Step>;
}

interface Routes {
  readonly exact: ReadonlyMap<string, readonly Route[]>;
  /** Paths that end in one segment of their own: everything before it, with the slash. */
  readonly withUid: ReadonlyMap<string, readonly Route[]>;
}

const ONE_SEGMENT = /^[A-Za-z0-9_-]{1,255}$/;

function composed(rows: Readonly<Record<string, readonly Step[]>>): ReadonlyMap<string, Step> {
  return new Map(Object.entries(rows).map(([method, list]) => [method, compose(list)]));
}

function buildRoutes(dependencies: CompatDependencies): Routes {
  const exact = new Map<string, Route[]>();
  const withUid = new Map<string, Route[]>();
  const table = endpointTable(dependencies);
  const { oauth2, openid } = dependencies.configuration.deployments;
  function add(path: string, route: Route): void {
    const isDynamic = path.endsWith("/:uid");
    const full = route.deployment.path + (isDynamic ? path.slice(0, -":uid".length) : path);
    const map = isDynamic ? withUid : exact;
    map.set(full, [...(map.get(full) ?? []), route]);
  }
  for (const deployment of [oauth2, openid]) {
    if (deployment === undefined) continue;
    for (const { name, methods, path } of endpointsOf(deployment)) {
      const rows = table[name];
      if (rows !== undefined) add(path, { deployment, endpoint: name, methods, steps: composed(rows) });
    }
    for (const page of dependencies.accountPages) {
      const rows = accountSteps(page);
      add(page.path, { deployment, endpoint: "account", methods: Object.keys(rows), steps: composed(rows) });
    }
  }
  return { exact, withUid };
}

/** The path and the one segment at its end, if it is one of the paths that have it. */
function match(
  routes: Routes,
  path: string,
): { readonly candidates: readonly Route[]; readonly uid?: string } | undefined {
  const candidates = routes.exact.get(path);
  if (candidates) return { candidates };
  const slash = path.lastIndexOf("/") + 1;
  const below = routes.withUid.get(path.slice(0, slash));
  const uid = path.slice(slash);
  return below && ONE_SEGMENT.test(uid) ? { candidates: below, uid } : undefined;
}

/** Which endpoint a request is for. */
export interface Place {
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path below the base URL. */
  readonly path: string;
  /** The segment at the end of the path, where the endpoint has one. */
  readonly uid: string | undefined;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly deadline: number;
}

export interface ServiceRoutes {
  /** Serves both deployments; what is not theirs goes on to the host application. */
  readonly middleware: Middleware;
  /** The endpoint of a request; `undefined` when it is not for this service. */
  locate(ctx: Context): Place | undefined;
}

export function createRoutes(dependencies: CompatDependencies): ServiceRoutes {
  const { configuration, connections } = dependencies;
  const { stripPrefix, proxy, clock } = configuration;
  const routes = buildRoutes(dependencies);
  const times = {
    body: createWithinTime(LONGEST_BODY, lateBody),
    work: createWithinTime(PATIENCE, () => new StorageUnavailable("the request was not done in time")),
  };

  /** The route and the path below its base URL. */
  function find(
    ctx: Context,
  ): { readonly route: Route; readonly path: string; readonly uid: string | undefined } | undefined {
    const url = ctx.originalUrl;
    const question = url.indexOf("?");
    const path = stripPrefix + (question === -1 ? url : url.slice(0, question));
    const found = match(routes, path);
    if (found === undefined) return undefined;
    const [first, ...others] = found.candidates;
    const host = others.length === 0 ? "" : requestedHost(ctx.req, proxy).toLowerCase();
    const route =
      others.length === 0 ? first : found.candidates.find(({ deployment }) => deployment.host === host);
    if (route === undefined) return undefined;
    return { route, path: path.slice(route.deployment.path.length), uid: found.uid };
  }

  return {
    locate(ctx) {
      const startedAt = clock.now();
      const found = find(ctx);
      if (found === undefined) return undefined;
      const { deployment, endpoint } = found.route;
      const { path, uid } = found;
      return { deployment, endpoint, path, uid, startedAt, deadline: startedAt + DEADLINE };
    },
    async middleware(ctx, next) {
      const startedAt = clock.now();
      const found = find(ctx);
      if (found === undefined) {
        await next();
        return;
      }
      await dependencies.arrived();
      const { route, path, uid } = found;
      const exchange: Exchange = {
        ctx,
        deployment: route.deployment,
        endpoint: route.endpoint,
        path,
        uid,
        startedAt,
        underWaySince: connections.underWaySince(ctx.req, startedAt),
        deadline: startedAt + DEADLINE,
        form: noForm,
        address: callerAddress(ctx.req, proxy),
        outcome: [],
        ended: [],
      };
      await serve(exchange, route, { dependencies, times });
    },
  };
}

interface Times {
  readonly body: WithinTime;
  readonly work: WithinTime;
}

const noForm = (): Promise<Fields> => Promise.resolve(new Fields());

/** A body that comes slowly takes time from nobody but who sends it: the time of the service begins with its last byte. */
async function receive(
  exchange: Exchange,
  inTime: WithinTime,
  { clock }: CompatDependencies["configuration"],
): Promise<void> {
  exchange.form = await receiveForm(exchange.ctx, inTime);
  const arrivedAt = clock.now();
  exchange.underWaySince = Math.max(exchange.underWaySince, arrivedAt - LONGEST_UNDER_WAY);
  exchange.deadline = arrivedAt + DEADLINE;
}

/** It may go on when the request was given up long since. */
async function work(exchange: Exchange, step: Step): Promise<void> {
  try {
    await step(exchange, () => Promise.resolve());
  } finally {
    for (const end of exchange.ended) end();
  }
}

async function serve(
  exchange: Exchange,
  route: Route,
  { dependencies, times }: { readonly dependencies: CompatDependencies; readonly times: Times },
): Promise<void> {
  const { ctx } = exchange;
  const before = ctx.res.getHeaders();
  const { deployment, uid: interactionUid, address } = exchange;
  // The host application's state stays its own.
  const hostState = ctx.state;
  ctx.state = { deployment, interactionUid, address, form: () => exchange.form() };
  try {
    const step = route.methods.includes(ctx.method)
      ? (route.steps.get(ctx.method) ?? route.steps.get("*"))
      : undefined;
    if (step === undefined) {
      throw new EndpointError(405, "invalid_request", `the method must be ${route.methods.join(" or ")}`, {
        allow: route.methods,
      });
    }
    ctx.set("Cache-Control", "no-store");
    if (ctx.method === "POST") await receive(exchange, times.body, dependencies.configuration);
    await times.work(work(exchange, step));
  } catch (error) {
    takeBack(exchange, before);
    ctx.body = null;
    await answerError(exchange, error, dependencies);
    return;
  } finally {
    ctx.state = hostState;
  }
  for (const tell of exchange.outcome) tell();
}
