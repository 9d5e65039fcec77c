/**
 * The pages about one linked account, after a recent sign-in: removing it, and "This wasn't me", which for seven days after a linking
 * does what the link in its mail does.
 */
import { onlyProvider } from "../../accounts/providers.ts";
import { factorKey } from "../../accounts/factors/factor.ts";
import type { LinkedIdentity } from "../../accounts/identities/identities.ts";
import { usesEmailCodes } from "../../accounts/ways/ways.ts";
import { CONFIRM_PATH } from "../confirm.ts";
import type { Translator } from "../../core/texts.ts";
import type { ShownProvider } from "../look/providers.ts";
import type { Reply } from "../reply.ts";
import { isNew, isRemovable, nameOf, REMOVE_PATH, UNDO_PATH } from "./linked-accounts.ts";
import { askedAt, type PersonPage, type PersonServices, type PersonVisit } from "./person-pages.ts";
import { type PersonLocals, type PersonView, personView } from "./person-view.ts";
import { backLocals, backToMethods, METHODS_PATH } from "./sign-in-methods.ts";

/** One linked account. */
interface IdentityLocals extends PersonLocals {
  readonly identity: Pick<LinkedIdentity, "id" | "provider">;
  readonly providers: readonly Pick<ShownProvider, "key" | "name">[];
}

/** What a form sends back. */
const identityField = ({ identity: { id } }: IdentityLocals) =>
  ({
    name: "identity",
    type: "hidden",
    autocomplete: "off",
    required: true,
    label: "",
    value: factorKey(id),
  }) as const;

/** A page that asks before it does one thing to a linked account. @param words the title, the texts and the button. */
const identityView = (
  action: "remove" | "undo",
  words: (
    t: Translator,
    name: string,
  ) => {
    readonly title: string;
    readonly texts: readonly string[];
    readonly label: string;
  },
): PersonView<IdentityLocals> =>
  personView({
    name: `${action}-identity`,
    view: "account-identity",
    takes: { [action]: ["identity"] },
    problems: "methods",
    content(t, locals) {
      const { label, ...said } = words(t, nameOf(t, locals.providers, locals.identity.provider));
      return {
        ...said,
        fields: [identityField(locals)],
        actions: [{ name: action, label, look: "danger" }],
        links: [{ name: "keep", label: t("linked.keep"), href: locals.base + METHODS_PATH }],
      };
    },
    locals: (t, { base }) => backLocals(t, base),
  });

export const removeIdentityView = identityView("remove", (t, name) => ({
  title: t("linked.remove.title", { name }),
  texts: [t("linked.remove.text", { name })],
  label: t("linked.remove.submit"),
}));

export const undoIdentityView = identityView("undo", (t, name) => ({
  title: t("undo.identity.title", { name }),
  texts: [t("undo.identity.text", { name }), t("undo.effect")],
  label: t("undo.identity.submit", { name }),
}));

/** @param is which of the person's identities the page is for. */
function identityPage(
  view: PersonView<IdentityLocals>,
  path: string,
  is: (visit: PersonVisit, services: PersonServices, identity: LinkedIdentity) => boolean,
  act: (visit: PersonVisit, services: PersonServices, identity: LinkedIdentity) => Promise<Reply>,
): PersonPage {
  async function find(
    visit: PersonVisit,
    services: PersonServices,
    key: string | undefined,
  ): Promise<LinkedIdentity | undefined> {
    const all = await services.identities.list(visit.person.account.sub);
    const found = all.find(({ id }) => factorKey(id) === key);
    return found !== undefined && is(visit, services, found) ? found : undefined;
  }
  return {
    path,
    needs: "recent sign-in",
    // The call takes its own point.
    isUnlimited: true,
    views: [view],
    async show(visit, services) {
      const identity = await find(visit, services, visit.query.get("identity"));
      if (identity === undefined) return backToMethods(visit);
      return visit.show(view, { ...visit.locals, identity, providers: services.configuration.providers });
    },
    async submit(visit, { values }, services) {
      const identity = await find(visit, services, values.get("identity"));
      return identity === undefined ? backToMethods(visit) : act(visit, services, identity);
    },
  };
}

const removePage = identityPage(
  removeIdentityView,
  REMOVE_PATH,
  ({ person: { account } }, services, identity) =>
    isRemovable(identity, {
      account,
      only: onlyProvider(services.configuration, account),
      allowed: {
        emailCode: usesEmailCodes(services, account.sub),
        providers: services.configuration.providers,
      },
    }),
  async (visit, { identities, sessions, devices }, { id }) => {
    const { account, session } = visit.person;
    const { sub, sessions_generation: generation } = account;
    const change = { keepSession: session, generation };
    const result = await identities.unlink(sub, id, change, askedAt(visit, devices));
    if (result.kind === "limited") return visit.limited(result.retryAfter);
    if (result.kind !== "changed") return visit.done(METHODS_PATH, "identityChanged");
    await sessions.keep(session, result.sessions_generation);
    return visit.done(METHODS_PATH, "identityRemoved", result.sessions_generation);
  },
);

const undoPage = identityPage(
  undoIdentityView,
  UNDO_PATH,
  (_visit, { clock, people }, identity) =>
    people.passwordResets !== undefined && isNew(identity, clock.now()),
  async (visit, { identities, links, devices }, { id }) => {
    const { sub, sessions_generation: generation } = visit.person.account;
    const result = await identities.notMe(sub, id, generation, askedAt(visit, devices));
    if (result.kind === "limited") return visit.limited(result.retryAfter);
    if (result.kind !== "undone") return visit.done(METHODS_PATH, "identityChanged");
    // All sessions have ended, this one too: the person chooses a new password, as after the link in the mail.
    if (result.reset === null) return visit.leave(METHODS_PATH);
    links.write(visit.ctx, result.reset);
    return visit.leave(CONFIRM_PATH);
  },
);

export const identityPages: readonly PersonPage[] = [removePage, undoPage];
