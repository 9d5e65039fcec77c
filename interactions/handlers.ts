/** The steps at `{base}/interaction/<id>` and below, for browsers and programs. */
import type { ServiceContext } from "../provider/exchange.ts";
import type { PageHandlers } from "../provider/pages.ts";
import { originProblem, readSent, type Sent, wantsJson } from "./submission.ts";
import { CONFIRM_PATH, ELSEWHERE } from "./confirm.ts";
import { type Reply, send, type Shown, shown, unreadable } from "./reply.ts";
import type { PageServices } from "./services.ts";
import { languageOf } from "./steps/running-sign-in.ts";
import type { PresentStep, Values } from "./steps/step.ts";
import { qrCode } from "./look/qr-code.ts";
import { offeredFactors } from "./steps/enrol.ts";
import { stepPage } from "./steps/views.ts";

/** The action of the button that starts the same authorization again. */
const START_AGAIN = "again";

/** The fields that a person has not typed. */
const UNTYPED: ReadonlySet<string> = new Set(["csrf", "again", "action", "decision", "can_add_passkey"]);

function wasTyped(values: Values): boolean {
  return [...values].some(([name, value]) => !UNTYPED.has(name) && value !== "");
}

/** The steps that a link in mail leads to. */
const LINKED: ReadonlySet<string> = new Set(["confirm-email", "new-password"]);

/** The path of the step as the browser sees it. */
function addressOf({ exchange: { deployment, uid, step } }: ServiceContext): string {
  const path = `${deployment.path}/interaction/${uid}`;
  return step === undefined ? path : `${path}/${step}`;
}

async function shownStep(step: PresentStep, status: number, retryAfter?: number): Promise<Shown> {
  // A GET would no longer show new recovery codes.
  const isRepeatable = step.recoveryCodes === undefined;
  const options = { ...languageOf(step.signIn), isRepeatable, status };
  const { app } = step.name === "enrol" ? offeredFactors(step.signIn) : { app: null };
  return shown(
    stepPage(step),
    app === null ? step : { ...step, qrCode: await qrCode(app.uri) },
    retryAfter === undefined ? options : { ...options, retryAfter },
  );
}

/**
 * Handlers over a flow. They know nothing of OAuth. Storage faults are thrown.
 *
 * GET: the step, or 303 to a UI of a team's own; 400 "start again", or 410, if this browser has no such sign-in. POST: the
 * next step; 400 with the step for a wrong or missing entry; 429 after too many attempts; 403 for what is not from a page
 * of this host; 400 for what can't be read.
 * @param ui path of a UI of a team's own, which shows the steps instead.
 */
export function createInteractionHandlers(
  { flow, pages, links, ended }: Pick<PageServices, "flow" | "pages" | "links" | "ended">,
  ui?: string,
): PageHandlers {
  /** This browser has no such sign-in. If a link in mail led here, the page of that link says what to do. */
  async function missing(ctx: ServiceContext): Promise<Reply> {
    if (!wantsJson(ctx) && links.read(ctx) !== undefined && LINKED.has(ctx.exchange.step ?? ""))
      return { kind: "leave", location: `${ctx.exchange.deployment.path}${CONFIRM_PATH}?${ELSEWHERE}=1` };
    return { kind: "gone", ended: await ended.find(ctx) };
  }

  /**
   * The sign-in has ended. The button of its page, or a body with `again` and without `csrf`, starts the same authorization
   * again.
   */
  async function late(ctx: ServiceContext, { action, values }: Sent): Promise<Reply> {
    const username = values.get("username") ?? values.get("email");
    const found = await ended.find(ctx, { again: values.get("again"), username });
    const restarts = wantsJson(ctx) ? !values.has("csrf") : action === START_AGAIN;
    if (restarts && found.location !== undefined) return { kind: "restart", location: found.location };
    const hasName = found.again !== undefined && (username ?? "").trim() !== "";
    const typed = hasName ? "name" : wasTyped(values) ? "something" : undefined;
    return { kind: "gone", ended: { ...found, ...(typed !== undefined && { typed }) } };
  }

  async function show(ctx: ServiceContext): Promise<Reply> {
    const step = await flow.find(ctx);
    if (step === undefined) return missing(ctx);
    if (ui !== undefined && !wantsJson(ctx))
      return { kind: "leave", location: `${ui}?${new URLSearchParams({ interaction: addressOf(ctx) })}` };
    return shownStep(step, 200);
  }

  async function submit(ctx: ServiceContext): Promise<Reply> {
    const target = await flow.target(ctx);
    const foreign = originProblem(ctx);
    const sent = foreign === undefined ? await readSent(ctx) : undefined;
    // What another site sends counts for nothing.
    if (target === undefined && (sent !== undefined || !wantsJson(ctx)))
      return late(ctx, sent ?? { action: "", values: new Map() });
    const { path: action, uiLocales } = target?.step.signIn ?? {};
    const startAgain = {
      ...(action !== undefined && { action }),
      ...(uiLocales !== undefined && { uiLocales }),
    };
    if (foreign !== undefined) return { kind: "forged", description: foreign, startAgain };
    if (sent === undefined || target === undefined) return unreadable(ctx, uiLocales);
    const { path } = target.step.signIn;
    // Another tab has asked for more time.
    if (sent.action === START_AGAIN && !wantsJson(ctx)) return { kind: "leave", location: path };
    const outcome = await flow.submit(ctx, target, {
      csrf: sent.values.get("csrf") ?? "",
      ...sent,
      locale: pages.visit(ctx, languageOf(target.step.signIn)).locale,
    });
    switch (outcome.kind) {
      case "done":
        return { kind: "leave", location: outcome.location };
      case "next": {
        const { recoveryCodes, hasEntries } = outcome.step;
        const next = await shownStep(outcome.step, 200);
        const isOnlyHere = recoveryCodes !== undefined || hasEntries === true;
        return isOnlyHere ? next : { kind: "next", location: path, shown: next };
      }
      case "invalid":
        return shownStep(outcome.step, 400);
      case "limited":
        return shownStep(outcome.step, 429, outcome.retryAfter);
      case "gone":
        return late(ctx, sent);
      case "forged":
        return { kind: "forged", description: "csrf is not that of this sign-in", startAgain };
      case "unusable":
        break;
    }
    const description = "the step has no such action";
    const hints = uiLocales !== undefined && { uiLocales };
    return { kind: "refused", status: 400, error: "invalid_request", description, ...hints };
  }

  return {
    show: async (ctx) => send(ctx, pages, await show(ctx)),
    submit: async (ctx) => send(ctx, pages, await submit(ctx)),
  };
}
