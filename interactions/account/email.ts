/** The e-mail address: a new one counts once the person shows that they read mail there. */
import { normalName, readName, shownEmail, trimmed } from "../../accounts/names.ts";
import type { AddressChanges } from "../../accounts/people/address-changes.ts";
import type { Confirmations } from "../../accounts/people/confirmations.ts";
import type { Translator } from "../../core/texts.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { Form, FormProblem } from "../forms.ts";
import type { LinkCookie } from "../link-cookie.ts";
import { waitText } from "../look/moments.ts";
import type { Page, SendOptions } from "../page.ts";
import {
  askedAt,
  personLocals,
  type PersonLocals,
  type PersonPage,
  type PersonVisit,
} from "./person-pages.ts";

const PATH = "/account/email";
const NEW_PATH = "/account/email/new";

/** A problem with a new address or a code. */
type EmailProblem =
  | { readonly reason: "invalid" | "same" | "noCode" | "noTries" | "gone" }
  | { readonly reason: "wrongCode"; readonly triesLeft: number }
  /** Seconds. */
  | { readonly reason: "limited"; readonly retryAfter: number };

/** `account-email`: the address, and forms for a change that waits to be confirmed. */
interface EmailLocals extends PersonLocals {
  readonly email: string;
  readonly isConfirmed: boolean;
  /** The new address, and whether this browser has followed the link in the mail. */
  readonly pending?: { readonly email: string; readonly hasLink: boolean };
  readonly problem?: EmailProblem;
}

/** `account-new-email`: a form with the new address. */
interface NewEmailLocals extends PersonLocals {
  /** What the field contains. */
  readonly value: string;
  readonly problem?: EmailProblem;
}

export const addressView: Page<EmailLocals> = {
  view: "account-email",
  locals(t, locals) {
    const { base, email, isConfirmed, pending, problem } = locals;
    return {
      ...personLocals(t, locals, t("account.email"), emailProblems(t, "code", problem)),
      email,
      isConfirmed,
      pending: pending ?? { email: "", hasLink: false },
      change: `${base}/account/email/new`,
    };
  },
};

export const newAddressView: Page<NewEmailLocals> = {
  view: "account-new-email",
  locals(t, locals) {
    const problems = emailProblems(t, "email", locals.problem);
    return { ...personLocals(t, locals, t("email.new.title"), problems), value: locals.value };
  },
};

function emailProblems(
  t: Translator,
  field: string,
  problem: EmailProblem | undefined,
): readonly FormProblem[] {
  if (problem === undefined) return [];
  const values = {
    wait: problem.reason === "limited" ? waitText(t.locale, problem.retryAfter) : "",
    tries: problem.reason === "wrongCode" ? problem.triesLeft : "",
  };
  const isAboutField = !["gone", "limited", "noTries"].includes(problem.reason);
  return [{ fields: isAboutField ? [field] : [], text: t(`email.problem.${problem.reason}`, values) }];
}

export interface EmailPageParts {
  /** Missing without mail: then the address can't be changed here. */
  readonly addressChanges: AddressChanges | undefined;
  readonly confirmations: Pick<Confirmations, "findByLink">;
  /** The link in mail that this browser has followed. */
  readonly links: Pick<LinkCookie, "read" | "clear">;
  readonly devices: Pick<DeviceCookies, "has" | "read">;
}

/** None if the address can't be changed here. */
export function emailPages(parts: EmailPageParts): readonly PersonPage[] {
  const { addressChanges } = parts;
  return addressChanges === undefined
    ? []
    : [addressPage(parts, addressChanges), newAddressPage(parts, addressChanges)];
}

/** The address, and a change that waits. A form sends `action`: `code` or `link` to confirm, `again`, or `cancel`. */
function addressPage(parts: EmailPageParts, changes: AddressChanges): PersonPage {
  const { confirmations, links } = parts;

  /** The link that this browser has followed, if it confirms a change of this account. */
  async function linkOf({ ctx, person }: PersonVisit): Promise<string | undefined> {
    const link = links.read(ctx);
    const found = link === undefined ? undefined : await confirmations.findByLink(link);
    const isOurs = found?.purpose === "address-change" && found.subject === person.account.sub;
    return isOurs ? link : undefined;
  }

  async function shown(visit: PersonVisit, problem?: EmailProblem): Promise<void> {
    const { email, sub } = visit.person.account;
    const [pending, link] = await Promise.all([changes.pending(sub), linkOf(visit)]);
    const data = {
      ...visit.locals,
      email: shownEmail(email),
      isConfirmed: visit.person.account.email_verified,
      ...(pending !== undefined && {
        pending: { email: shownEmail(pending.email), hasLink: link !== undefined },
      }),
      ...(problem !== undefined && { problem }),
    };
    visit.send(addressView, data, answerOf(problem));
  }

  async function confirm(visit: PersonVisit, form: Form): Promise<void> {
    const { sub } = visit.person.account;
    const link = form.get("action") === "link" ? await linkOf(visit) : undefined;
    const proof = link === undefined ? { code: form.get("code") ?? "" } : { link };
    if ("code" in proof && proof.code.trim() === "") return shown(visit, { reason: "noCode" });
    const result = await changes.confirm(sub, proof, askedAt(visit, parts.devices));
    if (result.kind === "wrong") {
      const { triesLeft } = result;
      return shown(visit, triesLeft === 0 ? { reason: "noTries" } : { reason: "wrongCode", triesLeft });
    }
    if (result.kind === "limited") return visit.limited(result.retryAfter);
    links.clear(visit.ctx);
    return result.kind === "gone" ? shown(visit, { reason: "gone" }) : visit.done(PATH, "address");
  }

  return {
    path: PATH,
    place: "email",
    show: (visit) => shown(visit),
    async submit(visit, form) {
      const { sub } = visit.person.account;
      const action = form.get("action");
      if (action === "cancel") {
        await changes.cancel(sub);
        return visit.done(PATH, "addressCancelled");
      }
      if (action !== "again") return confirm(visit, form);
      const pending = await changes.pending(sub);
      if (pending === undefined) return shown(visit, { reason: "gone" });
      const result = await changes.start(sub, pending.email, askedAt(visit, parts.devices));
      if (result.kind === "limited")
        return shown(visit, { reason: "limited", retryAfter: result.retryAfter });
      return visit.done(PATH, "codeSent");
    },
  };
}

/** The form for a new address, after a recent sign-in. */
function newAddressPage(parts: EmailPageParts, changes: AddressChanges): PersonPage {
  return {
    path: NEW_PATH,
    needs: "recent sign-in",
    show: (visit) => sendNewAddress(visit, ""),
    async submit(visit, form) {
      const { account } = visit.person;
      const email = trimmed(form.get("email") ?? "");
      if (account.email_verified && readName(email) === normalName(account.email))
        return sendNewAddress(visit, email, { reason: "same" });
      const result = await changes.start(account.sub, email, askedAt(visit, parts.devices));
      if (result.kind === "limited")
        return sendNewAddress(visit, email, { reason: "limited", retryAfter: result.retryAfter });
      if (result.kind === "invalid") return sendNewAddress(visit, email, { reason: "invalid" });
      return visit.done(PATH, "codeSent");
    },
  };
}

function sendNewAddress({ locals, send }: PersonVisit, value: string, problem?: EmailProblem): void {
  send(newAddressView, { ...locals, value, ...(problem !== undefined && { problem }) }, answerOf(problem));
}

function answerOf(problem: EmailProblem | undefined): SendOptions {
  if (problem?.reason === "limited") return { status: 429, retryAfter: problem.retryAfter };
  return { status: problem === undefined ? 200 : 400 };
}
