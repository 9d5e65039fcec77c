/** `service.interactions`: the steps for routes in the application of a team. */
import type { Exchange, ServiceContext } from "../provider/exchange.ts";
import type { Context } from "koa";
import type { EndedSignIn, SentAgain } from "./ended.ts";
import { isFromHere } from "./forms.ts";
import type { PageServices } from "./services.ts";
import { languageOf } from "./steps/running-sign-in.ts";
import type { PresentStep } from "./steps/step.ts";
import { describeStep } from "./steps/description.ts";
import type { StepDescription } from "./steps/described-step.ts";

/** The form that the person submitted at your page. */
export interface SubmittedStep {
  /** The member `csrf` of the description, sent back by your form. */
  readonly csrf: string;
  /** One of `actions`. Default: `submit`. */
  readonly action?: string;
  /** The entered values, by the names of `fields`. */
  readonly values?: Readonly<Record<string, string>>;
}

/** The outcome of a submission. */
export type StepAnswer =
  | { readonly kind: "done"; /** Where to redirect the browser, with a 303. */ readonly location: string }
  /** The sign-in is at another step now: redirect to `{base}/interaction/<id>`, which shows it. */
  | { readonly kind: "next"; readonly step: StepDescription }
  /** Something is wrong with the values: show the step again, with its problems. */
  | { readonly kind: "invalid"; readonly step: StepDescription }
  | {
      readonly kind: "limited";
      readonly step: StepDescription;
      /** Seconds until the next attempt can succeed. */ readonly retryAfter: number;
    }
  /** The sign-in expired, was finished, or belongs to another browser: `ended` says which, and how to start again. */
  | { readonly kind: "gone" }
  /** The form is not from your page: another site sent it, or `csrf` is not the one from `find`. */
  | { readonly kind: "forged" }
  /** The step has no such action. */
  | { readonly kind: "unusable" };

/**
 * The running sign-ins, for routes of your own at `{base}/interaction/<id>` and below, in front of `service.routes()`. Each
 * call takes the Koa context of the request. Storage faults reject with `StorageUnavailable`; answer them with a 503.
 */
export interface Interactions {
  /** The step that this browser may continue with; `undefined` if there is no sign-in at this address. */
  find(ctx: Context): Promise<StepDescription | undefined>;
  /** Submits the step at this address. */
  submit(ctx: Context, form: SubmittedStep): Promise<StepAnswer>;
  /**
   * Why this browser has no sign-in at this address, and where the same authorization starts again.
   * @param sent the member `again` of an earlier description, sent back by your form, and the name that the person has typed.
   * It counts only if the form is from your page.
   * @returns `undefined` if the address is none of a sign-in.
   */
  ended(ctx: Context, sent?: SentAgain): Promise<EndedSignIn | undefined>;
}

/**
 * The calls, over the flow that the built-in pages use.
 * @param locate the exchange of a request for this service.
 */
export function createInteractions(
  { flow, pages, units, ended }: Pick<PageServices, "flow" | "pages" | "units" | "ended">,
  locate: (ctx: Context) => Exchange | undefined,
): Interactions {
  /** Commits everything that the work writes, or nothing. */
  async function within<T>(ctx: Context, work: (own: ServiceContext) => Promise<T>): Promise<T | undefined> {
    const exchange = locate(ctx);
    if (exchange?.endpoint !== "interaction" || exchange.uid === undefined) return undefined;
    const own: ServiceContext = Object.create(ctx, { exchange: { value: exchange } });
    return units.run(exchange, async (unit) => {
      const result = await work(own);
      if (!exchange.isHead) await unit.commit();
      return result;
    });
  }

  function describe(own: ServiceContext, step: PresentStep): StepDescription {
    const { locale } = pages.visit(own, languageOf(step.signIn));
    return describeStep(step, pages.translator(locale));
  }

  async function submit(own: ServiceContext, form: SubmittedStep): Promise<StepAnswer> {
    const target = await flow.target(own);
    if (target === undefined) return { kind: "gone" };
    if (!isFromHere(own)) return { kind: "forged" };
    const { csrf, action = "submit", values = {} } = form;
    const { locale } = pages.visit(own, languageOf(target.step.signIn));
    const submission = { csrf, action, values: new Map(Object.entries(values)), locale };
    const answer = await flow.submit(own, target, submission);
    return "step" in answer ? { ...answer, step: describe(own, answer.step) } : answer;
  }

  return {
    find: (ctx) =>
      within(ctx, async (own) => {
        const step = await flow.find(own);
        return step && describe(own, step);
      }),
    ended: (ctx, sent) => within(ctx, (own) => ended.find(own, isFromHere(own) ? sent : {})),
    submit: async (ctx, form) => (await within(ctx, (own) => submit(own, form))) ?? { kind: "gone" },
  };
}
