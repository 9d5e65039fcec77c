/** The middleware: finds the endpoint of a request, runs its handler within their time limits, and sends the response. */
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import type { Context, Middleware, Next } from "koa";
import { wideNetwork } from "../accounts/limits/networks.ts";
import { createTimeLimit, withTimeout } from "../core/with-timeout.ts";
import type { Configuration } from "../config/configuration.ts";
import { discoveryAdvice, type EndpointName } from "../config/deployments.ts";
import { type Exchange, newAuthentication, withExchange } from "../provider/exchange.ts";
import type { Browser } from "../provider/sessions/browser-cookie.ts";
import { StorageUnavailable } from "../core/errors.ts";
import { FairDoor } from "../core/fair-queue.ts";
import { Running } from "../core/running.ts";
import { remoteAddress, ignoredHeader } from "./forwarded.ts";
import { createDispatch, type Destination } from "./dispatch.ts";
import { createCrossOrigin, type CrossOriginRequest } from "./cross-origin.ts";
import { respondWithError, restoreHeaders } from "./error-responses.ts";
import { EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Handler } from "./exchange.ts";
import type { EndpointServices } from "./services.ts";
import { Fields } from "./form-fields.ts";
import { createLeadToHost } from "./other-host.ts";
import { requestIdOf, spanOf } from "./request-log.ts";
import {
  type BodyReader,
  createBodyReader,
  JSON_TYPE,
  readFields,
  readForm,
  readJson,
} from "./request-body.ts";
import { createWellKnown } from "./well-known.ts";

/** From the last byte of a request until it may no longer commit. A fault is answered within 5 s. */
export const COMMIT_TIMEOUT_MS = 4_500;

/** From the last byte of a request until it must have finished: a commit that is under way still gets a result. */
export const WORK_TIMEOUT_MS = 4_800;

/** Ample for 64 KiB. */
const BODY_TIMEOUT_MS = 10_000;

/** Between two warnings about an ignored forwarding header. */
const WARNING_INTERVAL_MS = 60 * 60 * 1000;

/** Submitted forms of sign-ins, after which networks take turns: as many as may wait for a hash. */
const MAX_SUBMITTED = 256;

/** How long running requests may take when the service closes. */
const DRAIN_TIMEOUT_MS = 30_000;

export interface ServiceRoutes {
  /** Serves both deployments; other requests fall through to the host application. */
  readonly middleware: Middleware;
  /** The exchange of a request before it is served; `undefined` if it is not for this service. */
  locate(ctx: Context): Exchange | undefined;
  /** What requests reveal about the proxies in front, for health checks: phrases for the operator. */
  readonly proxySigns: () => readonly string[];
  /** Resolves when no request of the service is running, after 30 seconds at most. */
  drain(): Promise<void>;
}

export function createRoutes(services: EndpointServices): ServiceRoutes {
  const { configuration, clients, documents, events, findBrowser, onWarning, onRequest, telemetry } =
    services;
  const find = createDispatch(services);
  const proxySigns = createProxySigns(services);
  const batchStart = createBatchStart();
  const receive = createReceiver(configuration);
  const crossOrigin = createCrossOrigin({ clients, documents, events });

  const begin = (koa: Context, destination: Destination): EndpointExchange =>
    new RequestExchange(koa, destination, configuration, findBrowser);

  const leadToHost = createLeadToHost(configuration, onWarning);
  const isWellKnown = createWellKnown(configuration);

  /** @returns the error if the request fails through no fault of its caller. */
  async function answer(exchange: EndpointExchange, destination: Destination): Promise<unknown> {
    if (leadToHost(exchange.ctx, destination)) return undefined;
    await batchStart();
    return serve(exchange, { destination, receive, crossOrigin: crossOrigin.begin(exchange) }, services);
  }

  const gate = createRequestGate(async (ctx, next) => {
    const destination = find(ctx);
    if (destination === undefined && isWellKnown(ctx)) return;
    if (destination === undefined || !(await isOffered(destination, services))) {
      await next();
      adviseOnDiscovery(ctx, configuration);
      return;
    }
    const exchange = begin(ctx, destination);
    proxySigns.note(ctx.req, destination);
    ctx.set("X-Request-Id", exchange.requestId);
    const span = spanOf(ctx, configuration.proxy, telemetry);
    const work = (): Promise<unknown> => answer(exchange, destination);
    let fault: unknown;
    try {
      fault = await (span === undefined ? work() : span.run(work));
    } finally {
      const { requestId, endpoint, receivedAt, address, client, retryAfter } = exchange;
      const seconds = (performance.now() - receivedAt) / 1000;
      const report = (): void =>
        onRequest({
          requestId,
          method: ctx.method,
          template: destination.route.template,
          endpoint,
          status: ctx.status,
          seconds,
          isAborted: !ctx.res.writableFinished,
          client: client?.client_id,
          address,
          fault,
          isLimited: retryAfter > 0,
          span,
        });
      if (ctx.res.closed) report();
      else ctx.res.once("close", report);
    }
  });
  return {
    middleware: gate.middleware,
    proxySigns: () => proxySigns.all(),
    drain: () => gate.close(),
    locate(ctx) {
      const destination = find(ctx);
      return destination === undefined || destination.isAmbiguous ? undefined : begin(ctx, destination);
    },
  };
}

interface RequestGate {
  readonly middleware: Middleware;
  /** Resolves when no request of the service is running, after 30 seconds at most. */
  close(): Promise<void>;
}

/**
 * Counts the running requests: `SignInService.close` promises to finish them, and the server belongs to the host. A
 * request that arrives later gets a 503, because the storage is closed.
 */
export function createRequestGate(routes: Middleware): RequestGate {
  const running = new Running();
  return {
    async middleware(ctx: Context, next: Next) {
      const leave = running.begin();
      // A request that falls through belongs to the host application: `close` does not wait for it.
      const pass: Next = () => {
        leave();
        return next();
      };
      try {
        await routes(ctx, pass);
      } finally {
        leave();
      }
    },
    async close() {
      await running.idle(DRAIN_TIMEOUT_MS);
    },
  };
}

/**
 * Without an API, the OAuth 2.0 deployment has nothing to introspect. The endpoint itself reports a fault of the storage. Nobody
 * comes back from a provider that is not configured.
 */
function isOffered(
  { route, uid }: Destination,
  { configuration, storage }: Pick<EndpointServices, "configuration" | "storage">,
): boolean | Promise<boolean> {
  const { endpoint, deployment } = route;
  if (endpoint === "providerCallback") return configuration.providers.some(({ key }) => key === uid);
  if (endpoint !== "introspect" || deployment.kind === "openid") return true;
  return storage.directory.hasApis().catch(() => true);
}

/** Tells a client where discovery is if it looked elsewhere and nothing else answered. */
function adviseOnDiscovery(ctx: Context, { deployments, stripPrefix }: Configuration): void {
  if (ctx.status !== 404 || (ctx.body ?? undefined) !== undefined) return;
  const [path = ""] = ctx.originalUrl.split("?", 1);
  const advice = discoveryAdvice(deployments, stripPrefix + path);
  if (advice === undefined) return;
  ctx.set("Cache-Control", "no-store");
  ctx.body = { error: "not_found", error_description: advice };
  ctx.status = 404;
}

/**
 * Resolves once everything that the event loop has received is read. Requests that arrive together then run together:
 * they share reads and commits, and their responses leave in one write. Under load a request costs three times the CPU
 * without it; a request that arrives alone is not delayed. See docs/decisions/0009.
 */
function createBatchStart(): () => Promise<void> {
  let start: Promise<void> | undefined;
  return () => {
    start ??= new Promise((resolve) => {
      setImmediate(() => {
        start = undefined;
        resolve();
      });
    });
    return start;
  };
}

interface ProxySigns {
  note(req: IncomingMessage, destination: Pick<Destination, "isAmbiguous">): void;
  all(): readonly string[];
}

/**
 * Remembers what requests reveal about the host application and the proxies in front. Warns at most once an hour about an
 * ignored forwarding header: without it, all callers share the address of the proxy, and an operator would not notice.
 */
function createProxySigns({ configuration: { proxy, clock }, onWarning }: EndpointServices): ProxySigns {
  const seen = new Set<string>();
  let warnedAt = -Infinity;
  return {
    all: () => [...seen],
    note(req, { isAmbiguous }) {
      if (req.readableDidRead) seen.add("a body parser reads bodies before the service");
      if (isAmbiguous) seen.add("a request for a path of both deployments has a Host of no deployment");
      const header = ignoredHeader(req, proxy);
      if (header === undefined) return;
      seen.add(`${header} is ignored`);
      // The clock may be set back.
      if (Math.abs(clock.now() - warnedAt) < WARNING_INTERVAL_MS) return;
      warnedAt = clock.now();
      onWarning(
        `${header} came with a request and is ignored, as config.proxy says. If a proxy sent it, everybody behind that proxy shares one address and its limits until config.proxy names it`,
      );
    },
  };
}

function deadlineFromNow({ clock }: Configuration): number {
  return clock.now() + COMMIT_TIMEOUT_MS;
}

/** A class, because an object with a getter of its own has a hidden class of its own, for each request. */
class RequestExchange implements EndpointExchange {
  readonly ctx: EndpointExchange["ctx"];
  readonly requestId: string;
  readonly deployment: EndpointExchange["deployment"];
  readonly endpoint: EndpointName;
  readonly path: string;
  readonly uid: string | undefined;
  readonly step: string | undefined;
  readonly address: string;
  readonly isHead: boolean;
  receivedAt: number = performance.now();
  deadline: number;
  client: EndpointExchange["client"] = undefined;
  readonly authentication: EndpointExchange["authentication"] = newAuthentication();
  readonly proof: EndpointExchange["proof"];
  retryAfter = 0;
  readonly onSuccess: (() => void)[] = [];
  readonly onSettled: (() => void)[] = [];
  fields: EndpointExchange["fields"] = async () => new Fields();
  form: EndpointExchange["form"] = async () => new Map();
  json: EndpointExchange["json"] = async () => undefined;
  outside: EndpointExchange["outside"];
  /** Not a private field: pages make exchanges whose prototype is this one. */
  readonly findBrowser: () => Browser;

  constructor(
    koa: Context,
    { route, path, uid, step }: Destination,
    configuration: Configuration,
    findBrowser: EndpointServices["findBrowser"],
  ) {
    let browser: Browser | undefined;
    this.findBrowser = () => (browser ??= findBrowser(koa));
    this.requestId = requestIdOf(koa.req, configuration.proxy);
    this.deployment = route.deployment;
    this.endpoint = route.endpoint;
    this.path = path;
    this.uid = uid;
    this.step = step;
    this.address = remoteAddress(koa.req, configuration.proxy);
    this.isHead = koa.method === "HEAD";
    this.proof = { sent: koa.get("DPoP"), checked: undefined, token: undefined };
    this.deadline = deadlineFromNow(configuration);
    this.outside = async (work) => {
      try {
        return await work();
      } finally {
        this.deadline = deadlineFromNow(configuration);
      }
    };
    this.ctx = withExchange(koa, this);
  }

  /** Most requests don't ask for it. */
  get browser(): Browser {
    return this.findBrowser();
  }
}

/** What {@link serve} does besides the handler. */
interface Serving {
  readonly destination: Destination;
  readonly receive: Receive;
  readonly crossOrigin: CrossOriginRequest | undefined;
}

/** @returns the error if the request fails through no fault of its caller. */
async function serve(
  exchange: EndpointExchange,
  { destination, receive, crossOrigin }: Serving,
  services: EndpointServices,
): Promise<unknown> {
  const { ctx } = exchange;
  const headers = ctx.res.getHeaders();
  let leave: (() => void) | undefined;
  const limit = createTimeLimit(
    WORK_TIMEOUT_MS,
    () => new StorageUnavailable("the request was not done in time", { reason: "timeout" }),
  );
  const { outside } = exchange;
  exchange.outside = (work) => {
    leave?.();
    leave = undefined;
    return limit.lift(() => outside(work));
  };
  try {
    const handler = crossOrigin?.isPreflight ? answerPreflight : handlerFor(ctx.method, destination);
    ctx.set("Cache-Control", "no-store");
    if (ctx.method === "POST") leave = await receive(exchange);
    await limit.hold(() => run(exchange, handler));
  } catch (error) {
    restoreHeaders(exchange, headers);
    ctx.body = null;
    const fault = await respondWithError(exchange, error, services);
    await crossOrigin?.addHeaders();
    if (exchange.isHead) setNoCookies(exchange, headers);
    return fault;
  } finally {
    leave?.();
  }
  await crossOrigin?.addHeaders();
  if (exchange.isHead) setNoCookies(exchange, headers);
  else for (const notify of exchange.onSuccess) notify();
  return undefined;
}

/** A HEAD request changes nothing, in the browser neither. The cookies of the host application stay. */
function setNoCookies({ ctx: { res } }: EndpointExchange, before: OutgoingHttpHeaders): void {
  const { "set-cookie": cookies } = before;
  if (cookies === undefined) res.removeHeader("Set-Cookie");
  else res.setHeader("Set-Cookie", cookies);
}

/** The headers say what the browser may do. */
const answerPreflight: Handler = async ({ ctx }) => {
  ctx.status = 204;
};

function handlerFor(method: string, { route, isAmbiguous }: Destination): Handler {
  if (isAmbiguous) throw invalidRequest("the Host must be that of one of the deployments");
  const { methods, handlers } = route;
  const row = method === "HEAD" ? "GET" : method;
  const handler = methods.includes(method) ? (handlers.get(row) ?? handlers.get("*")) : undefined;
  if (handler !== undefined) return handler;
  throw new EndpointError(405, "invalid_request", `the method must be ${methods.join(" or ")}`, {
    allow: methods,
  });
}

/** Endpoints that take JSON as well as forms. */
const JSON_ENDPOINTS: ReadonlySet<EndpointName> = new Set(["interaction", "confirm", "account"]);

/** @returns the function to call when the request is done. */
type Receive = (exchange: EndpointExchange) => Promise<(() => void) | undefined>;

/**
 * Waits for the body. The handler that needs the form reports what is wrong with it. The time limits of the request start
 * with its last byte, so a slow sender takes no time from the service.
 */
function createReceiver(configuration: Configuration): Receive {
  const readBody = createBodyReader();
  // In front of the forms that may have a password.
  const door = new FairDoor(MAX_SUBMITTED, "too many forms are submitted at once");
  return async (exchange) => {
    const isJson = JSON_ENDPOINTS.has(exchange.endpoint) && exchange.ctx.request.type === JSON_TYPE;
    const body = isJson ? acceptJson(exchange, readBody) : acceptForm(exchange, readBody);
    await body.catch((error: unknown) => {
      if (error instanceof EndpointError && error.closes) throw error;
    });
    exchange.receivedAt = performance.now();
    exchange.deadline = deadlineFromNow(configuration);
    // Only now: slow bodies must not keep the neighbors of their network out.
    return exchange.endpoint === "interaction" ? door.enter(wideNetwork(exchange.address)) : undefined;
  };
}

const inTime = <T>(body: Promise<T>): Promise<T> =>
  withTimeout(
    BODY_TIMEOUT_MS,
    body,
    () => new EndpointError(400, "invalid_request", "the body did not arrive in time", { closes: true }),
  );

function acceptForm(exchange: EndpointExchange, read: BodyReader): Promise<unknown> {
  const fields = inTime(readFields(exchange.ctx, read));
  exchange.fields = () => fields;
  exchange.form = () => readForm(fields);
  return fields;
}

function acceptJson(exchange: EndpointExchange, read: BodyReader): Promise<unknown> {
  const json = inTime(readJson(exchange.ctx, read));
  exchange.json = () => json;
  return json;
}

/** Runs the handler. It may continue after the time limit; the response does not wait for it. */
async function run(exchange: EndpointExchange, handler: Handler): Promise<void> {
  try {
    await handler(exchange);
  } finally {
    for (const release of exchange.onSettled) release();
  }
}
