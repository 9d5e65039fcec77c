/** The steps as pages: GET and POST of `{base}/interaction/<id>`, and of a step below it. */
import { createAnswers, seeOther, sendPage } from "./answers.ts";
import type { SignInFlow } from "./flow.ts";
import { type Form, isFromHere, readable } from "./forms.ts";
import { CONFIRM_PATH, ELSEWHERE } from "./confirm.ts";
import type { LinkCookie } from "./link-cookie.ts";
import type { Pages } from "./pages.ts";
import { type InteractionContext, languageOf, type PresentStep } from "./steps/step.ts";

/** What the handlers are built from. */
export interface InteractionParts {
  readonly flow: SignInFlow;
  readonly pages: Pages;
  /** Reads the body. Rejects an unreadable one with an error whose `status` is 400. */
  readonly readForm: (ctx: InteractionContext) => Promise<Form>;
  readonly links: LinkCookie;
  /** Path of a UI of a team's own, which shows the steps instead. */
  readonly ui?: string | undefined;
}

/** The steps that a link in mail leads to. */
const LINKED: ReadonlySet<string> = new Set(["confirm-email", "new-password"]);

/** Koa handlers. `ctx.state` must be an `InteractionState`. Storage faults are thrown. */
export interface InteractionHandlers {
  /** GET: 200 with the step, 303 to a UI of a team's own, or 400 "start again" if this browser has no such sign-in. */
  readonly show: (ctx: InteractionContext) => Promise<void>;
  /**
   * POST: 303 after success; 400 with the step for a wrong or missing entry; 429 after too many attempts; 403
   * "start again" for a form that is not ours; 400 for an unreadable form.
   */
  readonly submit: (ctx: InteractionContext) => Promise<void>;
}

/** The path of the step as the browser sees it. */
function addressOf({ state }: InteractionContext): string {
  const { deployment, interactionUid, interactionStep } = state;
  const path = `${deployment.path}/interaction/${interactionUid}`;
  return interactionStep === undefined ? path : `${path}/${interactionStep}`;
}

/** Handlers over a flow. They know forms and pages, but nothing of OAuth. */
export function createInteractionHandlers(parts: InteractionParts): InteractionHandlers {
  const { flow, pages, links, ui, readForm } = parts;
  const answers = createAnswers(pages);

  /** This browser has no such sign-in. If a link in mail led here, its own page says what to do. */
  async function missing(ctx: InteractionContext): Promise<void> {
    if (ctx.method === "GET" && links.read(ctx) !== undefined && LINKED.has(ctx.state.interactionStep ?? ""))
      return seeOther(ctx, `${ctx.state.deployment.path}${CONFIRM_PATH}?${ELSEWHERE}=1`);
    return answers.startAgain(ctx);
  }

  async function send(ctx: InteractionContext, step: PresentStep, status: number): Promise<void> {
    const visit = pages.visit(ctx, { ...languageOf(step.signIn), isRepeatable: true });
    sendPage(ctx, pages, { status, html: await pages.step({ ...visit, step }) });
  }

  return {
    async show(ctx) {
      const step = await flow.find(ctx);
      if (step === undefined) return missing(ctx);
      if (ui !== undefined)
        return seeOther(ctx, `${ui}?${new URLSearchParams({ interaction: addressOf(ctx) })}`);
      return send(ctx, step, 200);
    },
    async submit(ctx) {
      const target = await flow.target(ctx);
      if (target === undefined) return missing(ctx);
      const { path, uiLocales } = target.step.signIn;
      const hints = uiLocales !== undefined && { uiLocales };
      const notOurs = { status: 403, action: path, ...hints } as const;
      if (!isFromHere(ctx)) return answers.startAgain(ctx, notOurs);
      const form = await readable(() => readForm(ctx));
      const unusable = {
        status: 400,
        error: "invalid_request",
        description: "the form was incomplete, repeated a field or was too large",
        ...hints,
      };
      if (form === undefined) return answers.error(ctx, unusable);
      const answer = await flow.submit(ctx, target, {
        csrf: form.get("csrf") ?? "",
        action: form.get("decision") ?? form.get("action") ?? "submit",
        values: form,
        locale: pages.visit(ctx, languageOf(target.step.signIn)).locale,
      });
      switch (answer.kind) {
        case "done":
          return seeOther(ctx, answer.location);
        case "next":
          return seeOther(ctx, path);
        case "invalid":
          return send(ctx, answer.step, 400);
        case "limited":
          await send(ctx, answer.step, 429);
          return ctx.set("Retry-After", String(Math.max(1, Math.ceil(answer.retryAfter))));
        case "gone":
          return answers.startAgain(ctx);
        case "forged":
          return answers.startAgain(ctx, notOurs);
        case "unusable":
          return answers.error(ctx, unusable);
      }
    },
  };
}
