/** GET and POST of `{base}/interaction/<id>`, the address of both the login form and the consent form. */
import { ConditionFailed } from "../lib/errors.ts";
import { createAnswers, seeOther, sendPage } from "./answers.ts";
import type { InteractionContext, InteractionFlow, RunningInteraction } from "./flow.ts";
import { type Form, isFromHere, readable } from "./forms.ts";
import type { LoginField, LoginProblem } from "./page-locals.ts";
import type { Pages } from "./pages.ts";

/** What the handlers are built from. */
export interface InteractionParts {
  readonly flow: InteractionFlow;
  readonly pages: Pages;
  /** Reads the body. Rejects an unreadable one with an error whose `status` is 400. */
  readonly readForm: (ctx: InteractionContext) => Promise<Form>;
}

/** Koa handlers. `ctx.state` must be an `InteractionState`. Storage faults are thrown. */
export interface InteractionHandlers {
  /** GET: 200 with the form, or 400 "start again" if this browser has no such interaction. */
  readonly show: (ctx: InteractionContext) => Promise<void>;
  /**
   * POST: 303 after success; 400 with the form for a wrong or missing password; 429 after too many attempts; 403
   * "start again" for a form that is not ours; 400 for an unreadable form.
   */
  readonly submit: (ctx: InteractionContext) => Promise<void>;
}

/** Handles the form of one prompt. */
type Submit = (ctx: InteractionContext, running: RunningInteraction, form: Form) => Promise<void>;

/** Handlers over a flow. They know forms and pages, but nothing of OAuth. */
export function createInteractionHandlers(parts: InteractionParts): InteractionHandlers {
  const { flow, pages } = parts;
  const answers = createAnswers(pages);
  const submits: Readonly<Record<RunningInteraction["prompt"], Submit>> = {
    login: submitLogin(parts),
    consent: submitConsent(parts),
  };
  return {
    async show(ctx) {
      const running = await flow.find(ctx, ctx.state.interactionUid);
      if (running === undefined) return answers.startAgain(ctx);
      if (running.prompt === "consent") return showConsent(pages, ctx, running);
      return showLogin(pages, ctx, running, { status: 200, username: running.loginHint ?? "" });
    },
    async submit(ctx) {
      const running = await flow.find(ctx, ctx.state.interactionUid);
      if (running === undefined) return answers.startAgain(ctx);
      const { action, uiLocales } = running;
      const notOurs = { status: 403, action, ...(uiLocales !== undefined && { uiLocales }) } as const;
      if (!isFromHere(ctx)) return answers.startAgain(ctx, notOurs);
      const form = await readable(() => parts.readForm(ctx));
      if (form === undefined) return sendUnusable(pages, ctx, running);
      if (!flow.isOwnForm(running, form.get("csrf") ?? "")) return answers.startAgain(ctx, notOurs);
      try {
        return await submits[running.prompt](ctx, running, form);
      } catch (error) {
        if (error instanceof ConditionFailed) return answers.startAgain(ctx);
        throw error;
      }
    },
  };
}

function submitLogin({ flow, pages }: InteractionParts): Submit {
  return async (ctx, running, form) => {
    const username = form.get("username") ?? "";
    const password = form.get("password") ?? "";
    const fields: LoginField[] = [];
    if (username.trim() === "") fields.push("username");
    if (password === "") fields.push("password");
    // An incomplete form is no guess and takes no rate-limit point.
    if (fields.length > 0) {
      return showLogin(pages, ctx, running, { status: 400, username, problem: { kind: "missing", fields } });
    }
    const outcome = await flow.signIn(ctx, running, { username, password });
    if (outcome.kind === "done") return seeOther(ctx, outcome.location);
    const status = outcome.kind === "limited" ? 429 : 400;
    return showLogin(pages, ctx, running, { status, username, problem: outcome });
  };
}

function submitConsent({ flow, pages }: InteractionParts): Submit {
  return async (ctx, running, form) => {
    const decision = form.get("decision");
    if (decision === "allow") return seeOther(ctx, await flow.allow(ctx, running));
    if (decision === "deny") return seeOther(ctx, await flow.deny(ctx, running));
    return sendUnusable(pages, ctx, running);
  };
}

async function showLogin(
  pages: Pages,
  ctx: InteractionContext,
  { client, action, csrf, uiLocales }: RunningInteraction,
  {
    status,
    ...shown
  }: { readonly status: number; readonly username: string; readonly problem?: LoginProblem },
): Promise<void> {
  const visit = pages.visit(ctx, { uiLocales, isRepeatable: true });
  const { name, own = false } = client;
  const html = await pages.login({ ...visit, client: name, own, action, csrf, ...shown });
  const { problem } = shown;
  sendPage(ctx, pages, {
    status,
    html,
    ...(problem?.kind === "limited" && { retryAfter: problem.retryAfter }),
  });
}

async function showConsent(
  pages: Pages,
  ctx: InteractionContext,
  { client, action, csrf, uiLocales, fields, account }: RunningInteraction,
): Promise<void> {
  const visit = pages.visit(ctx, { uiLocales, isRepeatable: true });
  const who = account !== undefined && { account };
  const html = await pages.consent({ ...visit, client: client.name, action, csrf, fields, ...who });
  sendPage(ctx, pages, { status: 200, html });
}

function sendUnusable(
  pages: Pages,
  ctx: InteractionContext,
  { uiLocales }: RunningInteraction,
): Promise<void> {
  return createAnswers(pages).error(ctx, {
    status: 400,
    error: "invalid_request",
    description: "the form was incomplete, repeated a field or was too large",
    ...(uiLocales !== undefined && { uiLocales }),
  });
}
