/** The steps as JSON, for a UI of a team's own on the same host. */
import type { ServiceContext } from "../provider/exchange.ts";
import type { EndedReason } from "../provider/pages.ts";
import { securityHeaders } from "../core/security-headers.ts";
import type { EndedSignIn } from "./ended.ts";
import type { Answer } from "./flow.ts";
import type { PageServices } from "./services.ts";
import { CAN_ADD_PASSKEY, languageOf, type Values } from "./steps/step.ts";
import { describeFor } from "./steps/views.ts";

/** Answers a GET and a POST that want JSON. */
export interface JsonHandlers {
  /** 200 with the step, or 410. */
  readonly show: (ctx: ServiceContext) => Promise<void>;
  /** 200 with the next step or `done`; 400, 403, 410 or 429 with an error. */
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

const JSON_TYPE = "application/json";

/** Whether the request is for the JSON interface: it sends JSON, or it accepts JSON and does not prefer HTML. */
export function wantsJson(ctx: Pick<ServiceContext, "method" | "accepts" | "request">): boolean {
  if (ctx.method === "POST" && ctx.request.type === JSON_TYPE) return true;
  return ctx.accepts("html", "json") === "json";
}

export function createJsonHandlers({
  flow,
  pages,
  ended,
}: Pick<PageServices, "flow" | "pages" | "ended">): JsonHandlers {
  return {
    async show(ctx) {
      const step = await flow.find(ctx);
      if (step === undefined) return refuseGone(ctx, await ended.find(ctx));
      return answerJson(ctx, 200, describeFor(pages, ctx, step));
    },
    async submit(ctx) {
      const target = await flow.target(ctx);
      const body = await readSubmission(ctx);
      if (body === undefined) return;
      if (target === undefined) return late(ctx, body);
      const answer = await flow.submit(ctx, target, {
        csrf: body.get("csrf") ?? "",
        action: new URLSearchParams(ctx.querystring).get("action") ?? "submit",
        values: body,
        locale: pages.visit(ctx, languageOf(target.step.signIn)).locale,
      });
      return answer.kind === "gone" ? late(ctx, body) : respond(ctx, answer);
    },
  };

  /** The sign-in has ended. A body with `again` and without `csrf` starts the same authorization again. */
  async function late(ctx: ServiceContext, body: Values): Promise<void> {
    const username = body.get("username") ?? body.get("email");
    const found = await ended.find(ctx, { again: body.get("again"), username });
    if (found.location === undefined || body.has("csrf")) return refuseGone(ctx, found);
    return answerJson(ctx, 200, { location: found.location });
  }

  function respond(ctx: ServiceContext, answer: Exclude<Answer, { kind: "gone" }>): void {
    switch (answer.kind) {
      case "done":
        return answerJson(ctx, 200, { done: true, location: answer.location });
      case "next":
        return answerJson(ctx, 200, describeFor(pages, ctx, answer.step));
      case "invalid":
        return answerJson(ctx, 400, describeFor(pages, ctx, answer.step));
      case "limited":
        answerJson(ctx, 429, describeFor(pages, ctx, answer.step));
        return ctx.set("Retry-After", String(Math.max(1, Math.ceil(answer.retryAfter))));
      case "forged":
        return forbidden(ctx, "csrf is not that of this sign-in");
      case "unusable":
        return refuse(ctx, 400, "invalid_request", "the step has no such action");
    }
  }
}

/** What makes a request none of a page of this host; `undefined` if nothing does. */
export function foreignness(ctx: ServiceContext): string | undefined {
  // A browser sends the true origin with a POST of JSON, which no form can send.
  const { origin } = new URL(ctx.exchange.deployment.url);
  if (ctx.get("Origin") !== origin) return `Origin must be ${origin}`;
  return ctx.request.type === JSON_TYPE ? undefined : `Content-Type must be ${JSON_TYPE}`;
}

/** The members of a body; `undefined` if it is not an object of strings. */
export async function readJson(ctx: ServiceContext): Promise<Values | undefined> {
  return submitted(await ctx.exchange.json().catch(unreadable));
}

/** The description of a body that {@link readJson} does not take. */
export const UNREADABLE = "the body must be an object of strings";

/**
 * The members of a body that a page of this host has sent.
 * @returns `undefined` if it is anything else. Then the request is answered.
 */
export async function readSubmission(ctx: ServiceContext): Promise<Values | undefined> {
  const foreign = foreignness(ctx);
  if (foreign !== undefined) forbidden(ctx, foreign);
  const body = foreign === undefined ? await readJson(ctx) : undefined;
  if (foreign === undefined && body === undefined) refuse(ctx, 400, "invalid_request", UNREADABLE);
  return body;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/**
 * The members of a body, which are strings as in a form; `credential` is an object, and becomes its JSON; `kept` may be
 * `true`, and `can_add_passkey` a boolean.
 */
function submitted(body: unknown): Values | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const values = new Map<string, string>();
  for (const [name, value] of Object.entries(body)) {
    const isJson =
      (name === "credential" && isObject(value)) ||
      (name === "kept" && value === true) ||
      (name === CAN_ADD_PASSKEY && typeof value === "boolean");
    const text = isJson ? JSON.stringify(value) : value;
    if (typeof text !== "string" || text.includes("\0")) return undefined;
    values.set(name, text);
  }
  return values;
}

function unreadable(error: unknown): undefined {
  if (typeof error === "object" && error !== null && "status" in error && error.status === 400)
    return undefined;
  throw error;
}

/** Sends JSON with all headers. */
export function answerJson(ctx: ServiceContext, status: number, body: object): void {
  ctx.status = status;
  ctx.body = body;
  securityHeaders(ctx, { secure: ctx.exchange.deployment.secure });
}

/** Sends an error. */
export function refuse(ctx: ServiceContext, status: number, error: string, description: string): void {
  answerJson(ctx, status, { error, error_description: description });
}

const GONE: Readonly<Record<EndedReason, string>> = {
  expired: "this sign-in has expired",
  complete: "this sign-in is complete",
  elsewhere: "this sign-in belongs to another browser",
  "no-cookies": "the browser sent no cookies",
};

/** 410: there is nothing to show here, or not to this browser. */
export function refuseGone(ctx: ServiceContext, ended?: EndedSignIn): void {
  if (ended === undefined)
    return refuse(ctx, 410, "gone", "this link is no longer valid, or not in this browser");
  const { reason, client, again } = ended;
  answerJson(ctx, 410, {
    error: "gone",
    error_description: GONE[reason],
    reason,
    ...(client && { client }),
    ...(again !== undefined && { again }),
  });
}

/** 401: the person has to sign in, or to do so again. @param location leads to the sign-in, and from there back. */
export function demandSignIn(ctx: ServiceContext, location: string): void {
  const error = { error: "login_required", error_description: "the person has to sign in at the location" };
  answerJson(ctx, 401, { ...error, location });
}

/** 403. The description says what was wrong. */
export function forbidden(ctx: ServiceContext, description: string): void {
  refuse(ctx, 403, "forbidden", description);
}
