/**
 * `{base}/confirm`, where links in mail lead. Opening it changes nothing, so that programs that scan mail confirm
 * nothing: the token moves to a cookie, and the browser is redirected to where a person can confirm.
 */
import { callerOf, type ServiceContext } from "../provider/exchange.ts";
import type { ConfirmPage } from "../provider/pages.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ConfirmationPurpose } from "../records/people/confirmation-kinds.ts";
import { shownEmail } from "../accounts/names.ts";
import type { Enrolments } from "../accounts/factors/enrolment.ts";
import type { Identities } from "../accounts/identities/identities.ts";
import type { AddressChanges } from "../accounts/people/address-changes.ts";
import type { Pending } from "../accounts/people/confirmations.ts";
import { type Label, labelIn } from "../config/labels.ts";
import type { AskedAt } from "../accounts/people/requests.ts";
import type { Signer } from "../core/sealing.ts";
import type { Translator } from "../core/texts.ts";
import { isLinkToken, LINK_COOKIE_SECONDS } from "./link-cookie.ts";
import type { DescribedPage } from "./page.ts";
import { type Reply, send, type Shown, shown, unreadable } from "./reply.ts";
import type { PageServices } from "./services.ts";
import type { StepDescription } from "./steps/described-step.ts";
import { newPassword, outcomeOf } from "./steps/new-password.ts";
import type { AccountGate } from "./account/gate.ts";
import type { RunningSignIn, SignInClient } from "./steps/running-sign-in.ts";
import type { Offers, Problem, Values } from "./steps/step.ts";
import { stepPage } from "./steps/views.ts";
import { originProblem, readSent, wantsJson } from "./submission.ts";

export const CONFIRM_PATH = "/confirm";
/** The parameter of the address for browsers that don't have the sign-in. */
export const ELSEWHERE = "elsewhere";

/** A link confirms nothing in this browser, or nothing any more, or undoes a change. */
interface ConfirmLocals {
  readonly accountUrl: string;
  readonly kind: "elsewhere" | "gone" | "signed-in" | "undo" | "undo-factor" | "undo-identity";
  /** `undo`: the address that comes back. `signed-in`: that of the invitation. */
  readonly email?: string;
  /** `signed-in`: the address of the account that this browser is signed in to. */
  readonly account?: string;
  /** `undo-identity`: the provider. */
  readonly provider?: Label;
  /** The account signs in at its provider only: no password ends, and none is chosen. */
  readonly isOnly?: boolean;
  /** The form that undoes the change. */
  readonly form?: { readonly action: string; readonly csrf: string };
  /** Why the change can't be undone: another account has the address, or the account is disabled. */
  readonly problem?: "taken" | "blocked";
}

/** Keys of texts. */
const TEXTS: Readonly<
  Record<
    ConfirmLocals["kind"] | "taken" | "blocked",
    { readonly heading: string; readonly text: string; readonly submit?: string }
  >
> = {
  elsewhere: { heading: "confirm-email.title", text: "confirm-email.elsewhere" },
  gone: { heading: "confirm-email.gone.title", text: "confirm-email.gone" },
  "signed-in": { heading: "invitation.signedIn.title", text: "invitation.signedIn" },
  taken: { heading: "undo.taken.title", text: "undo.taken" },
  blocked: { heading: "undo.blocked.title", text: "undo.blocked" },
  undo: { heading: "undo.title", text: "undo.text", submit: "undo.submit" },
  "undo-factor": { heading: "undo.factor.title", text: "undo.factor.text", submit: "undo.factor.submit" },
  "undo-identity": {
    heading: "undo.identity.title",
    text: "undo.identity.text",
    submit: "undo.identity.submit",
  },
};

export const confirmPage: DescribedPage<ConfirmLocals> = {
  view: "confirm",
  locals(t, locals) {
    const { accountUrl, kind, form, problem } = locals;
    const { heading, text, submit } = TEXTS[problem ?? kind];
    const values = valuesOf(t, locals);
    return {
      heading: t(heading, values),
      text: t(text, values),
      effect: effectOf(t, locals),
      layout: "end",
      accountUrl,
      leave: kind === "signed-in" ? t("invitation.signedIn.submit") : t("account.link"),
      submit: submit === undefined ? "" : t(submit, values),
      action: problem === undefined ? (form?.action ?? "") : "",
      csrf: form?.csrf ?? "",
    };
  },
  describe: describeUndo,
};

const effectOf = (t: Translator, { isOnly = false }: ConfirmLocals): string =>
  isOnly ? t("undo.effect.only") : t("undo.effect");

const valuesOf = (t: Translator, { email = "", account = "", provider = "" }: ConfirmLocals) => ({
  email,
  account,
  name: labelIn(provider, t.locale),
});

/** The step `undo`, which belongs to no sign-in. Other links are 410 for programs. */
function describeUndo(t: Translator, locals: ConfirmLocals): StepDescription {
  const { kind, form, problem } = locals;
  const { heading, text, submit = "" } = TEXTS[kind];
  const values = valuesOf(t, locals);
  return {
    step: "undo",
    client: NO_CLIENT,
    title: t(heading, values),
    text: [t(text, values), effectOf(t, locals)].join("\n"),
    fields: [],
    problems: problem === undefined ? [] : [{ code: problem, text: t(`undo.${problem}`), fields: [] }],
    actions: [{ name: "submit", label: t(submit, values), method: "POST", href: form?.action ?? "" }],
    csrf: form?.csrf ?? "",
    locale: t.locale,
    expires_in: LINK_COOKIE_SECONDS,
  };
}

/** This browser has no sign-in. Afterwards it is at the account pages. */
const NO_CLIENT: SignInClient = { client_id: "", name: "", own: true };

/** The steps of the sign-in that waits for a link. */
const STEP_OF: Readonly<Record<Extract<ConfirmationPurpose, "registration" | "password-reset">, string>> = {
  registration: "confirm-email",
  "password-reset": "new-password",
};

/** What the page needs to know of what a link is for. */
interface Undoable {
  /** The address that comes back, or that a new password is for. */
  readonly email?: string;
  /** The key of the provider. */
  readonly provider?: string;
  readonly isOnly?: boolean;
}

/** A change that a link undoes. */
interface Undoing {
  readonly shown: Pick<ConfirmLocals, "kind" | "email" | "provider" | "isOnly">;
  readonly by: Pick<AddressChanges | Enrolments | Identities, "undo"> | undefined;
}

/** The text that the hidden field signs. */
const formOf = (token: string): string => `confirm ${token}`;

const pathOf = (ctx: ServiceContext): string => ctx.exchange.deployment.path + CONFIRM_PATH;

function message(
  { exchange: { deployment } }: ServiceContext,
  status: 200 | 400,
  locals: Omit<ConfirmLocals, "accountUrl">,
): Shown {
  // Only the deployment `openid` has a page for signing out; the account page has a button.
  const signsOut = locals.kind === "signed-in" && deployment.kind === "openid";
  const accountUrl = deployment.url + (signsOut ? "/oauth2/logout" : "/account");
  return shown(confirmPage, { accountUrl, ...locals }, { status });
}

const gone = (ctx: ServiceContext): Reply => ({
  kind: "gone",
  browser: message(ctx, 400, { kind: "gone" }),
});

/** The link was good when the form was shown. Another tab may have gone on with a link for a new password. */
const used = (ctx: ServiceContext): Reply => ({
  kind: "gone",
  browser: { kind: "leave", location: pathOf(ctx) },
});

/** @param forms signs the hidden field of the form. */
export function createConfirmHandlers(
  {
    pages,
    people,
    links,
    devices,
    secondFactors: { enrolments },
    identities,
    invitations,
    configuration,
    clock,
  }: Pick<
    PageServices,
    | "pages"
    | "people"
    | "links"
    | "devices"
    | "secondFactors"
    | "identities"
    | "invitations"
    | "configuration"
    | "clock"
  >,
  { offers, forms, gate }: { readonly offers: Offers; readonly forms: Signer; readonly gate: AccountGate },
): ConfirmPage {
  const csrfOf = (link: string): string => forms.sign(formOf(link));

  function askedAt(ctx: ServiceContext): AskedAt {
    const caller = callerOf(ctx, ANONYMOUS);
    const { locale } = pages.visit(ctx);
    return { deployment: ctx.exchange.deployment.kind, caller, address: ctx.exchange.address, locale };
  }

  /** The change that a link undoes: the words of its page, and the call. `undefined` for a link that undoes nothing. */
  function undoingOf({ purpose, extra }: Pick<Pending<Undoable>, "purpose" | "extra">): Undoing | undefined {
    if (purpose === "factor-undo") return { shown: { kind: "undo-factor" }, by: enrolments };
    if (purpose === "address-undo")
      return { shown: { kind: "undo", email: shownEmail(extra.email ?? "") }, by: people.addressChanges };
    if (purpose !== "identity-undo") return undefined;
    const { provider = "", isOnly = false } = extra;
    const name = configuration.providers.find(({ key }) => key === provider)?.name ?? provider;
    return { shown: { kind: "undo-identity", provider: name, isOnly }, by: identities };
  }

  /** Asks whether to undo a change. */
  function undo(
    ctx: ServiceContext,
    link: string,
    { shown: what }: Undoing,
    problem?: ConfirmLocals["problem"],
  ): Reply {
    return message(ctx, problem === undefined ? 200 : 400, {
      ...what,
      form: { action: pathOf(ctx), csrf: csrfOf(link) },
      ...(problem !== undefined && { problem }),
    });
  }

  /**
   * The step for a new password, for a browser that has no sign-in.
   * @param username whose password it is, for password managers: the address that the link was sent to.
   */
  function passwordStep(
    ctx: ServiceContext,
    { link, username }: { readonly link: string; readonly username: string },
    problems: readonly Problem[] = [],
    retryAfter?: number,
  ): Shown {
    const path = pathOf(ctx);
    const signIn: RunningSignIn = {
      uid: "",
      prompt: "login",
      client: NO_CLIENT,
      clientThen: { client_id: "", services: [] },
      path,
      csrf: csrfOf(link),
      state: { username },
      shares: [],
      apis: [],
      expiresAt: clock.now() + LINK_COOKIE_SECONDS * 1_000,
      link,
    };
    const name = "new-password";
    const step = {
      name,
      signIn,
      path,
      fields: newPassword.fields(signIn, offers),
      actions: ["submit"],
      alternatives: [],
      offers,
      problems,
      expiresIn: LINK_COOKIE_SECONDS,
    } as const;
    const status = retryAfter !== undefined ? 429 : problems.length === 0 ? 200 : 400;
    const wait = retryAfter !== undefined && { retryAfter };
    return shown(stepPage(step), step, { isRepeatable: true, status, ...wait });
  }

  /** The link of an invitation leads to a sign-in that begins with it, unless somebody is signed in. */
  async function invitation(ctx: ServiceContext, id: string): Promise<Reply> {
    const invited = await invitations.findOpen(id);
    if (invited === undefined) return gone(ctx);
    const signedIn = await gate.find(ctx);
    if (signedIn === undefined) return gate.toInvitation(ctx);
    return message(ctx, 200, {
      kind: "signed-in",
      email: shownEmail(invited.email),
      account: shownEmail(signedIn.account.email),
    });
  }

  async function show(ctx: ServiceContext, token: string | undefined): Promise<Reply> {
    const { path } = ctx.exchange.deployment;
    if (token !== undefined) {
      if (!isLinkToken(token)) return gone(ctx);
      links.write(ctx, token);
      return { kind: "leave", location: pathOf(ctx) };
    }
    const link = links.read(ctx);
    const pending = link === undefined ? undefined : await people.confirmations.findByLink<Undoable>(link);
    if (link === undefined || pending === undefined) {
      links.clear(ctx);
      return gone(ctx);
    }
    const { purpose, interaction, extra } = pending;
    const undoing = undoingOf(pending);
    if (undoing !== undefined) return undo(ctx, link, undoing);
    if (purpose === "invitation") return invitation(ctx, pending.subject);
    // The mails of all others bring a code and no link.
    if (purpose !== "address-change" && purpose !== "registration" && purpose !== "password-reset")
      return gone(ctx);
    if (purpose === "address-change") return { kind: "leave", location: `${path}/account/email` };
    const isElsewhere = new URLSearchParams(ctx.querystring).has(ELSEWHERE) || interaction === undefined;
    // Only the browser that has the sign-in can show this step. Others come back here.
    if (!isElsewhere)
      return { kind: "leave", location: `${path}/interaction/${interaction}/${STEP_OF[purpose]}` };
    if (purpose === "registration")
      return { kind: "gone", browser: message(ctx, 200, { kind: "elsewhere" }) };
    return passwordStep(ctx, { link, username: shownEmail(extra.email ?? "") });
  }

  /** The change is undone: the person chooses a new password, or signs in at their provider. */
  async function undone(ctx: ServiceContext, reset: string | null): Promise<Reply> {
    if (reset === null) {
      links.clear(ctx);
      return { kind: "leave", location: `${ctx.exchange.deployment.path}/account` };
    }
    links.write(ctx, reset);
    const pending = await people.confirmations.findByLink<Undoable>(reset);
    if (pending === undefined) return gone(ctx);
    const step = passwordStep(ctx, { link: reset, username: shownEmail(pending.extra.email ?? "") });
    return { kind: "next", location: pathOf(ctx), shown: step };
  }

  async function act(ctx: ServiceContext, link: string, values: Values): Promise<Reply> {
    const { confirmations, passwordResets } = people;
    if (passwordResets === undefined) return gone(ctx);
    const pending = await confirmations.findByLink<Undoable>(link);
    if (pending === undefined) return used(ctx);
    const undoing = undoingOf(pending);
    if (undoing !== undefined) {
      const result = await undoing.by?.undo(link, askedAt(ctx));
      if (result?.kind === "undone") return undone(ctx, result.reset);
      if (result?.kind !== "taken" && result?.kind !== "blocked") return used(ctx);
      return undo(ctx, link, undoing, result.kind);
    }
    const password = values.get("password") ?? "";
    const owner = { link, username: shownEmail(pending.extra.email ?? "") };
    if (password === "") return passwordStep(ctx, owner, [{ code: "required", fields: ["password"] }]);
    const result = await passwordResets.finish({ link }, password, askedAt(ctx));
    const outcome = outcomeOf(result, offers);
    if (outcome.kind === "invalid") return passwordStep(ctx, owner, outcome.problems);
    if (outcome.kind === "limited") {
      const { retryAfter } = outcome;
      const problem = { code: "limited", fields: [], values: { retryAfter } };
      return passwordStep(ctx, owner, [problem], retryAfter);
    }
    links.clear(ctx);
    if (result.kind !== "done") return gone(ctx);
    devices.writeReset(ctx, result);
    return { kind: "leave", location: `${ctx.exchange.deployment.path}/account` };
  }

  async function submit(ctx: ServiceContext): Promise<Reply> {
    const link = links.read(ctx);
    // A browser that has no link learns that. A program has to send JSON from here first.
    if (link === undefined && !wantsJson(ctx)) return gone(ctx);
    const startAgain = { action: pathOf(ctx) };
    const foreign = originProblem(ctx);
    if (foreign !== undefined) return { kind: "forged", description: foreign, startAgain };
    const sent = await readSent(ctx);
    if (sent === undefined) return unreadable(ctx);
    if (link === undefined) return gone(ctx);
    if (!forms.verify(formOf(link), sent.values.get("csrf") ?? ""))
      return { kind: "forged", description: "csrf is not that of this link", startAgain };
    return act(ctx, link, sent.values);
  }

  return {
    show: async (ctx, token) => send(ctx, pages, await show(ctx, token)),
    submit: async (ctx) => send(ctx, pages, await submit(ctx)),
  };
}
