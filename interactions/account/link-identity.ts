/**
 * Linking an account at another provider, after a recent sign-in: choosing the provider, a code from the mailbox where there is no
 * second factor, and the page that shows both parties. The rules are those of the sign-in (`accounts/identities/linking.ts`).
 * Nothing is linked without the last form.
 */
import { z } from "zod";
import {
  isLinkingRefusal,
  type LinkingNeed,
  type StartedLinking,
} from "../../accounts/identities/linking.ts";
import { readName, shownEmail } from "../../accounts/names.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import { section } from "../../config/documented-schema.ts";
import { labelIn } from "../../config/labels.ts";
import { initialsOf } from "../../core/pictures.ts";
import type { Translator } from "../../core/texts.ts";
import { UpstreamFault } from "../../upstream/upstream.ts";
import type { ShownProvider } from "../look/providers.ts";
import type { Reply } from "../reply.ts";
import { wrongCode } from "../steps/mailed-code.ts";
import type { Problem } from "../steps/step.ts";
import type { Sent } from "../submission.ts";
import { codeField, GONE as NO_TRIES, NO_CODE } from "./email.ts";
import { LINK_PATH, linkable } from "./linked-accounts.ts";
import { askedAt, type PersonPage, type PersonServices, type PersonVisit } from "./person-pages.ts";
import { choiceOf, limited, type PersonLocals, type PersonView, personView } from "./person-view.ts";
import { backLocals, METHODS_PATH } from "./sign-in-methods.ts";

/** `link`: the providers to choose from. */
interface ChooseLocals extends PersonLocals {
  readonly linkable: readonly ShownProvider[];
}

export const chooseProviderView: PersonView<ChooseLocals> = personView({
  name: "link-account",
  view: "account-link",
  takes: { link: ["provider"] },
  content: (t, { linkable: providers }) => ({
    title: t("linking.title"),
    texts: [providers.length === 0 ? t("linking.nothing") : t("linking.text")],
    fields: choiceOf(
      "provider",
      t("linking.title"),
      providers.map(({ key, name }) => ({ value: key, label: labelIn(name, t.locale) })),
    ),
    actions: providers.length === 0 ? [] : [{ name: "link", label: t("linking.title") }],
  }),
  locals: (t, { base, linkable: providers }) => ({
    ...backLocals(t, base),
    buttons: providers.map(({ key, preset, name }) => ({
      key,
      look: preset,
      label: t("linked.add", { name: labelIn(name, t.locale) }),
    })),
  }),
});

/** The last two pages carry the identity from form to form, encrypted, with whether its code was right. */
interface StartedLocals extends PersonLocals {
  readonly provider: ShownProvider;
  readonly setUp: string;
}

const setUpField = (value: string) =>
  ({ name: "set-up", type: "hidden", autocomplete: "off", required: true, label: "", value }) as const;

/** `confirm-link`: a form that sends the code, and one for the code. */
interface ConfirmLocals extends StartedLocals {
  readonly isSent: boolean;
  /** The address has changed in the last seven days: the code goes to the one before it. */
  readonly isGuarded: boolean;
}

export const confirmLinkView: PersonView<ConfirmLocals> = personView({
  name: "confirm-link",
  view: "account-confirm-factor",
  takes: { code: ["set-up", "code"], send: ["set-up"], skip: [] },
  problems: "methods",
  content: (t, { isSent, isGuarded, provider, setUp }) => ({
    title: t("linked.add", { name: labelIn(provider.name, t.locale) }),
    texts: [
      t("linking.confirm.text", { name: labelIn(provider.name, t.locale) }),
      ...(isGuarded ? [t("methods.confirm.guarded")] : []),
    ],
    fields: [setUpField(setUp), ...(isSent ? [codeField(t)] : [])],
    actions: [
      ...(isSent
        ? ([
            { name: "code", label: t("methods.confirm.submit") },
            { name: "send", label: t("email.again"), look: "second" },
          ] as const)
        : [{ name: "send", label: t("methods.confirm.send") }]),
      { name: "skip", label: t("linking.skip"), look: "second" },
    ],
  }),
  locals: (t, { base }) => backLocals(t, base),
});

/** What linking means. */
const factsOf = (t: Translator, { here, provider }: LinkLocals): readonly string[] => [
  t("provider-link.access", { name: labelIn(provider.name, t.locale) }),
  t("provider-link.signedOut", { email: here }),
  t("provider-link.undo"),
];

/** Two addresses may be of two people. */
const differ = ({ there, here }: LinkLocals): boolean => there !== "" && readName(there) !== readName(here);

/** `link-identity`: both parties, and what linking means. */
interface LinkLocals extends StartedLocals {
  /** The address at the provider. May be empty. */
  readonly there: string;
  /** The address of this account. */
  readonly here: string;
}

export const linkIdentityView: PersonView<LinkLocals> = personView({
  name: "link-identity",
  view: "account-linking",
  takes: { submit: ["set-up"], skip: [] },
  problems: "link-account",
  members: {
    identity: section({ provider: z.string(), email: z.string().exactOptional() }).describe(
      "The account at the provider.",
    ),
    differs: z.boolean().describe("Whether the two addresses differ."),
  },
  content: (t, locals) => ({
    title: t("provider-link.title", { name: labelIn(locals.provider.name, t.locale) }),
    texts: [...(differ(locals) ? [t("provider-link.differ")] : []), ...factsOf(t, locals)],
    fields: [setUpField(locals.setUp)],
    actions: [
      { name: "submit", label: t("provider-link.submit") },
      { name: "skip", label: t("linking.skip"), look: "second" },
    ],
    members: {
      identity: {
        provider: locals.provider.key,
        ...(locals.there !== "" && { email: locals.there }),
      },
      differs: differ(locals),
    },
  }),
  locals: (t, locals) => ({
    ...backLocals(t, locals.base),
    cameBack: {
      preset: locals.provider.preset,
      name: labelIn(locals.provider.name, t.locale),
      email: locals.there,
    },
    // A decision, without the navigation: it looks like the same step of a sign-in.
    layout: "",
    navigation: [],
    initials: initialsOf(locals.person, t.locale),
    accountName: locals.person.name,
    account: locals.here,
    caution: differ(locals) ? t("provider-link.differ") : "",
    facts: factsOf(t, locals),
  }),
});

/** A person who links an identity. */
interface Visit {
  readonly visit: PersonVisit;
  readonly services: PersonServices;
}

/** Why nothing is linked, as the code of a problem. */
const PROBLEMS: Readonly<Record<UpstreamFault["reason"], string>> = {
  cancelled: "cancelled",
  slow: "slow",
  refused: "unusable",
  lied: "unusable",
  stranger: "domain",
};

async function choose({ visit, services }: Visit, problem?: Problem): Promise<Reply> {
  const { configuration, identities } = services;
  const { account } = visit.person;
  const providers = linkable({
    identities: await identities.list(account.sub),
    providers: configuration.providers,
    only: onlyProvider(configuration, account),
  });
  const problems = problem === undefined ? [] : [problem];
  return visit.show(chooseProviderView, { ...visit.locals, linkable: providers, problems });
}

/** Nothing is linked, and what has come back is forgotten. */
async function refuse(at: Visit, code: string): Promise<Reply> {
  await at.services.trips.forget(at.visit.person.session);
  return choose(at, { code, fields: [] });
}

/** Leaves for the provider. */
async function begin(at: Visit, key: string): Promise<Reply> {
  const { visit, services } = at;
  const { account, session } = visit.person;
  const { configuration, identities, trips } = services;
  const offered = linkable({
    identities: await identities.list(account.sub),
    providers: configuration.providers,
    only: onlyProvider(configuration, account),
  });
  const provider = offered.find((each) => each.key === key);
  if (provider === undefined) return choose(at);
  const { sub, sessions_generation: generation } = account;
  const owner = { kind: "account", sub, session, generation } as const;
  try {
    const begun = await trips.begin(visit.ctx, { provider: key, owner, locale: visit.locale });
    if (begun.kind === "limited") return await choose(at, limited(begun.attempt.retryAfter));
    return { kind: "leave", location: begun.location };
  } catch (error) {
    if (error instanceof UpstreamFault) return refuse(at, PROBLEMS[error.reason]);
    throw error;
  }
}

/** The page that comes next. */
async function advance(
  at: Visit,
  started: StartedLinking,
  { isSent = false, problem }: { readonly isSent?: boolean; readonly problem?: Problem } = {},
): Promise<Reply> {
  const { visit, services } = at;
  const { person } = visit;
  const { linking } = services.people;
  const { account, amr = [] } = person;
  const need: LinkingNeed = linking === undefined ? "domain" : await linking.need(account, started, amr);
  if (isLinkingRefusal(need) || need === "sign-in") return refuse(at, need);
  const { providers } = services.configuration;
  const { identity } = started;
  const found = providers.find(({ key }) => key === identity.provider);
  const locals = {
    ...visit.locals,
    provider: found ?? { key: identity.provider, preset: "openid" as const, name: identity.provider },
    setUp: services.seals.encrypt(person, LINK_PATH, JSON.stringify(started)),
    ...(problem !== undefined && { problems: [problem] }),
  };
  if (need === "nothing")
    return visit.show(linkIdentityView, {
      ...locals,
      there: identity.email ?? "",
      here: shownEmail(account.email),
    });
  const isGuarded = (account.address_undos ?? []).some(({ expires_at }) => expires_at > services.clock.now());
  return visit.show(confirmLinkView, { ...locals, isSent, isGuarded });
}

/** Who has come back to this session. */
async function show(at: Visit): Promise<Reply> {
  const { visit, services } = at;
  const { account, session } = visit.person;
  const { sub, sessions_generation: generation } = account;
  const returned = await services.trips.returned(visit.ctx, { sub, session, generation });
  if (returned === undefined) return choose(at);
  if ("fault" in returned) return refuse(at, PROBLEMS[returned.fault]);
  return advance(at, { identity: returned.identity }, { isSent: visit.locals.notice === "factorCode" });
}

async function submit(at: Visit, { action, values }: Sent): Promise<Reply> {
  const { visit, services } = at;
  const { person } = visit;
  const { account, session } = person;
  const { linking } = services.people;
  if (action === "link") return begin(at, values.get("provider") ?? "");
  if (action === "skip") {
    await services.trips.forget(session);
    return visit.leave(METHODS_PATH);
  }
  const sealed = services.seals.decrypt(person, LINK_PATH, values.get("set-up") ?? "");
  if (sealed === undefined || linking === undefined) return show(at);
  const started = JSON.parse(sealed) as StartedLinking;
  const { identity } = started;
  const asked = askedAt(visit, services.devices);
  if (action === "send") {
    const sent = await linking.sendCode(account, identity, session, asked);
    if (sent.kind === "limited") return advance(at, started, { problem: limited(sent.retryAfter) });
    return visit.done(LINK_PATH, "factorCode");
  }
  if (action === "code") {
    const code = values.get("code") ?? "";
    if (code.trim() === "") return advance(at, started, { isSent: true, problem: NO_CODE });
    const proof = await linking.prove(account.sub, identity, session, code, asked);
    if (proof.kind === "proven") return advance(at, { ...started, confirmed: true });
    if (proof.kind === "gone") return advance(at, started, { problem: NO_TRIES });
    const { triesLeft } = proof;
    return advance(at, started, { isSent: triesLeft > 0, problem: wrongCode(triesLeft) });
  }
  return link(at, started);
}

async function link(at: Visit, started: StartedLinking): Promise<Reply> {
  const { visit, services } = at;
  const { account, session, amr = [] } = visit.person;
  const { sub, sessions_generation } = account;
  const as = { sessions_generation, keepSession: session };
  const result = await services.people.linking?.link(sub, started, amr, as, askedAt(visit, services.devices));
  switch (result?.kind) {
    case "linked":
      await services.sessions.keep(session, result.sessions_generation);
      await services.trips.forget(session);
      return visit.done(METHODS_PATH, "identityLinked", result.sessions_generation);
    case "limited":
      return advance(at, started, { problem: limited(result.retryAfter) });
    case "taken":
    case "full":
    case "domain":
    case "sign-in":
      return refuse(at, result.kind);
    case "code":
      return advance(at, { identity: started.identity });
    case "changed":
    case undefined:
      break;
  }
  return visit.done(METHODS_PATH, "identityChanged");
}

/**
 * A form sends `action`: `link` with the key of a provider, which leads there and back; `send` for a mail with a code, `code` with
 * that code; `submit` to link, `skip` to leave it.
 */
export const linkPage: PersonPage = {
  path: LINK_PATH,
  needs: "recent sign-in with an own way",
  // Each call takes its own points.
  isUnlimited: true,
  views: [chooseProviderView, confirmLinkView, linkIdentityView],
  isOffered: ({ configuration }) => configuration.providers.length > 0,
  show: (visit, services) => show({ visit, services }),
  submit: (visit, sent, services) => submit({ visit, services }, sent),
};
