/**
 * `{base}/confirm`, where links in mail lead. Opening it changes nothing, so that programs that scan mail confirm
 * nothing: the token moves to a cookie, and the browser is redirected to where a person can confirm.
 */
import { callerOf, type ServiceContext } from "../provider/exchange.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ConfirmationPurpose } from "../records/people/confirmation-kinds.ts";
import { shownEmail } from "../accounts/names.ts";
import type { EarlierAddress } from "../accounts/people/address-changes.ts";
import type { Enrolments } from "../accounts/factors/enrolment.ts";
import type { AskedAt } from "../accounts/people/requests.ts";
import type { People } from "../accounts/people/people.ts";
import type { Clock } from "../core/clock.ts";
import type { Signer } from "../core/sealing.ts";
import type { Translator } from "../core/texts.ts";
import { seeOther } from "./answers.ts";
import type { DeviceCookies } from "./device-cookie.ts";
import { isFromHere, readable } from "./forms.ts";
import { answerJson, forbidden, readSubmission, refuseGone, wantsJson } from "./json.ts";
import { isLinkToken, LINK_COOKIE_SECONDS, type LinkCookie } from "./link-cookie.ts";
import type { Page, Pages } from "./page.ts";
import { newPassword, outcomeOf } from "./steps/new-password.ts";
import type { Offers, PresentStep, Problem, SignInClient, Values } from "./steps/step.ts";
import { describeFor, stepPage } from "./steps/views.ts";
import type { DescribedProblem, StepDescription } from "./steps/described-step.ts";

export const CONFIRM_PATH = "/confirm";
/** The parameter of the address for browsers that don't have the sign-in. */
export const ELSEWHERE = "elsewhere";

/** The message of the page: a link confirms nothing in this browser, or nothing any more, or undoes a change. */
interface ConfirmMessage {
  readonly kind: "elsewhere" | "gone" | "taken" | "blocked" | "undo" | "undo-factor";
  /** `undo` and `undo-factor` only: the address that comes back, if one does, and the form that asks for it. */
  readonly form?: { readonly email: string; readonly action: string; readonly csrf: string };
}

const MESSAGES: Readonly<
  Record<ConfirmMessage["kind"], (t: Translator, email: string) => { heading: string; text: string }>
> = {
  elsewhere: (t) => ({ heading: t("confirm-email.title"), text: t("confirm-email.elsewhere") }),
  gone: (t) => ({ heading: t("confirm-email.gone.title"), text: t("confirm-email.gone") }),
  taken: (t) => ({ heading: t("undo.taken.title"), text: t("undo.taken") }),
  blocked: (t) => ({ heading: t("undo.blocked.title"), text: t("undo.blocked") }),
  undo: (t, email) => ({ heading: t("undo.title"), text: t("undo.text", { email }) }),
  "undo-factor": (t) => ({ heading: t("undo.factor.title"), text: t("undo.factor.text") }),
};

export const confirmPage: Page<ConfirmMessage & { readonly accountUrl: string }> = {
  view: "confirm",
  locals: (t, { accountUrl, kind, form }) => ({
    ...MESSAGES[kind](t, form?.email ?? ""),
    layout: "end",
    accountUrl,
    submit: kind === "undo-factor" ? t("undo.factor.submit") : t("undo.submit"),
    action: form?.action ?? "",
    csrf: form?.csrf ?? "",
  }),
};

export interface ConfirmParts {
  readonly pages: Pages;
  readonly people: Pick<People, "confirmations" | "passwordResets" | "addressChanges">;
  readonly links: LinkCookie;
  readonly devices: Pick<DeviceCookies, "writeReset">;
  readonly offers: Offers;
  /** Signs the hidden field of the form. */
  readonly forms: Signer;
  readonly clock: Clock;
  /** Missing without mail. */
  readonly enrolments: Pick<Enrolments, "undo"> | undefined;
}

export interface ConfirmHandlers {
  readonly show: (ctx: ServiceContext, token?: string) => Promise<void>;
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

/** Why a change can't be undone: another account has the address, or the account is disabled. */
type UndoProblem = "taken" | "blocked";

/** The answer, to be sent as a page or as JSON. */
type Answer =
  /** `used`: the link was good when the form was shown. Another tab may have gone on with a link for a new password. */
  | { readonly kind: "elsewhere" | "gone" | "used" }
  | { readonly kind: "location"; readonly location: string }
  /**
   * Asks whether to undo a change of address, or a first second factor: then `email` is `null`. `problem`: it can't be
   * undone, another account has the address.
   */
  | {
      readonly kind: "undo";
      readonly link: string;
      readonly email: string | null;
      readonly problem?: UndoProblem;
    }
  /** It is undone. The link is for a new password. */
  | { readonly kind: "undone"; readonly link: string; readonly username: string }
  | {
      readonly kind: "password";
      readonly link: string;
      /** Whose password it is, for password managers: the address that the link was sent to. */
      readonly username: string;
      readonly problems: readonly Problem[];
      /** Seconds until the next attempt can succeed, after too many. */
      readonly retryAfter?: number;
    }
  | { readonly kind: "done"; readonly location: string };

/** The steps of the sign-in that waits for a link. */
const STEP_OF: Readonly<Record<Extract<ConfirmationPurpose, "registration" | "password-reset">, string>> = {
  registration: "confirm-email",
  "password-reset": "new-password",
};

/** This browser has no sign-in. Afterwards it is at the account pages. */
const NO_CLIENT: SignInClient = { client_id: "", name: "", own: true };

/** The text that the hidden field signs. */
const formOf = (token: string): string => `confirm ${token}`;

function statusOf({ problems, retryAfter }: Extract<Answer, { kind: "password" }>): 200 | 400 | 429 {
  if (retryAfter !== undefined) return 429;
  return problems.length === 0 ? 200 : 400;
}

const pathOf = (ctx: ServiceContext): string => ctx.exchange.deployment.path + CONFIRM_PATH;

export function createConfirmHandlers(parts: ConfirmParts): ConfirmHandlers {
  const { pages, people, links, devices, offers, forms, clock, enrolments } = parts;
  const csrfOf = (link: string): string => forms.sign(formOf(link));

  function askedAt(ctx: ServiceContext): AskedAt {
    const caller = callerOf(ctx, ANONYMOUS);
    const { locale } = pages.visit(ctx);
    return { deployment: ctx.exchange.deployment.kind, caller, address: ctx.exchange.address, locale };
  }

  async function open(ctx: ServiceContext, token: string | undefined): Promise<Answer> {
    const { path } = ctx.exchange.deployment;
    if (token !== undefined) {
      if (!isLinkToken(token)) return { kind: "gone" };
      links.write(ctx, token);
      return { kind: "location", location: pathOf(ctx) };
    }
    const link = links.read(ctx);
    const pending =
      link === undefined ? undefined : await people.confirmations.findByLink<EarlierAddress>(link);
    if (link === undefined || pending === undefined) {
      links.clear(ctx);
      return { kind: "gone" };
    }
    const { purpose, interaction, extra } = pending;
    if (purpose === "address-undo") return { kind: "undo", link, email: shownEmail(extra.email) };
    if (purpose === "factor-undo") return { kind: "undo", link, email: null };
    // Its mail brings a code and no link.
    if (purpose === "factor-enrolment") return { kind: "gone" };
    if (purpose === "address-change") return { kind: "location", location: `${path}/account/email` };
    const isElsewhere = new URLSearchParams(ctx.querystring).has(ELSEWHERE) || interaction === undefined;
    // Only the browser that has the sign-in can show this step. Others come back here.
    if (!isElsewhere)
      return { kind: "location", location: `${path}/interaction/${interaction}/${STEP_OF[purpose]}` };
    if (purpose === "registration") return { kind: "elsewhere" };
    return { kind: "password", link, username: shownEmail(extra.email), problems: [] };
  }

  /** The change is undone: the person chooses a new password. */
  async function undone(ctx: ServiceContext, reset: string): Promise<Answer> {
    links.write(ctx, reset);
    const pending = await people.confirmations.findByLink<EarlierAddress>(reset);
    return pending === undefined
      ? { kind: "gone" }
      : { kind: "undone", link: reset, username: shownEmail(pending.extra.email) };
  }

  async function act(ctx: ServiceContext, link: string, values: Values): Promise<Answer> {
    const { confirmations, passwordResets, addressChanges } = people;
    if (passwordResets === undefined || addressChanges === undefined) return { kind: "gone" };
    const pending = await confirmations.findByLink<EarlierAddress>(link);
    if (pending === undefined) return { kind: "used" };
    if (pending.purpose === "address-undo") {
      const email = shownEmail(pending.extra.email);
      const result = await addressChanges.undo(link, askedAt(ctx));
      if (result.kind === "taken" || result.kind === "blocked")
        return { kind: "undo", link, email, problem: result.kind };
      if (result.kind !== "undone") return { kind: "used" };
      return undone(ctx, result.reset);
    }
    if (pending.purpose === "factor-undo") {
      const result = await enrolments?.undo(link, askedAt(ctx));
      if (result?.kind === "blocked") return { kind: "undo", link, email: null, problem: result.kind };
      if (result?.kind !== "undone") return { kind: "used" };
      return undone(ctx, result.reset);
    }
    const password = values.get("password") ?? "";
    const username = shownEmail(pending.extra.email);
    if (password === "")
      return { kind: "password", link, username, problems: [{ code: "required", fields: ["password"] }] };
    const result = await passwordResets.finish({ link }, password, askedAt(ctx));
    const outcome = outcomeOf(result, offers);
    if (outcome.kind === "invalid") return { kind: "password", link, username, problems: outcome.problems };
    if (outcome.kind === "limited") {
      const { retryAfter } = outcome;
      const problem = { code: "limited", fields: [], values: { retryAfter } };
      return { kind: "password", link, username, problems: [problem], retryAfter };
    }
    links.clear(ctx);
    if (result.kind !== "done") return { kind: "gone" };
    devices.writeReset(ctx, result);
    return { kind: "done", location: `${ctx.exchange.deployment.path}/account` };
  }

  /** The step for a new password, for a browser that has no sign-in. */
  function passwordStep(
    ctx: ServiceContext,
    { link, username }: { readonly link: string; readonly username: string },
    problems: readonly Problem[],
  ): PresentStep {
    const path = pathOf(ctx);
    const signIn: PresentStep["signIn"] = {
      uid: "",
      prompt: "login",
      client: NO_CLIENT,
      path,
      csrf: csrfOf(link),
      state: { username },
      shares: [],
      apis: [],
      expiresAt: clock.now() + LINK_COOKIE_SECONDS * 1_000,
      link,
    };
    return {
      name: "new-password",
      signIn,
      path,
      fields: newPassword.fields(signIn, offers),
      actions: ["submit"],
      ways: [],
      offers,
      problems,
      expiresIn: LINK_COOKIE_SECONDS,
    };
  }

  function sendPage(ctx: ServiceContext, answer: Answer): void {
    const message = (status: 200 | 400 | 409, shown: ConfirmMessage): void =>
      pages.send(
        ctx,
        confirmPage,
        { accountUrl: `${ctx.exchange.deployment.url}/account`, ...shown },
        { status },
      );
    switch (answer.kind) {
      case "elsewhere":
        return message(200, { kind: "elsewhere" });
      case "gone":
        return message(400, { kind: "gone" });
      case "undo": {
        const { email, link, problem } = answer;
        if (problem !== undefined) return message(409, { kind: problem });
        const form = { email: email ?? "", action: pathOf(ctx), csrf: csrfOf(link) };
        return message(200, { kind: email === null ? "undo-factor" : "undo", form });
      }
      case "password": {
        const step = passwordStep(ctx, answer, answer.problems);
        const { retryAfter } = answer;
        const options = { isRepeatable: true, status: statusOf(answer), ...(retryAfter && { retryAfter }) };
        return pages.send(ctx, stepPage(step.name), step, options);
      }
      case "undone":
      case "used":
        return seeOther(ctx, pathOf(ctx));
      case "location":
      case "done":
        return seeOther(ctx, answer.location);
    }
  }

  function sendJson(ctx: ServiceContext, answer: Answer): void {
    switch (answer.kind) {
      case "elsewhere":
      case "gone":
      case "used":
        return refuseGone(ctx);
      case "undo":
        return answerJson(ctx, answer.problem === undefined ? 200 : 400, undoStep(ctx, answer));
      case "undone":
        return answerJson(ctx, 200, describeFor(pages, ctx, passwordStep(ctx, answer, [])));
      case "password": {
        const step = passwordStep(ctx, answer, answer.problems);
        answerJson(ctx, statusOf(answer), describeFor(pages, ctx, step));
        if (answer.retryAfter !== undefined) ctx.set("Retry-After", String(answer.retryAfter));
        return;
      }
      case "location":
        return seeOther(ctx, answer.location);
      case "done":
        return answerJson(ctx, 200, { done: true, location: answer.location });
    }
  }

  function undoStep(
    ctx: ServiceContext,
    { link, email, problem }: Answer & { kind: "undo" },
  ): StepDescription {
    const { locale } = pages.visit(ctx);
    return describeUndo(pages.translator(locale), {
      email,
      csrf: csrfOf(link),
      href: pathOf(ctx),
      problem,
    });
  }

  /** The fields of one of our forms; `undefined` after an answer to anything else. */
  async function formFields(ctx: ServiceContext, link: string): Promise<Values | undefined> {
    const form = await readable(() => ctx.exchange.form());
    if (form !== undefined && isFromHere(ctx) && forms.verify(formOf(link), form.get("csrf") ?? ""))
      return form;
    pages.startAgain(ctx, { status: 403, action: pathOf(ctx) });
    return undefined;
  }

  return {
    async show(ctx, token) {
      const answer = await open(ctx, token);
      return wantsJson(ctx) ? sendJson(ctx, answer) : sendPage(ctx, answer);
    },
    async submit(ctx) {
      const isJson = wantsJson(ctx);
      const body = isJson ? await readSubmission(ctx) : undefined;
      if (isJson && body === undefined) return;
      const send = isJson ? sendJson : sendPage;
      const link = links.read(ctx);
      if (link === undefined) return send(ctx, { kind: "gone" });
      if (body !== undefined && !forms.verify(formOf(link), body.get("csrf") ?? ""))
        return forbidden(ctx, "csrf is not that of this link");
      const values = body ?? (await formFields(ctx, link));
      if (values !== undefined) send(ctx, await act(ctx, link, values));
    },
  };
}

/** The contents of the step `undo`. */
interface Undo {
  /** The address that comes back; `null`: a first second factor is undone. */
  readonly email: string | null;
  readonly csrf: string;
  /** The path to post to. */
  readonly href: string;
  readonly problem: UndoProblem | undefined;
}

/** The step `undo`, which belongs to no sign-in. */
export function describeUndo(t: Translator, { email, csrf, href, problem }: Undo): StepDescription {
  const problems: readonly DescribedProblem[] =
    problem === undefined ? [] : [{ code: problem, text: t(`undo.${problem}`), fields: [] }];
  return {
    step: "undo",
    client: NO_CLIENT,
    title: email === null ? t("undo.factor.title") : t("undo.title"),
    text: [email === null ? t("undo.factor.text") : t("undo.text", { email }), t("undo.effect")].join("\n"),
    fields: [],
    problems,
    actions: [
      {
        name: "submit",
        label: t(email === null ? "undo.factor.submit" : "undo.submit"),
        method: "POST",
        href,
      },
    ],
    csrf,
    locale: t.locale,
    expires_in: LINK_COOKIE_SECONDS,
  };
}
