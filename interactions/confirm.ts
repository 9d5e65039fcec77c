/**
 * `{base}/confirm`, where links in mail lead to. Opening it changes nothing, so that programs that look at mail confirm
 * nothing: the token moves to a cookie, and the browser goes on to where a person can confirm.
 */
import type { Context } from "koa";
import type { Deployment } from "../config/configuration.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ConfirmationPurpose } from "../records/people/confirmations.ts";
import type { AddressChanges, EarlierAddress } from "../accounts/people/address-changes.ts";
import type { AskedAt } from "../accounts/people/requests.ts";
import type { People } from "../accounts/people/people.ts";
import type { Signer } from "../core/sealing.ts";
import { createAnswers, seeOther, sendPage } from "./answers.ts";
import { type Form, isFromHere, readable } from "./forms.ts";
import { isLinkToken, type LinkCookie } from "./link-cookie.ts";
import type { ConfirmLocals } from "./page-locals.ts";
import type { Pages } from "./pages.ts";
import { newPassword, outcomeOf } from "./steps/new-password.ts";
import {
  callerOf,
  type InteractionContext,
  type Offers,
  type PresentStep,
  type Problem,
} from "./steps/step.ts";

export const CONFIRM_PATH = "/confirm";
/** The parameter of the address for browsers that don't have the sign-in. */
export const ELSEWHERE = "elsewhere";

/** A Koa context of the page. */
export type ConfirmContext = Context & { readonly state: { readonly deployment: Deployment } };

export interface ConfirmParts {
  readonly pages: Pages;
  readonly people: Pick<People, "confirmations" | "passwordResets" | "addressChanges">;
  readonly links: LinkCookie;
  readonly offers: Offers;
  /** Signs the hidden field of the form. */
  readonly forms: Signer;
  readonly readForm: (ctx: ConfirmContext) => Promise<Form>;
  /** The caller's IP address, as far as proxies are trusted. */
  readonly addressOf: (ctx: Pick<ConfirmContext, "req">) => string;
}

export interface ConfirmHandlers {
  readonly show: (ctx: ConfirmContext, token: string | undefined) => Promise<void>;
  readonly submit: (ctx: ConfirmContext) => Promise<void>;
}

/** The steps of the sign-in that waits for a link. */
const STEP_OF: Readonly<Record<Exclude<ConfirmationPurpose, "address-change" | "address-undo">, string>> = {
  registration: "confirm-email",
  "password-reset": "new-password",
};

/** The text that the hidden field signs. */
const formOf = (token: string): string => `confirm ${token}`;

export function createConfirmHandlers(parts: ConfirmParts): ConfirmHandlers {
  const { pages, people, links, offers, forms, readForm, addressOf } = parts;
  const answers = createAnswers(pages);

  const message = async (
    ctx: ConfirmContext,
    status: 200 | 400 | 409,
    shown: Pick<ConfirmLocals, "kind" | "form">,
  ): Promise<void> => {
    const accountUrl = `${ctx.state.deployment.url}/account`;
    const html = await pages.confirm({ ...pages.visit(ctx), accountUrl, ...shown });
    sendPage(ctx, pages, { status, html });
  };

  /** Asks whether to undo a change of address. */
  function undoPage(ctx: ConfirmContext, link: string, { email }: EarlierAddress): Promise<void> {
    const action = ctx.state.deployment.path + CONFIRM_PATH;
    return message(ctx, 200, { kind: "undo", form: { email, action, csrf: forms.sign(formOf(link)) } });
  }

  /** Undoes it, and lets this browser go on to a new password. */
  async function undo(ctx: ConfirmContext, link: string, changes: AddressChanges): Promise<void> {
    const result = await changes.undo(link, askedAt(ctx));
    if (result.kind === "taken") return message(ctx, 409, { kind: "taken" });
    if (result.kind !== "undone") {
      links.clear(ctx);
      return message(ctx, 400, { kind: "gone" });
    }
    links.write(ctx, result.reset);
    return seeOther(ctx, ctx.state.deployment.path + CONFIRM_PATH);
  }

  function askedAt(ctx: ConfirmContext): AskedAt {
    const caller = callerOf({ addressOf }, ctx as unknown as InteractionContext, ANONYMOUS);
    const { locale } = pages.visit(ctx);
    return { deployment: ctx.state.deployment.kind, caller, address: addressOf(ctx), locale };
  }

  /** The page for a new password, for a browser that has no sign-in. */
  async function passwordPage(
    ctx: ConfirmContext,
    link: string,
    status: number,
    problems: readonly Problem[] = [],
  ): Promise<void> {
    const path = ctx.state.deployment.path + CONFIRM_PATH;
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
    const html = await pages.step({ ...pages.visit(ctx, { isRepeatable: true }), step });
    sendPage(ctx, pages, { status, html });
  }

  return {
    async show(ctx, token) {
      const { path } = ctx.state.deployment;
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
      const { deployment } = ctx.state;
      const link = links.read(ctx);
      const { passwordResets, addressChanges, confirmations } = people;
      if (link === undefined || passwordResets === undefined || addressChanges === undefined)
        return message(ctx, 400, { kind: "gone" });
      const form = await readable(() => readForm(ctx));
      const isOurs = isFromHere(ctx) && forms.verify(formOf(link), form?.get("csrf") ?? "");
      if (form === undefined || !isOurs)
        return answers.startAgain(ctx, { status: 403, action: deployment.path + CONFIRM_PATH });
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
