/** Finds the endpoint of a request: by the exact original path, and by host if the deployments have different ones. */
import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import { DISCOVERY_PATH, endpointsOf, type EndpointName, metadataPaths } from "../config/deployments.ts";
import type { Configuration, Deployment } from "../config/configuration.ts";
import { isHostOf, requestedHost } from "./forwarded.ts";
import { accountHandlers, endpointTable, type HandlersByMethod } from "./endpoints.ts";
import type { Handler } from "./exchange.ts";
import type { EndpointServices } from "./services.ts";

/** An endpoint of a deployment. */
interface Route {
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path with `:uid` and `:step` in place of what varies. */
  readonly template: string;
  readonly methods: readonly string[];
  readonly handlers: ReadonlyMap<string, Handler>;
}

interface Routes {
  readonly exact: ReadonlyMap<string, readonly Route[]>;
  /** Paths with a final `:uid` segment, by what precedes that segment. */
  readonly withUid: ReadonlyMap<string, readonly Route[]>;
  /** Paths that end with `:uid/:step`, by what precedes these segments. */
  readonly withStep: ReadonlyMap<string, readonly Route[]>;
  /** Paths of the host that are not below a base URL. */
  readonly metadata: ReadonlyMap<string, Route>;
}

/** A route whose path is that of the request. */
interface Match {
  readonly route: Route;
  /** The final segment of the path, if the route has a `:uid`. */
  readonly uid?: string;
  /** The segment after it, if the route has a `:step`. */
  readonly step?: string;
}

/** Where a request goes. */
export interface Destination extends Match {
  /** The path below the base URL. */
  readonly path: string;
  /** Both deployments have this path, and the request names the host of neither. */
  readonly isAmbiguous: boolean;
}

/** @returns a function that finds where a request goes; `undefined` if it is not for this service. */
export function createDispatch(services: EndpointServices): (ctx: Context) => Destination | undefined {
  const { configuration } = services;
  const routes = buildRoutes(services);
  const deploymentOf = deploymentByHost(configuration);
  return (ctx) => {
    const url = ctx.originalUrl;
    const question = url.indexOf("?");
    const asked = question === -1 ? url : url.slice(0, question);
    const path = configuration.stripPrefix + asked;
    const all = matches(routes, path);
    if (all.length === 0) return metadataAt(asked, ctx);
    const named = deploymentOf(ctx.req);
    const [first, ...others] =
      named === undefined ? all : all.filter(({ route }) => route.deployment === named);
    if (first === undefined) return undefined;
    const { deployment } = first.route;
    return {
      ...first,
      path: path.slice(deployment.path.length),
      isAmbiguous: others.some(({ route }) => route.deployment !== deployment),
    };
  };

  /** @param asked the path as it was received: a proxy takes no prefix off it. */
  function metadataAt(asked: string, { req }: Context): Destination | undefined {
    const route = routes.metadata.get(asked);
    if (route === undefined || (deploymentOf(req) ?? route.deployment) !== route.deployment) return undefined;
    // The document is the same, so oidc-provider sees the request for that of the base URL.
    return { route, path: DISCOVERY_PATH, isAmbiguous: false };
  }
}

function buildRoutes(services: EndpointServices): Routes {
  const exact = new Map<string, Route[]>();
  const withUid = new Map<string, Route[]>();
  const withStep = new Map<string, Route[]>();
  const metadata = new Map<string, Route>();
  const table = endpointTable(services);
  const { oauth2, openid } = services.configuration.deployments;
  function add(path: string, route: Route): void {
    const [before = "", after] = (route.deployment.path + path).split(/:uid(?=$|\/:step$)/);
    const map = after === undefined ? exact : after === "" ? withUid : withStep;
    map.set(before, [...(map.get(before) ?? []), route]);
  }
  for (const deployment of [oauth2, openid]) {
    if (deployment === undefined) continue;
    for (const { name, methods, path } of endpointsOf(deployment)) {
      const handlers = table[name];
      if (handlers === undefined) continue;
      const template = deployment.path + path;
      const route = { deployment, endpoint: name, template, methods, handlers: byMethod(handlers) };
      add(path, route);
      if (name !== "discovery") continue;
      for (const each of metadataPaths(deployment)) metadata.set(each, { ...route, template: each });
    }
    for (const page of services.accountPages) {
      const handlers = accountHandlers(page);
      const methods = Object.keys(handlers).flatMap((method) =>
        method === "GET" ? [method, "HEAD"] : [method],
      );
      const template = deployment.path + page.path;
      add(page.path, { deployment, endpoint: "account", template, methods, handlers: byMethod(handlers) });
    }
  }
  return { exact, withUid, withStep, metadata };
}

const byMethod = (handlers: HandlersByMethod): Route["handlers"] => new Map(Object.entries(handlers));

const ONE_SEGMENT = /^[A-Za-z0-9_-]{1,255}$/;
const TWO_SEGMENTS = /^(?<before>.*\/)(?<first>[A-Za-z0-9._~-]{1,255})\/(?<step>[a-z-]{1,32})$/;

/** The last segment of the routes in which only the one before it varies. */
const LAST_SEGMENTS: Readonly<Partial<Record<EndpointName, string>>> = {
  clientLogo: "logo",
  providerCallback: "callback",
};

/** Whether a route with two variable segments has these. */
function fits({ endpoint }: Route, first: string, step: string): boolean {
  const last = LAST_SEGMENTS[endpoint];
  return last === undefined ? ONE_SEGMENT.test(first) : step === last;
}

/** Every route with this path, exact matches first. */
function matches({ exact, withUid, withStep }: Routes, path: string): readonly Match[] {
  const found: Match[] = (exact.get(path) ?? []).map((route) => ({ route }));
  const slash = path.lastIndexOf("/") + 1;
  const uid = path.slice(slash);
  const below = withUid.get(path.slice(0, slash));
  if (below !== undefined && ONE_SEGMENT.test(uid)) found.push(...below.map((route) => ({ route, uid })));
  const { before, first, step } = TWO_SEGMENTS.exec(path)?.groups ?? {};
  const deeper = before === undefined ? undefined : withStep.get(before);
  if (deeper !== undefined && first !== undefined && step !== undefined)
    found.push(
      ...deeper.filter((route) => fits(route, first, step)).map((route) => ({ route, uid: first, step })),
    );
  return found;
}

/** Finds the one deployment that a request names by its host. */
function deploymentByHost({
  deployments: { oauth2, openid },
  proxy,
}: Configuration): (req: IncomingMessage) => Deployment | undefined {
  if (oauth2 === undefined || openid === undefined || oauth2.host === openid.host) return () => undefined;
  return (req) => {
    const host = requestedHost(req, proxy);
    const [named, ...others] = [oauth2, openid].filter((deployment) => isHostOf(deployment, host));
    return others.length === 0 ? named : undefined;
  };
}
