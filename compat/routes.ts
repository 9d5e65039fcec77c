/** From a request to its answer: where it goes, how long it may take, and what it ends with. */
import type { IncomingMessage } from "node:http";
import type { Context, Middleware } from "koa";
import type { EndpointName } from "../config/deployments.ts";
import type { Deployment } from "../config/configuration.ts";
import { StorageUnavailable } from "../lib/errors.ts";
import { answerError, takeBack } from "./answers.ts";
import { callerAddress, ignoredHeader } from "./caller.ts";
import { createDispatch, type Found } from "./dispatch.ts";
import { EndpointError } from "./endpoint-error.ts";
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

/** Milliseconds between two warnings about a forwarding header that is ignored. */
const HOUR = 60 * 60 * 1000;

/** Says once an hour that a forwarding header is ignored: nobody notices by themselves that all share one address. */
function watchForwarding({
  configuration: { proxy, clock },
  onWarning,
}: CompatDependencies): (req: IncomingMessage) => void {
  let warnedAt = -Infinity;
  return (req) => {
    const header = ignoredHeader(req, proxy);
    // Either way: a clock may be set back.
    if (header === undefined || Math.abs(clock.now() - warnedAt) < HOUR) return;
    warnedAt = clock.now();
    onWarning(
      `${header} came with a request and is ignored, as config.proxy says. If a proxy sent it, everybody behind that proxy shares one address and its limits until config.proxy names it`,
    );
  };
}

/** Which endpoint a request is for. */
export interface Place {
  readonly deployment: Deployment;
  readonly endpoint: EndpointName;
  /** The path below the base URL. */
  readonly path: string;
  /** The segment at the end of the path, where the endpoint has one. */
  readonly uid: string | undefined;
  /** When the request may have begun, on the clock of `performance`. */
  readonly underWaySince: number;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
}

export interface ServiceRoutes {
  /** Serves both deployments; what is not theirs goes on to the host application. */
  readonly middleware: Middleware;
  /** The endpoint of a request; `undefined` when it is not for this service. */
  locate(ctx: Context): Place | undefined;
}

/**
 * Resolves when everything that has arrived in this turn of the event loop is read. Requests that arrive together are
 * then worked at together: they share reads and commits of the store, and their answers leave together. Under load that
 * costs a third less CPU for each.
 */
function createEndOfTurn(): () => Promise<void> {
  let turn: Promise<void> | undefined;
  return () => {
    turn ??= new Promise((resolve) => {
      setImmediate(() => {
        turn = undefined;
        resolve();
      });
    });
    return turn;
  };
}

export function createRoutes(dependencies: CompatDependencies): ServiceRoutes {
  const { configuration, connections } = dependencies;
  const { proxy, clock } = configuration;
  const find = createDispatch(dependencies);
  const noticeForwarding = watchForwarding(dependencies);
  const endOfTurn = createEndOfTurn();
  const times = {
    body: createWithinTime(LONGEST_BODY, lateBody),
    work: createWithinTime(PATIENCE, () => new StorageUnavailable("the request was not done in time")),
  };

  return {
    locate(ctx) {
      const found = find(ctx);
      if (found === undefined || found.isAmbiguous) return undefined;
      const { deployment, endpoint } = found.route;
      const { path, uid } = found;
      const underWaySince = connections.underWaySince(ctx.req);
      return { deployment, endpoint, path, uid, underWaySince, deadline: clock.now() + DEADLINE };
    },
    async middleware(ctx, next) {
      const found = find(ctx);
      if (found === undefined) {
        await next();
        return;
      }
      const underWaySince = connections.underWaySince(ctx.req);
      const deadline = clock.now() + DEADLINE;
      noticeForwarding(ctx.req);
      await endOfTurn();
      const { route, path, uid } = found;
      const exchange: Exchange = {
        ctx,
        deployment: route.deployment,
        endpoint: route.endpoint,
        path,
        uid,
        underWaySince,
        deadline,
        form: noForm,
        address: callerAddress(ctx.req, proxy),
        outcome: [],
        ended: [],
      };
      await serve(exchange, found, { dependencies, times });
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
  exchange.underWaySince = Math.max(exchange.underWaySince, performance.now() - LONGEST_UNDER_WAY);
  exchange.deadline = clock.now() + DEADLINE;
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
  { route, isAmbiguous }: Found,
  { dependencies, times }: { readonly dependencies: CompatDependencies; readonly times: Times },
): Promise<void> {
  const { ctx } = exchange;
  const before = ctx.res.getHeaders();
  const { deployment, uid: interactionUid, address } = exchange;
  // The host application's state stays its own.
  const hostState = ctx.state;
  ctx.state = { deployment, interactionUid, address, form: () => exchange.form() };
  try {
    if (isAmbiguous) {
      throw new EndpointError(400, "invalid_request", "the Host must be that of one of the deployments");
    }
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
