/** The steps as JSON, for a UI of a team's own on the same host. */
import { securityHeaders } from "../core/security-headers.ts";
import type { Answer, SignInFlow } from "./flow.ts";
import type { Pages } from "./pages.ts";
import type { StepDescription } from "./steps/description.ts";
import { type InteractionContext, languageOf, type PresentStep, type Values } from "./steps/step.ts";

export interface JsonParts {
  readonly flow: SignInFlow;
  readonly pages: Pick<Pages, "visit" | "describe">;
  /** The parsed body. Rejects an unreadable one with an error whose `status` is 400. */
  readonly readJson: (ctx: InteractionContext) => Promise<unknown>;
}

/** What answers a GET and a POST that want JSON. */
export interface JsonHandlers {
  /** 200 with the step, or 410. */
  readonly show: (ctx: InteractionContext) => Promise<void>;
  /** 200 with the next step or `done`; 400, 403, 410 or 429 with an error. */
  readonly submit: (ctx: InteractionContext) => Promise<void>;
}

const JSON_TYPE = "application/json";

/** Whether the request is for the JSON interface: it sends JSON, or it accepts JSON and does not prefer HTML. */
export function wantsJson(ctx: Pick<InteractionContext, "method" | "accepts" | "request">): boolean {
  if (ctx.method === "POST" && ctx.request.type === JSON_TYPE) return true;
  return ctx.accepts("html", "json") === "json";
}

export function createJsonHandlers({ flow, pages, readJson }: JsonParts): JsonHandlers {
  return {
    async show(ctx) {
      const step = await flow.find(ctx);
      if (step === undefined) return gone(ctx);
      return send(ctx, 200, describeFor(pages, ctx, step));
    },
    async submit(ctx) {
      const target = await flow.target(ctx);
      if (target === undefined) return gone(ctx);
      // A browser sends the true origin with a POST of JSON, which no form can send.
      const { origin } = new URL(ctx.state.deployment.url);
      if (ctx.get("Origin") !== origin) return forbidden(ctx, `Origin must be ${origin}`);
      if (ctx.request.type !== JSON_TYPE) return forbidden(ctx, `Content-Type must be ${JSON_TYPE}`);
      const body = submitted(await readJson(ctx).catch(unreadable));
      if (body === undefined)
        return refuse(ctx, 400, "invalid_request", "the body must be an object of strings");
      const answer = await flow.submit(ctx, target, {
        csrf: body.get("csrf") ?? "",
        action: new URLSearchParams(ctx.querystring).get("action") ?? "submit",
        values: body,
        locale: pages.visit(ctx, languageOf(target.step.signIn)).locale,
      });
      return respond(ctx, answer);
    },
  };

  function respond(ctx: InteractionContext, answer: Answer): void {
    switch (answer.kind) {
      case "done":
        return send(ctx, 200, { done: true, location: answer.location });
      case "next":
        return send(ctx, 200, describeFor(pages, ctx, answer.step));
      case "invalid":
        return send(ctx, 400, describeFor(pages, ctx, answer.step));
      case "limited":
        send(ctx, 429, describeFor(pages, ctx, answer.step));
        return ctx.set("Retry-After", String(Math.max(1, Math.ceil(answer.retryAfter))));
      case "gone":
        return gone(ctx);
      case "forged":
        return forbidden(ctx, "csrf is not that of this sign-in");
      case "unusable":
        return refuse(ctx, 400, "invalid_request", "the step has no such action");
    }
  }
}

/** A step in the language of the request. */
export function describeFor(
  pages: Pick<Pages, "visit" | "describe">,
  ctx: InteractionContext,
  step: PresentStep,
): StepDescription {
  const { locale } = pages.visit(ctx, languageOf(step.signIn));
  return pages.describe(step, locale);
}

/** The members of a body, which are strings as in a form. */
function submitted(body: unknown): Values | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const values = new Map<string, string>();
  for (const [name, value] of Object.entries(body)) {
    if (typeof value !== "string" || value.includes("\0")) return undefined;
    values.set(name, value);
  }
  return values;
}

function unreadable(error: unknown): undefined {
  if (typeof error === "object" && error !== null && "status" in error && error.status === 400)
    return undefined;
  throw error;
}

function send(ctx: InteractionContext, status: number, body: object): void {
  ctx.status = status;
  ctx.body = body;
  securityHeaders(ctx, { secure: ctx.state.deployment.secure });
}

function refuse(ctx: InteractionContext, status: number, error: string, description: string): void {
  send(ctx, status, { error, error_description: description });
}

function gone(ctx: InteractionContext): void {
  refuse(ctx, 410, "gone", "this sign-in has expired, is complete, or belongs to another browser");
}

function forbidden(ctx: InteractionContext, description: string): void {
  refuse(ctx, 403, "forbidden", description);
}
