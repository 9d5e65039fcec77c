/**
 * `{base}/confirm`, where links in mail lead to. Opening it changes nothing, so that programs that look at mail confirm
 * nothing: the token moves to a cookie, and the browser goes on to where a person can confirm.
 */
import { callerOf, type ServiceContext } from "../provider/exchange.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ConfirmationPurpose } from "../records/people/confirmation-kinds.ts";
import type { AddressChanges, EarlierAddress } from "../accounts/people/address-changes.ts";
import type { AskedAt } from "../accounts/people/requests.ts";
import type { People } from "../accounts/people/people.ts";
import type { Signer } from "../core/sealing.ts";
import type { Translator } from "../core/texts.ts";
import { seeOther } from "./answers.ts";
import { isFromHere, readable } from "./forms.ts";
import { isLinkToken, type LinkCookie } from "./link-cookie.ts";
import type { Page, Pages } from "./page.ts";
import { newPassword, outcomeOf } from "./steps/new-password.ts";
import { type Offers, type PresentStep, type Problem } from "./steps/step.ts";
import { stepPage } from "./steps/views.ts";

export const CONFIRM_PATH = "/confirm";
/** The parameter of the address for browsers that don't have the sign-in. */
export const ELSEWHERE = "elsewhere";

/** What the page says: a link confirms nothing in this browser, or nothing any more, or undoes a change of address. */
interface ConfirmMessage {
  readonly kind: "elsewhere" | "gone" | "taken" | "undo";
  /** `undo` only: the address that comes back, and the form that asks for it. */
  readonly form?: { readonly email: string; readonly action: string; readonly csrf: string };
}

const MESSAGES: Readonly<
  Record<ConfirmMessage["kind"], (t: Translator, email: string) => { heading: string; text: string }>
> = {
  elsewhere: (t) => ({ heading: t("confirm-email.title"), text: t("confirm-email.elsewhere") }),
  gone: (t) => ({ heading: t("confirm-email.gone.title"), text: t("confirm-email.gone") }),
  taken: (t) => ({ heading: t("undo.taken.title"), text: t("undo.taken") }),
  undo: (t, email) => ({ heading: t("undo.title"), text: t("undo.text", { email }) }),
};

export const confirmPage: Page<ConfirmMessage & { readonly accountUrl: string }> = {
  view: "confirm",
  locals: (t, { accountUrl, kind, form }) => ({
    ...MESSAGES[kind](t, form?.email ?? ""),
    layout: "end",
    accountUrl,
    action: form?.action ?? "",
    csrf: form?.csrf ?? "",
  }),
};

export interface ConfirmParts {
  readonly pages: Pages;
  readonly people: Pick<People, "confirmations" | "passwordResets" | "addressChanges">;
  readonly links: LinkCookie;
  readonly offers: Offers;
  /** Signs the hidden field of the form. */
  readonly forms: Signer;
}

export interface ConfirmHandlers {
  readonly show: (ctx: ServiceContext, token?: string) => Promise<void>;
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

/** The steps of the sign-in that waits for a link. */
const STEP_OF: Readonly<Record<Exclude<ConfirmationPurpose, "address-change" | "address-undo">, string>> = {
  registration: "confirm-email",
  "password-reset": "new-password",
};

/** The text that the hidden field signs. */
const formOf = (token: string): string => `confirm ${token}`;

export function createConfirmHandlers(parts: ConfirmParts): ConfirmHandlers {
  const { pages, people, links, offers, forms } = parts;
  const message = (ctx: ServiceContext, status: 200 | 400 | 409, shown: ConfirmMessage): void =>
    pages.send(
      ctx,
      confirmPage,
      { accountUrl: `${ctx.exchange.deployment.url}/account`, ...shown },
      { status },
    );

  /** Asks whether to undo a change of address. */
  function undoPage(ctx: ServiceContext, link: string, { email }: EarlierAddress): void {
    const action = ctx.exchange.deployment.path + CONFIRM_PATH;
    return message(ctx, 200, { kind: "undo", form: { email, action, csrf: forms.sign(formOf(link)) } });
  }

  /** Undoes it, and lets this browser go on to a new password. */
  async function undo(ctx: ServiceContext, link: string, changes: AddressChanges): Promise<void> {
    const result = await changes.undo(link, askedAt(ctx));
    if (result.kind === "taken") return message(ctx, 409, { kind: "taken" });
    if (result.kind !== "undone") {
      links.clear(ctx);
      return message(ctx, 400, { kind: "gone" });
    }
    links.write(ctx, result.reset);
    return seeOther(ctx, ctx.exchange.deployment.path + CONFIRM_PATH);
  }

  function askedAt(ctx: ServiceContext): AskedAt {
    const caller = callerOf(ctx, ANONYMOUS);
    const { locale } = pages.visit(ctx);
    return { deployment: ctx.exchange.deployment.kind, caller, address: ctx.exchange.address, locale };
  }

  /** The page for a new password, for a browser that has no sign-in. */
  function passwordPage(
    ctx: ServiceContext,
    link: string,
    status: number,
    problems: readonly Problem[] = [],
  ): void {
    const path = ctx.exchange.deployment.path + CONFIRM_PATH;
    const signIn: PresentStep["signIn"] = {
      uid: "",
      prompt: "login",
      client: { client_id: "", name: "", own: true },
      path,
      csrf: forms.sign(formOf(link)),
      state: {},
      shares: [],
      expiresAt: 0,
      link,
    };
    const step: PresentStep = {
      name: "new-password",
      signIn,
      path,
      fields: newPassword.fields(signIn, offers),
      actions: ["submit"],
      ways: [],
      offers,
      problems,
      expiresIn: 0,
    };
    pages.send(ctx, stepPage(step.name), step, { isRepeatable: true, status });
  }

  return {
    async show(ctx, token) {
      const { path } = ctx.exchange.deployment;
      if (token !== undefined) {
        if (!isLinkToken(token)) return message(ctx, 400, { kind: "gone" });
        links.write(ctx, token);
        return seeOther(ctx, path + CONFIRM_PATH);
      }
      const link = links.read(ctx);
      const pending =
        link === undefined ? undefined : await people.confirmations.findByLink<EarlierAddress>(link);
      if (link === undefined || pending === undefined) {
        links.clear(ctx);
        return message(ctx, 400, { kind: "gone" });
      }
      const { purpose, interaction, extra } = pending;
      if (purpose === "address-undo") return undoPage(ctx, link, extra);
      if (purpose === "address-change") return seeOther(ctx, `${path}/account/email`);
      const isElsewhere = new URLSearchParams(ctx.querystring).has(ELSEWHERE) || interaction === undefined;
      // Only the browser that has the sign-in can show this step. Others come back here.
      if (!isElsewhere) return seeOther(ctx, `${path}/interaction/${interaction}/${STEP_OF[purpose]}`);
      return purpose === "registration"
        ? message(ctx, 200, { kind: "elsewhere" })
        : passwordPage(ctx, link, 200);
    },
    async submit(ctx) {
      const { deployment } = ctx.exchange;
      const link = links.read(ctx);
      const { passwordResets, addressChanges, confirmations } = people;
      if (link === undefined || passwordResets === undefined || addressChanges === undefined)
        return message(ctx, 400, { kind: "gone" });
      const form = await readable(() => ctx.exchange.form());
      const isOurs = isFromHere(ctx) && forms.verify(formOf(link), form?.get("csrf") ?? "");
      if (form === undefined || !isOurs)
        return pages.startAgain(ctx, { status: 403, action: deployment.path + CONFIRM_PATH });
      const pending = await confirmations.findByLink(link);
      if (pending?.purpose === "address-undo") return undo(ctx, link, addressChanges);
      const password = form.get("password") ?? "";
      if (password === "") return passwordPage(ctx, link, 400, [{ code: "required", fields: ["password"] }]);
      const result = await passwordResets.finish({ link }, password, askedAt(ctx));
      const outcome = outcomeOf(result, offers);
      if (outcome.kind === "invalid") return passwordPage(ctx, link, 400, outcome.problems);
      links.clear(ctx);
      return result.kind === "done"
        ? seeOther(ctx, `${deployment.path}/account`)
        : message(ctx, 400, { kind: "gone" });
    },
  };
}
