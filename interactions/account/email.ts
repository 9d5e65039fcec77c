/** The e-mail address: a new one counts once the person shows that they read mail there. */
import { z } from "zod";
import { normalName, readName, shownEmail, trimmed } from "../../accounts/names.ts";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import type { Reply } from "../reply.ts";
import { codeField as stepCodeField } from "../steps/mailed-code.ts";
import { wrongCode } from "../steps/mailed-code.ts";
import type { Problem } from "../steps/step.ts";
import type { Sent } from "../submission.ts";
import {
  askedAt,
  hasOwnWays,
  type PersonPage,
  type PersonServices,
  type PersonVisit,
} from "./person-pages.ts";
import { limited, type PersonLocals, type PersonView, personView } from "./person-view.ts";

const PATH = "/account/email";
const NEW_PATH = "/account/email/new";

/** `account-email`: the address, and forms for a change that waits to be confirmed. */
interface EmailLocals extends PersonLocals {
  readonly email: string;
  readonly isConfirmed: boolean;
  /** The new address, and whether this browser has followed the link in the mail. */
  readonly pending?: { readonly email: string; readonly hasLink: boolean };
}

/** `account-page`: a form with the new address. */
interface NewEmailLocals extends PersonLocals {
  /** What the field contains. */
  readonly value: string;
}

/** A form sends `action`: `code` or `link` to confirm, `again`, or `cancel`. */
export const addressView: PersonView<EmailLocals> = personView({
  name: "email",
  view: "account-email",
  takes: { code: ["code"], link: [], again: [], cancel: [] },
  members: {
    email: z.string(),
    confirmed: z.boolean(),
    pending: section({ email: z.string(), link: z.boolean() })
      .exactOptional()
      .describe(
        "The address that waits to be confirmed, and whether this browser has followed the link in its mail.",
      ),
  },
  content(t, { base, email, isConfirmed, pending }) {
    const common = {
      title: t("account.email"),
      members: {
        email,
        confirmed: isConfirmed,
        ...(pending && { pending: { email: pending.email, link: pending.hasLink } }),
      },
    };
    if (pending === undefined)
      return {
        ...common,
        texts: [t("email.use")],
        links: [{ name: "new-email", label: t("email.change"), href: base + NEW_PATH }],
      };
    const cancel = { name: "cancel", label: t("email.cancel"), look: "second" } as const;
    if (pending.hasLink)
      return {
        ...common,
        texts: [t("email.pending.link", { email: pending.email })],
        actions: [{ name: "link", label: t("email.confirm") }, cancel],
      };
    return {
      ...common,
      texts: [t("email.pending.text", { email: pending.email })],
      fields: [codeField(t)],
      actions: [
        { name: "code", label: t("email.confirm") },
        { name: "again", label: t("email.again"), look: "second" },
        cancel,
      ],
    };
  },
  locals: (_t, { base, email, isConfirmed, pending }) => ({
    email,
    isConfirmed,
    hasLink: pending?.hasLink ?? false,
    change: pending === undefined ? base + NEW_PATH : "",
  }),
});

export const NO_CODE: Problem = { code: "no-code", fields: ["code"] };

/** Nothing waits for this code any more. */
export const GONE: Problem = { code: "gone", fields: [] };

/** The code from a mail. */
export const codeField = (t: Translator) =>
  ({ ...stepCodeField, label: t("email.code"), hint: t("email.code.hint") }) as const;

export const newAddressView: PersonView<NewEmailLocals> = personView({
  name: "new-email",
  takes: { submit: ["email"] },
  problems: "email",
  content: (t, { value }) => ({
    title: t("email.new.title"),
    fields: [
      {
        name: "email",
        type: "email",
        autocomplete: "email",
        required: true,
        value,
        label: t("email.new"),
        hint: t("email.new.hint"),
      },
    ],
    actions: [{ name: "submit", label: t("email.new.submit") }],
  }),
});

const canChange = ({ people: { addressChanges } }: PersonServices): boolean => addressChanges !== undefined;

/** The address, and a change that waits. */
const addressPage: PersonPage = {
  path: PATH,
  navigation: "email",
  views: [addressView],
  isOffered: canChange,
  isFor: hasOwnWays,
  show: shown,
  async submit(visit, sent, services) {
    const { action } = sent;
    const {
      people: { addressChanges: changes },
      devices,
    } = services;
    const { sub } = visit.person.account;
    if (action === "cancel") {
      await changes?.cancel(sub);
      return visit.done(PATH, "addressCancelled");
    }
    if (action !== "again") return confirm(visit, sent, services);
    const pending = await changes?.pending(sub);
    const result = pending && (await changes?.start(sub, pending.email, askedAt(visit, devices)));
    if (result === undefined) return shown(visit, services, GONE);
    if (result.kind === "limited") return shown(visit, services, limited(result.retryAfter));
    return visit.done(PATH, "codeSent");
  },
};

async function shown(visit: PersonVisit, services: PersonServices, problem?: Problem): Promise<Reply> {
  const { email, sub, email_verified: isConfirmed } = visit.person.account;
  const [pending, link] = await Promise.all([
    services.people.addressChanges?.pending(sub),
    linkOf(visit, services),
  ]);
  const data = {
    ...visit.locals,
    email: shownEmail(email),
    isConfirmed,
    ...(pending && { pending: { email: shownEmail(pending.email), hasLink: link !== undefined } }),
    ...(problem && { problems: [problem] }),
  };
  return visit.show(addressView, data);
}

/** The link that this browser has followed, if it confirms a change of this account. */
async function linkOf(
  { ctx, person }: PersonVisit,
  { links, confirmations }: PersonServices,
): Promise<string | undefined> {
  const link = links.read(ctx);
  const found = link === undefined ? undefined : await confirmations.findByLink(link);
  const isOurs = found?.purpose === "address-change" && found.subject === person.account.sub;
  return isOurs ? link : undefined;
}

async function confirm(
  visit: PersonVisit,
  { action, values }: Sent,
  services: PersonServices,
): Promise<Reply> {
  const {
    people: { addressChanges },
    devices,
    links,
  } = services;
  const { sub } = visit.person.account;
  const link = action === "link" ? await linkOf(visit, services) : undefined;
  const proof = link === undefined ? { code: values.get("code") ?? "" } : { link };
  if ("code" in proof && proof.code.trim() === "") return shown(visit, services, NO_CODE);
  const result = await addressChanges?.confirm(sub, proof, askedAt(visit, devices));
  if (result?.kind === "wrong") return shown(visit, services, wrongCode(result.triesLeft));
  if (result?.kind === "limited") return visit.limited(result.retryAfter);
  links.clear(visit.ctx);
  return result?.kind === "changed" ? visit.done(PATH, "address") : shown(visit, services, GONE);
}

/** The form for a new address, after a recent sign-in. */
const newAddressPage: PersonPage = {
  path: NEW_PATH,
  needs: "recent sign-in",
  views: [newAddressView],
  isOffered: canChange,
  isFor: hasOwnWays,
  show: (visit) => showNewAddress(visit, ""),
  async submit(visit, { values }, { people: { addressChanges }, devices }) {
    const { account } = visit.person;
    const email = trimmed(values.get("email") ?? "");
    if (account.email_verified && readName(email) === normalName(account.email))
      return showNewAddress(visit, email, { code: "same", fields: ["email"] });
    const result = await addressChanges?.start(account.sub, email, askedAt(visit, devices));
    if (result?.kind === "limited") return showNewAddress(visit, email, limited(result.retryAfter));
    if (result?.kind === "invalid")
      return showNewAddress(visit, email, { code: "invalid", fields: ["email"] });
    return visit.done(PATH, "codeSent");
  },
};

export const emailPages: readonly PersonPage[] = [addressPage, newAddressPage];

function showNewAddress({ locals, show }: PersonVisit, value: string, problem?: Problem): Reply {
  return show(newAddressView, { ...locals, value, ...(problem && { problems: [problem] }) });
}
