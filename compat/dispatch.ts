/** From a request to its endpoint: by the full original path, exactly, and by host when the deployments have two. */
import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import { endpointsOf, type EndpointName } from "../config/deployments.ts";
import type { Deployment } from "../config/configuration.ts";
import { accountSteps } from "./account.ts";
import { isHostOf, requestedHost } from "./caller.ts";
import { compose, endpointTable } from "./endpoints.ts";
import type { CompatDependencies, Step } from "./exchange.ts";

/** An endpoint of a deployment. */
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

/** A route that has the path of a request. */
interface Match {
  readonly route: Route;
  /** The segment at the end of the path, where the route has one. */
  readonly uid?: string;
}

/** Every route that has this path; one that has it word for word comes first. */
function matches({ exact, withUid }: Routes, path: string): readonly Match[] {
  const found: Match[] = (exact.get(path) ?? []).map((route) => ({ route }));
  const slash = path.lastIndexOf("/") + 1;
  const uid = path.slice(slash);
  const below = withUid.get(path.slice(0, slash));
  if (below !== undefined && ONE_SEGMENT.test(uid)) found.push(...below.map((route) => ({ route, uid })));
  return found;
}

/** Finds the one deployment that a request names, when they are on two hosts. */
function namedDeployment({
  deployments: { oauth2, openid },
  proxy,
}: CompatDependencies["configuration"]): (req: IncomingMessage) => Deployment | undefined {
  if (oauth2 === undefined || openid === undefined || oauth2.host === openid.host) return () => undefined;
  return (req) => {
    const host = requestedHost(req, proxy);
    const [named, ...others] = [oauth2, openid].filter((deployment) => isHostOf(deployment, host));
    return others.length === 0 ? named : undefined;
  };
}

/** Where a request goes. */
export interface Found extends Match {
  /** The path below the base URL. */
  readonly path: string;
  /** Both deployments have the path, and the request names neither of their hosts. */
  readonly isAmbiguous: boolean;
}

/** @returns what finds the endpoint of a request; `undefined` when it is not for this service. */
export function createDispatch(dependencies: CompatDependencies): (ctx: Context) => Found | undefined {
  const { configuration } = dependencies;
  const routes = buildRoutes(dependencies);
  const deploymentOf = namedDeployment(configuration);
  return (ctx) => {
    const url = ctx.originalUrl;
    const question = url.indexOf("?");
    const path = configuration.stripPrefix + (question === -1 ? url : url.slice(0, question));
    const all = matches(routes, path);
    if (all.length === 0) return undefined;
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
}
