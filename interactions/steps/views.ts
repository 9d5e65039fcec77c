/** The steps as pages. */
import { inLines } from "../../accounts/profile-fields.ts";
import { initialsOf } from "../../core/pictures.ts";
import type { Translator } from "../../core/texts.ts";
import { groupedKey } from "../look/qr-code.ts";
import { providerButtons } from "../look/providers.ts";
import type { Locals } from "../look/views.ts";
import type { DescribedPage } from "../page.ts";
import { formLocals } from "../forms.ts";
import {
  apiLists,
  buttonOf,
  describeStep,
  fieldLabels,
  isCodeAsked,
  paragraphsOf,
  alternativeLabel,
  submitLabel,
  withoutPasswordLabel,
} from "./description.ts";
import { type FirstPage, firstPage } from "./first-page.ts";
import { addressesDiffer } from "./provider-texts.ts";
import { unregisteredLocals } from "./unregistered.ts";
import type { StepName } from "./running-sign-in.ts";
import { isAppCode, LATE_SECONDS, type PresentStep } from "./step.ts";
import type { StepDescription } from "./described-step.ts";

/** The steps whose page may have no form of its own: a passkey is all that they take. */
const WITH_PASSKEY: ReadonlySet<StepName> = new Set(["reauthenticate", "second-factor", "provider-known"]);

/** A step as its page gets it. */
export interface StepWithPicture extends PresentStep {
  /** The address of the image of a QR code, at `enrol`. */
  readonly qrCode?: string;
}

/** The variables that only the view of consent gets. */
function consentLocals(t: Translator, { client, shares = [], apis = [] }: StepDescription): Locals {
  const { name, policy_uri: policy = "", tos_uri: terms = "" } = client;
  return {
    fields: fieldLabels(
      t,
      shares.map((share) => share.name),
    ),
    apis: apiLists(t, name, apis),
    clientLinks: [
      { href: policy, label: t("consent.policy", { client: name }) },
      { href: terms, label: t("consent.tos", { client: name }) },
    ].filter(({ href }) => href !== ""),
  };
}

/** The variables that only the views of `enrol` and `recovery-codes` get. */
function enrolLocals(described: StepDescription, qrCode: string): Locals {
  const { app, recovery_codes = [] } = described;
  return {
    app: app === undefined ? "" : { key: groupedKey(app.secret), uri: app.uri, qrCode },
    codes: recovery_codes,
  };
}

/** The consent to a client that nobody registered has a view of its own, so that a team's `consent.ejs` can't leave out what it says. */
const isUnregistered = ({ name, signIn }: PresentStep): boolean =>
  name === "consent" && signIn.client.unregistered !== undefined;

/** A step of a running sign-in: a form with the hidden field `csrf`. The view has the name of the step. */
export const stepPage = (step: PresentStep): DescribedPage<StepWithPicture> => ({
  view: isUnregistered(step) ? "consent-unregistered" : step.name,
  locals: stepLocals,
  describe: (t, present) => describeStep(present, t),
});

function stepLocals(t: Translator, step: StepWithPicture): Locals {
  const described = describeStep(step, t);
  const { client, csrf, account = "", email = "", terms, notice, actions, expires_in } = described;
  const isAsked = isCodeAsked(step);
  // The name stands between the title and the text, and so does somebody who came back from a provider.
  const isApart = isAsked || (described.came_back !== undefined && step.name !== "provider-register");
  const [lead = "", ...texts] = isApart ? ["", ...paragraphsOf(t, step)] : paragraphsOf(t, step);
  const alternatives = step.alternatives.map(({ name, path: href }) => ({
    name,
    href,
    label: alternativeLabel(t, step, name),
    prompt: promptOf(t, step.name, name),
  }));
  // Another account at the provider is chosen on the first page.
  const change =
    step.name === "provider-register" ? alternatives.find(({ name }) => name === "login")?.href : "";
  // The link for a forgotten password is next to the password.
  const hasPassword = step.fields.some(({ autocomplete }) => autocomplete.startsWith("current-password"));
  // The form has one button.
  const instead = step.name === "login" ? alternatives.find(({ name }) => name === "email-code") : undefined;
  const aside = hasPassword ? alternatives.find(({ name }) => name === "forgot-password") : undefined;
  const { min: minLength } = step.offers.passwordLength;
  const fields = described.fields.map((field) => ({
    ...field,
    ...(field.autocomplete.startsWith("current-password") && { aside }),
    ...(field.autocomplete === "new-password" && { minLength }),
    ...(isAppCode(step.name, field) && { isNumber: true }),
  }));
  const labels = new Map(fields.map(({ name, label }) => [name, label]));
  const problems = described.problems.map((problem) => ({
    ...problem,
    label: labels.get(problem.fields.at(-1) ?? "") ?? problem.text,
  }));
  // After the name, it is a button that asks for the code at once.
  const isNamed = step.name === "login" && step.signIn.state.named === true;
  const labelOf = (action: string): string => actions.find(({ name }) => name === action)?.label ?? "";
  const domain = step.name === "login" && firstPage(step.signIn).domain;
  // The one of the domain has a place of its own.
  const listed = domain || step.name === "provider" ? [] : (described.providers ?? []);
  const providers = providerButtons(listed);
  return {
    ...formLocals(t, fields, problems),
    // No field has the focus while something else comes first.
    ...((providers.last || domain) && problems.length === 0 && { focused: undefined }),
    heading: described.title,
    lead,
    texts,
    client: client.own || client.unregistered ? "" : client.name,
    clientLogo: client.logo ?? "",
    action: step.path,
    submit: submitLabel(t, step),
    withoutPassword: withoutPasswordLabel(t, step.offers),
    needsPasskey: !step.offers.emailCode,
    change: step.name === "login" ? labelOf("change") : "",
    csrf,
    account,
    email,
    asked: isAsked ? (described.username ?? "") : "",
    canAddPasskey: step.offers.passkeyOffer && (step.name === "login" || isAsked),
    username: isAsked
      ? ""
      : (described.username ?? fields.find(({ name }) => name === "username")?.value ?? ""),
    ...(step.name === "continue" && { ...personOf(t, described), marked: account }),
    ...(described.came_back && { cameBack: { ...described.came_back, change } }),
    ...(step.name === "provider-link" && linkLocals(t, step, described, texts)),
    terms: terms?.url ?? "",
    notice: notice?.text ?? "",
    passkey: described.passkey === undefined ? "" : JSON.stringify(described.passkey.publicKey),
    passkeyLabel: t.has(`${step.name}.passkey`) ? t(`${step.name}.passkey`) : "",
    fields,
    lines: inLines(fields),
    providers,
    // Whether there are buttons without a passkey: then "or" is not part of its form, which may be hidden.
    isList: providers.shown.length > 0 || (isNamed && instead !== undefined),
    codeButton: isNamed && instead && { href: instead.href, label: t("email-code.send") },
    domain: domain && domainLocals(t, domain, described),
    actions: actions.flatMap((action) => (action.method === "POST" ? [action.name] : [])),
    buttons: step.actions.flatMap((name) => {
      const label = buttonOf(t, name);
      return label === undefined ? [] : [{ name, label }];
    }),
    alternatives: alternatives.filter((each) => each !== aside && each !== instead),
    instead: isNamed ? false : (instead ?? false),
    timeLeft: expires_in > 0 && {
      text: t("timeLeft"),
      after: warnAfter(expires_in),
      more: step.extendable ? t("moreTime") : "",
      // The button belongs to the form of the step, so that nothing is lost that was typed there.
      form: step.name !== "enrol" && (step.actions.includes("submit") || !WITH_PASSKEY.has(step.name)),
    },
    again: described.again ?? "",
    over: expires_in > 0 && overLocals(t, step, described),
    ...(step.name === "provider-problem" && {
      retry: actions.find(({ name }) => name === "provider")?.label ?? "",
    }),
    ...(step.name === "consent" &&
      (client.unregistered
        ? unregisteredLocals(t, client.unregistered, { signIn: step.signIn, apis: described.apis })
        : consentLocals(t, described))),
    ...(described.methods && { methods: described.methods }),
    ...((step.name === "enrol" || step.name === "recovery-codes") &&
      enrolLocals(described, step.qrCode ?? "")),
  };
}

/** The way to the provider of the domain of the name. */
function domainLocals(
  t: Translator,
  { provider: { key, issuer } }: NonNullable<FirstPage["domain"]>,
  { providers: [described] = [] }: StepDescription,
): Locals {
  const trip = t("login.domain.trip", { host: new URL(issuer).hostname });
  return { key, label: described?.label ?? "", trip };
}

/** The person of the session, as a card shows them. */
function personOf(t: Translator, { account = "", account_name: name = "" }: StepDescription): Locals {
  return { accountName: name, initials: initialsOf({ name, email: account }, t.locale) };
}

/** Both parties, and what to consider before linking them. */
function linkLocals(
  t: Translator,
  { signIn }: PresentStep,
  described: StepDescription,
  texts: readonly string[],
): Locals {
  const isRefused = signIn.state.proven?.linking?.refused !== undefined;
  const hasCaution = !isRefused && addressesDiffer(signIn);
  return {
    ...personOf(t, described),
    caution: hasCaution ? texts[0] : "",
    texts: hasCaution ? texts.slice(1) : texts,
  };
}

/** What takes the place of the buttons when the sign-in has expired. */
function overLocals(
  t: Translator,
  { signIn, expiresIn }: PresentStep,
  { again, client: { own, name, client_uri: uri } }: StepDescription,
): Locals {
  const isElsewhere = uri !== undefined && own !== true;
  const next = isElsewhere ? t("ended.client", { client: name }) : t("account.link");
  return {
    after: 60 * Math.ceil(expiresIn / 60),
    text: t("timeOver"),
    action: signIn.path,
    label: again === undefined ? next : t("again.submit"),
    // The account is beside the sign-ins.
    href: isElsewhere ? uri : signIn.path.replace(/\/(?:interaction\/[^/]*|confirm)$/, "/account"),
  };
}

/** In whole minutes: two people who do the same must get the same page. */
function warnAfter(expiresIn: number): number {
  return 60 * Math.max(0, Math.ceil((expiresIn - LATE_SECONDS) / 60));
}

/** The text before the link to another step. */
function promptOf(t: Translator, from: StepName, to: StepName): string {
  const key = `alternative.prompt.${from}.${to}`;
  return t.has(key) ? t(key) : "";
}
