/** A step in words, for the views, the JSON interface and `service.interactions`. */
import { labelIn } from "../../config/labels.ts";
import { browserName } from "../look/browsers.ts";
import { minuteText, waitText } from "../look/moments.ts";
import { providerName } from "../look/providers.ts";
import { FULL_NAME, shownEmail } from "../../accounts/names.ts";
import { wayOf } from "../../accounts/ways/ways.ts";
import type { Translator } from "../../core/texts.ts";
import type { DescribedField, DescribedMethod, DescribedProblem, StepDescription } from "./described-step.ts";
import { askedName } from "./email-code.ts";
import { offeredFactors } from "./enrol.ts";
import { firstPage, providersAt } from "./first-page.ts";
import { CHOOSES } from "./provider.ts";
import { cameBack, knownText, linkingOwner, linkTexts } from "./provider-texts.ts";
import { SIGN_IN_WAYS } from "./sign-in-ways.ts";
import type { ConsentApi, RunningSignIn, StepName } from "./running-sign-in.ts";
import { unregisteredLead, unregisteredTexts, unregisteredTitle } from "./unregistered.ts";
import {
  type Field,
  MORE_TIME,
  type Offers,
  type PresentStep,
  type Problem,
  type SignInMethod,
} from "./step.ts";

/** The steps that wait for a code. */
const MAILED: ReadonlySet<StepName> = new Set(["confirm-email", "enrol-confirm", "provider-confirm"]);

/** Describes a step in the language of the texts. */
export function describeStep(present: PresentStep, t: Translator): StepDescription {
  const {
    name,
    signIn,
    path,
    fields,
    actions,
    passkey,
    alternatives,
    offers,
    problems,
    recoveryCodes,
    expiresIn,
  } = present;
  const providers = describeProviders(present, t);
  const methods = present.methods?.map((method) => describeMethod(t, method));
  const { locale } = t;
  const { client, account, csrf, shares, state } = signIn;
  const { terms } = offers.registration ?? {};
  const described = problems.map((problem) => ({
    code: problem.code,
    text: textOf(t, problem, fields, name),
    fields: [...problem.fields],
  }));
  const back = cameBack(present, locale);
  const owner = linkingOwner(present) ?? (name === "continue" ? account : undefined);
  const address = owner ?? account;
  const unregistered = name === "consent" ? client.unregistered : undefined;
  const hasTerms = fields.some((field) => field.name === "terms");
  return {
    step: name,
    client,
    title: unregistered
      ? unregisteredTitle(t, unregistered, signIn)
      : isNewcomer(present)
        ? t("enrol.account.title")
        : isCodeAsked(present)
          ? t("email-code.sent")
          : t(titleOf(present), wordsOf(t, present)),
    text: paragraphsOf(t, present).join("\n"),
    ...(address !== undefined && { account: shownEmail(address.email) }),
    ...(owner !== undefined && owner.name !== "" && { account_name: owner.name }),
    ...(back && { came_back: back }),
    ...(MAILED.has(name) && state.email !== undefined && { email: shownEmail(state.email) }),
    ...(name === "new-password" && state.username !== undefined && { username: state.username }),
    ...(isCodeAsked(present) && { username: askedName(signIn) }),
    ...(name === "provider-known" &&
      state.upstream?.email !== undefined && { username: shownEmail(state.upstream.email) }),
    ...(hasTerms &&
      terms !== undefined && {
        terms: { ...terms, url: terms.url.replaceAll("{locale}", locale), label: t("terms.read") },
      }),
    ...(state.notice !== undefined && {
      notice: {
        code: state.notice,
        text: t(`notice.${state.notice}`, { provider: nameOfProvider(t, present) }),
      },
    }),
    ...(name === "provider-problem" &&
      state.provider !== undefined && {
        provider: {
          key: state.provider.key,
          name: nameOfProvider(t, present),
          ...(state.provider.problem !== undefined && { problem: state.provider.problem }),
        },
      }),
    ...(passkey && { passkey: { publicKey: passkey } }),
    ...(name === "enrol" && newFactors(signIn)),
    ...(recoveryCodes !== undefined && { recovery_codes: recoveryCodes }),
    ...(methods && { methods }),
    ...(providers.length > 0 && { providers }),
    fields: fields.map((field) => describeField(t, present, field, { described, methods })),
    problems: described,
    ...(name === "consent" && {
      shares: shares.map((share) => ({ name: share, label: shareLabel(t, share) })),
      ...(signIn.apis.length > 0 && { apis: signIn.apis }),
    }),
    actions: [
      ...actions.map((action) => ({
        name: action,
        label: actionLabel(t, present, action),
        method: "POST" as const,
        href: action === "submit" ? path : `${path}?action=${action}`,
      })),
      ...alternatives.map((step) => ({
        name: step.name,
        label: alternativeLabel(t, present, step.name),
        method: "GET" as const,
        href: step.path,
      })),
    ],
    ...(signIn.again !== undefined && { again: signIn.again }),
    csrf,
    locale,
    expires_in: expiresIn,
  };
}

/** The providers of a step, in the order of the configuration. The only one of a page is not the last one of others. */
function describeProviders(
  { name: step, signIn }: PresentStep,
  t: Translator,
): NonNullable<StepDescription["providers"]> {
  const isOnlyOne = step === "provider" || (step === "login" && firstPage(signIn).domain !== undefined);
  return providersAt(step, signIn).map((provider) => {
    const { key, preset } = provider;
    const name = providerName(provider, t.locale);
    const label = buttonTo(t, step, name, isOnlyOne);
    const isLast = step === "login" && !isOnlyOne && key === signIn.lastProvider;
    return isLast ? { key, name, label, preset, last: true } : { key, name, label, preset };
  });
}

/** The words on the button of a provider. */
function buttonTo(t: Translator, step: StepName, name: string, isOnlyOne: boolean): string {
  if (isOnlyOne) return t("provider.submit", { provider: name });
  return step === "login" ? t("provider.signIn", { name }) : t("provider.continue", { name });
}

/** The label of the button that sends the fields; empty without one. */
export function submitLabel(t: Translator, step: PresentStep): string {
  if (step.name === "email-code" && !isCodeAsked(step)) return t("email-code.send");
  if (step.name === "provider-known" && step.signIn.state.known?.only) return t("provider-known.send");
  const key = actionTexts(step, "submit").find((each) => t.has(each));
  return key === undefined ? "" : t(key, wordsOf(t, step));
}

/** The label of the button that registers without a password. */
export const withoutPasswordLabel = (t: Translator, { emailCode }: Offers): string =>
  emailCode ? t("register.without-password.mail") : t("register.without-password");

function actionLabel(t: Translator, step: PresentStep, action: string): string {
  if (action === MORE_TIME) return t("moreTime");
  if (action === "without-password") return withoutPasswordLabel(t, step.offers);
  const own = action === "submit" ? submitLabel(t, step) : "";
  const keys = [...actionTexts(step, action), `offer-passkey.${action}`];
  return own || (buttonOf(t, action) ?? firstText(t, keys, wordsOf(t, step)));
}

/** The provider that the step is about. It may be offered no longer. */
function nameOfProvider(
  t: Translator,
  { name: step, signIn: { providers = [], domains = [], hinted, state } }: PresentStep,
): string {
  const key = step === "provider" ? hinted : (state.provider?.key ?? state.proven?.provider);
  const known = [...providers, ...domains].find((each) => each.key === key);
  return known === undefined ? (key ?? "") : providerName(known, t.locale);
}

/** The keys of the texts for an action, that of the page first. */
function actionTexts({ name, signIn }: PresentStep, action: string): readonly string[] {
  const { asks } = firstPage(signIn);
  const isChoice = action === "provider" && CHOOSES.has(signIn.state.provider?.problem);
  return [
    ...(name === "consent" && signIn.client.unregistered ? [`unregistered.${action}`] : []),
    ...(name === "login" && asks !== "everything" ? [`login.${asks}.${action}`] : []),
    ...(isChoice ? [`${name}.${action}.choose`] : []),
    `${name}.${action}`,
  ];
}

/** What the title and the labels of a step may name. */
const wordsOf = (t: Translator, present: PresentStep) => ({
  client: present.signIn.client.name,
  account: addressOf(present.signIn),
  provider: nameOfProvider(t, present),
  name: backFrom(t, present),
});

/** The label of a way to sign in that is a button. */
export function buttonOf(t: Translator, action: string): string | undefined {
  return SIGN_IN_WAYS.find((way) => way.action === action)?.button?.(t);
}

/** Whether the person enters a code by mail now. */
export const isCodeAsked = ({ name, actions }: PresentStep): boolean =>
  name === "email-code" && actions.includes("resend");

const wasOffered = ({ signIn }: PresentStep): boolean => signIn.state.proven?.offered === true;

/** Whether the person registers without a password, and creates a passkey now. */
const isNewcomer = ({ name, signIn }: PresentStep): boolean =>
  name === "enrol" && signIn.state.proven === undefined;

function titleOf(step: PresentStep): string {
  const { problem } = step.signIn.state.provider ?? {};
  if (step.name === "provider-problem") return `provider-problem.${problem ?? "unusable"}.title`;
  const isOptional = wasOffered(step) && (step.name === "enrol-confirm" || step.name === "enrol");
  if (isOptional) return "offer-passkey.submit";
  const isRefused = step.signIn.state.proven?.linking?.refused !== undefined;
  return step.name === "provider-link" && isRefused ? "provider-link.refused" : `${step.name}.title`;
}

/** The factors that `enrol` offers, without those that this person can't add or that are not enough for the client. */
function newFactors(signIn: RunningSignIn): Pick<StepDescription, "app" | "passkey"> {
  const { app, passkey } = offeredFactors(signIn);
  return { ...(app !== null && { app }), ...(passkey !== null && { passkey }) };
}

function describeMethod(t: Translator, method: SignInMethod): DescribedMethod {
  const { id, kind, added_at } = method;
  const time = (label: string, at: number): string => `${label} ${minuteText(t.locale, at * 1_000)}`;
  if (!("factor" in method)) {
    const { browser, system, expires_at } = method;
    const texts = [
      t("review-methods.browser"),
      time(t("sessions.remembered.since"), added_at),
      time(t("sessions.remembered.until"), expires_at),
    ];
    const label = browserName(t, { browser, system });
    return { id, kind, label, text: texts.join(" · "), added_at, expires_at };
  }
  const { label, email, last_used_at } = method;
  const name = label === undefined ? method.name : labelIn(label, t.locale);
  const ofKind = t(wayOf(method).texts.name);
  const texts = [
    ...(name === null ? [] : [email === undefined ? ofKind : shownEmail(email)]),
    time(t("methods.added"), added_at),
    last_used_at === null ? t("methods.neverUsed") : time(t("methods.lastUse"), last_used_at),
  ];
  return { id, kind, label: name ?? ofKind, text: texts.join(" · "), added_at, last_used_at };
}

/** The address of the signed-in person, as people read it. */
const addressOf = ({ account }: RunningSignIn): string =>
  account === undefined ? "" : shownEmail(account.email);

/** The address that a message was sent to, as people read it. */
const sentTo = ({ state: { email } }: RunningSignIn): string =>
  email === undefined ? "" : shownEmail(email);

/** Where the person continues to. Nobody knows the client of the account pages by name. */
const purposeOf = (t: Translator, { signIn: { client, operatorsOnly } }: PresentStep): string => {
  if (operatorsOnly) return t("lead.console");
  if (client.unregistered) return unregisteredLead(t, client.unregistered);
  return client.own ? t("lead.account") : t("lead", { client: client.name });
};

/** The name of the provider that the person came back from. */
const backFrom = (t: Translator, step: PresentStep): string => cameBack(step, t.locale)?.name ?? "";

/** The text of a step below its title. The first paragraph belongs to the title. */
export const paragraphsOf = (t: Translator, step: PresentStep): readonly string[] =>
  PARAGRAPHS[step.name](t, step);

/** The text of each step below its title, one text per paragraph. */
const PARAGRAPHS: Readonly<Record<StepName, (t: Translator, step: PresentStep) => readonly string[]>> = {
  login: (t, step) => [purposeOf(t, step), ...domainWords(t, step.signIn)],
  provider: (t, step) => [purposeOf(t, step)],
  register: (t, step) => [purposeOf(t, step)],
  reauthenticate(t, { signIn, actions }) {
    const account = addressOf(signIn);
    const needs = SIGN_IN_WAYS.flatMap((way) => (actions.includes(way.action) ? [t(way.needs)] : []));
    if (needs.length === 0) return [t("reauthenticate.account.none", { account })];
    const any = new Intl.ListFormat(t.locale, { type: "disjunction" }).format(needs);
    return [t("reauthenticate.account", { account, needs: any })];
  },
  "confirm-email"(t, { signIn, fields, actions, problems }) {
    const email = sentTo(signIn);
    // A resend that a limit stopped says that nothing was sent.
    if (problems.some(({ code }) => code === "limited")) return [t("confirm-email.help")];
    if (actions.includes("resend")) return [t("confirm-email.text", { email }), t("confirm-email.help")];
    return fields.length === 0 ? [t("confirm-email.link", { email })] : [];
  },
  invitation: (t) => [t("invitation.text")],
  "email-code"(t, step) {
    if (!isCodeAsked(step)) return [purposeOf(t, step)];
    // Above, a notice says that another one is on its way, or a problem says that none is.
    const isSaid =
      step.signIn.state.notice === "code-sent" || step.problems.some(({ code }) => code === "limited");
    return isSaid ? [] : [t("email-code.text")];
  },
  "provider-register": (t, step) => [purposeOf(t, step)],
  "provider-known": (t, step) => [knownText(t, step, backFrom(t, step))],
  "provider-confirm": (t, step) => [
    t("provider-confirm.text", { name: backFrom(t, step), email: sentTo(step.signIn) }),
    t("enrol-confirm.help"),
  ],
  "provider-link": (t, step) => linkTexts(t, step, backFrom(t, step)),
  "forgot-password": (t) => [t("forgot-password.text")],
  "new-password": (t, { fields }) => [
    ...(fields.some(({ name }) => name === "code") ? [t("new-password.text")] : []),
    t("new-password.effect"),
  ],
  "second-factor"(t, { fields, actions }) {
    if (fields.length > 0) return [t("second-factor.app")];
    return [actions.includes("passkey") ? t("second-factor.passkey.text") : t("second-factor.recovery.text")];
  },
  "provider-problem"(t, { signIn }) {
    const { problem = "unusable", organizations = [] } = signIn.state.provider ?? {};
    if (organizations.length === 0) return [t(`provider-problem.${problem}`)];
    const list = new Intl.ListFormat(t.locale, { type: "disjunction" }).format(organizations);
    return [t(`provider-problem.${problem}.named`, { organizations: list })];
  },
  "provider-fresh"(t, step) {
    const provider = nameOfProvider(t, step);
    return [
      step.signIn.state.mailed
        ? t("provider-fresh.mailed", { provider })
        : t("provider-fresh.text", { provider }),
    ];
  },
  "offer-passkey": (t) => [t("offer-passkey.text"), t("offer-passkey.effect")],
  "enrol-confirm"(t, step) {
    const values = { client: step.signIn.client.name, email: sentTo(step.signIn) };
    const text = wasOffered(step) ? t("enrol-confirm.offered", values) : t("enrol-confirm.text", values);
    return [text, t("enrol-confirm.help")];
  },
  enrol: (t, step) => {
    if (isNewcomer(step))
      return [step.actions.includes("later") ? t("enrol.account.optional") : t("enrol.account.text")];
    const { app, passkey } = offeredFactors(step.signIn);
    if (app === null) return [t("enrol.passkey.only")];
    if (passkey === null) return [t("enrol.app.only")];
    return [t("enrol.text")];
  },
  "recovery-codes": (t, { recoveryCodes }) => [
    recoveryCodes === undefined ? t("recovery-codes.lost") : t("recovery-codes.text"),
  ],
  "review-methods"(t, { methods = [] }) {
    const factors = methods.filter(({ kind }) => kind !== "browser");
    if (factors.length === 0) return [t("review-methods.none")];
    return [t("review-methods.text"), ...(factors.length === 1 ? [t("methods.remove.last")] : [])];
  },
  terms: (t) => [t("terms.text")],
  continue: (t, { signIn: { client, forDevice } }) => [
    t("continue.lead", { client: client.name }),
    ...(forDevice ? [t("continue.text")] : []),
  ],
  consent(t, { signIn }) {
    const { name: client, unregistered } = signIn.client;
    if (unregistered) {
      const { claims, asides, cautions } = unregisteredTexts(t, unregistered, signIn);
      return [...claims, ...asides, ...cautions];
    }
    return [
      t("consent.account", { account: addressOf(signIn) }),
      t("consent.after", { client }),
      t("consent.kept", { client }),
    ];
  },
};

/** Where people with such an address can sign in, or must. */
function domainWords(t: Translator, signIn: RunningSignIn): readonly string[] {
  const { asks, domain } = firstPage(signIn);
  if (domain === undefined) return [];
  const values = { domain: domain.name, provider: providerName(domain.provider, t.locale) };
  return [asks === "proof" ? t("login.domain.offered", values) : t("login.domain.only", values)];
}

/** The label of a link to another step. Nobody has forgotten a password that the account does not have. */
export function alternativeLabel(t: Translator, step: PresentStep, to: StepName): string {
  const { name, actions } = step;
  const isOwn = name === "reauthenticate" || name === "provider-known";
  const isNew = isOwn && to === "forgot-password" && !actions.includes("submit");
  return isNew
    ? t("alternative.reauthenticate.new-password")
    : firstText(t, [`alternative.${name}.${to}`, `alternative.${to}`], { name: backFrom(t, step) });
}

function describeField(
  t: Translator,
  step: PresentStep,
  { value = "", options, optionTexts, readOnly, ...field }: Field,
  {
    described,
    methods,
  }: {
    readonly described: readonly DescribedProblem[];
    readonly methods: readonly DescribedMethod[] | undefined;
  },
): DescribedField {
  return Object.assign(
    field,
    {
      label: labelOf(t, step.name, field.name, { days: step.offers.rememberDays ?? 0 }),
      value,
      problems: described.filter(({ fields }) => fields.includes(field.name)),
    },
    hintOf(t, step, field),
    readOnly && { read_only: true as const },
    options && {
      options: options.map((each) => ({ value: each, label: t(`${optionTexts ?? field.name}.${each}`) })),
    },
    methods && {
      options: methods.map(({ id, label, text }) => ({ value: id, label: `${label} (${text})` })),
    },
  );
}

/** The label of a field: that of the step, if it has one of its own. Attributes may have the name of any other text. */
function labelOf(t: Translator, step: StepName, field: string, values?: Problem["values"]): string {
  return firstText(t, [`attribute.${field}`, `${step}.${field}`, `label.${field}`, `field.${field}`], values);
}

function hintOf(
  t: Translator,
  step: PresentStep,
  { name, type, autocomplete }: Pick<Field, "name" | "type" | "autocomplete">,
): { readonly hint?: string } {
  const { passwordLength } = step.offers;
  if (autocomplete === "new-password") return { hint: t("hint.new-password", { min: passwordLength.min }) };
  const { upstream, known } = step.signIn.state;
  const isVouched = upstream?.vouched === true && known === undefined;
  const key = [
    ...(isVouched ? [`hint.${step.name}.${name}.vouched`] : []),
    `hint.${step.name}.${name}`,
    `hint.${name}`,
    `hint.input.${type}`,
  ].find((each) => t.has(each));
  return key === undefined ? {} : { hint: t(key, { name: backFrom(t, step) }) };
}

/** Fields of the account as people know them: both names as one, and the identifier last. */
export function fieldLabels(t: Translator, fields: readonly string[]): string[] {
  const hasFullName = FULL_NAME.every((name) => fields.includes(name));
  const [first, ...others] = hasFullName ? FULL_NAME : [];
  const shown = fields.filter((field) => field !== "sub" && !others.some((other) => other === field));
  const all = [...shown, ...fields.filter((field) => field === "sub")];
  return all.map((field) => shareLabel(t, field === first ? "fullName" : field));
}

/** What a client may do in each API, as the views list it. */
export function apiLists(
  t: Translator,
  client: string,
  apis: readonly ConsentApi[],
): { readonly heading: string; readonly scopes: readonly string[] }[] {
  return apis.map(({ name: api, scopes }) => ({
    heading: t("consent.api", { client, api }),
    scopes: scopes.map(({ label }) => label),
  }));
}

/** What an operator sets is named with the service: the person can't change it. */
function shareLabel(t: Translator, field: string): string {
  if (t.has(`share.${field}`)) return t(`share.${field}`, { service: t("service.name") });
  return t.has(`field.${field}`) ? t(`field.${field}`) : field;
}

/** The text of a problem: that of its field, if there is one. */
function textOf(
  t: Translator,
  { code, fields: [field = ""], values }: Problem,
  fields: readonly Field[],
  step: StepName,
): string {
  const label = fields.some(({ name }) => name === field) ? labelOf(t, step, field) : "";
  const whose = typeof values?.["whose"] === "string" ? `problem.${code}.${values["whose"]}` : "";
  const keys = [whose, `problem.${step}.${field}.${code}`, `problem.${field}.${code}`, `problem.${code}`];
  return problemText(t, keys, { label, ...values });
}

/** The first of these texts that there is. `retryAfter` is the placeholder `wait`. */
export function problemText(
  t: Translator,
  keys: readonly string[],
  values: NonNullable<Problem["values"]>,
): string {
  const { retryAfter } = values;
  const wait = typeof retryAfter === "number" && { wait: waitText(t.locale, retryAfter) };
  return firstText(t, keys, { ...values, ...wait });
}

function firstText(t: Translator, keys: readonly string[], values?: Problem["values"]): string {
  return t(keys.find((key) => t.has(key)) ?? keys.at(-1) ?? "", values);
}
