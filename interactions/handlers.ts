/** The steps as pages: GET and POST of `{base}/interaction/<id>`, and of a step below it. */
import type { ServiceContext } from "../provider/exchange.ts";
import { seeOther } from "./answers.ts";
import type { SignInFlow } from "./flow.ts";
import type { EndedSignIns } from "./ended.ts";
import { type Form, isFromHere, readable } from "./forms.ts";
import { CONFIRM_PATH, ELSEWHERE } from "./confirm.ts";
import type { LinkCookie } from "./link-cookie.ts";
import type { Pages } from "./page.ts";
import { languageOf, type PresentStep } from "./steps/step.ts";
import { qrCode } from "./look/qr-code.ts";
import { offeredFactors } from "./steps/enrol.ts";
import { stepPage } from "./steps/views.ts";

/** What the handlers are built from. */
export interface InteractionParts {
  readonly flow: SignInFlow;
  readonly pages: Pages;
  readonly links: LinkCookie;
  readonly ended: EndedSignIns;
  /** Path of a UI of a team's own, which shows the steps instead. */
  readonly ui?: string | undefined;
}

/** The action of the button that starts the same authorization again. */
const START_AGAIN = "again";

/** The fields that a person has not typed. */
const UNTYPED: ReadonlySet<string> = new Set(["csrf", "again", "action", "decision", "can_add_passkey"]);

function wasTyped(form: Form): boolean {
  return [...form].some(([name, value]) => !UNTYPED.has(name) && value !== "");
}

/** The steps that a link in mail leads to. */
const LINKED: ReadonlySet<string> = new Set(["confirm-email", "new-password"]);

/** Storage faults are thrown. */
export interface InteractionHandlers {
  /** GET: 200 with the step, 303 to a UI of a team's own, or 400 "start again" if this browser has no such sign-in. */
  readonly show: (ctx: ServiceContext) => Promise<void>;
  /**
   * POST: 303 after success; 400 with the step for a wrong or missing entry; 429 after too many attempts; 403
   * "start again" for a form that is not ours; 400 for an unreadable form.
   */
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

/** The path of the step as the browser sees it. */
function addressOf({ exchange: { deployment, uid, step } }: ServiceContext): string {
  const path = `${deployment.path}/interaction/${uid}`;
  return step === undefined ? path : `${path}/${step}`;
}

/** Handlers over a flow. They know forms and pages, but nothing of OAuth. */
export function createInteractionHandlers(parts: InteractionParts): InteractionHandlers {
  const { flow, pages, links, ended, ui } = parts;

  /** This browser has no such sign-in. If a link in mail led here, the page of that link says what to do. */
  async function missing(ctx: ServiceContext): Promise<void> {
    if (links.read(ctx) !== undefined && LINKED.has(ctx.exchange.step ?? ""))
      return seeOther(ctx, `${ctx.exchange.deployment.path}${CONFIRM_PATH}?${ELSEWHERE}=1`);
    return pages.startAgain(ctx, await ended.find(ctx));
  }

  /** The sign-in of a form has ended: its page starts the same authorization again, or says how. */
  async function late(ctx: ServiceContext, form: Form): Promise<void> {
    const username = form.get("username") ?? form.get("email");
    const found = await ended.find(ctx, { again: form.get("again"), username });
    if (form.get("action") === START_AGAIN && found.location !== undefined)
      return seeOther(ctx, found.location);
    const hasName = found.again !== undefined && (username ?? "").trim() !== "";
    const typed = hasName ? "name" : wasTyped(form) ? "something" : undefined;
    return pages.startAgain(ctx, { ...found, ...(typed !== undefined && { typed }) });
  }

  async function send(
    ctx: ServiceContext,
    step: PresentStep,
    status: number,
    retryAfter?: number,
  ): Promise<void> {
    // A GET would no longer show new recovery codes.
    const isRepeatable = step.recoveryCodes === undefined;
    const options = { ...languageOf(step.signIn), isRepeatable, status };
    const { app } = step.name === "enrol" ? offeredFactors(step.signIn) : { app: null };
    pages.send(
      ctx,
      stepPage(step.name),
      app === null ? step : { ...step, qrCode: await qrCode(app.uri) },
      retryAfter === undefined ? options : { ...options, retryAfter },
    );
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
      if (target === undefined) {
        // What another site sends counts for nothing.
        const sent = isFromHere(ctx) ? await readable(() => ctx.exchange.form()) : undefined;
        return late(ctx, sent ?? new Map());
      }
      const { path, uiLocales } = target.step.signIn;
      const hints = uiLocales !== undefined && { uiLocales };
      const notOurs = { status: 403, action: path, ...hints } as const;
      if (!isFromHere(ctx)) return pages.startAgain(ctx, notOurs);
      const form = await readable(() => ctx.exchange.form());
      const unusable = {
        status: 400,
        error: "invalid_request",
        description: "the form was incomplete, repeated a field or was too large",
        ...hints,
      };
      if (form === undefined) return pages.error(ctx, unusable);
      // Another tab has asked for more time.
      if (form.get("action") === START_AGAIN) return seeOther(ctx, path);
      const answer = await flow.submit(ctx, target, {
        csrf: form.get("csrf") ?? "",
        action: form.get("decision") ?? form.get("action") ?? "submit",
        values: form,
        locale: pages.visit(ctx, languageOf(target.step.signIn)).locale,
      });
      switch (answer.kind) {
        case "done":
          return seeOther(ctx, answer.location);
        case "next": {
          const { recoveryCodes, hasEntries } = answer.step;
          const isOnlyHere = recoveryCodes !== undefined || hasEntries === true;
          return isOnlyHere ? send(ctx, answer.step, 200) : seeOther(ctx, path);
        }
        case "invalid":
          return send(ctx, answer.step, 400);
        case "limited":
          return send(ctx, answer.step, 429, answer.retryAfter);
        case "gone":
          return late(ctx, form);
        case "forged":
          return pages.startAgain(ctx, notOurs);
        case "unusable":
          return pages.error(ctx, unusable);
      }
    },
  };
}
