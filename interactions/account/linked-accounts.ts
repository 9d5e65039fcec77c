/** "Linked accounts", a part of "Sign-in methods": the identities at other providers that the person signs in with. */
import { z } from "zod";
import { factorKey } from "../../accounts/factors/factor.ts";
import type { LinkedIdentity } from "../../accounts/identities/identities.ts";
import { undoEndsAt } from "../../accounts/identities/identity.ts";
import { canSignIn, type WayOwner, WAYS } from "../../accounts/ways/ways.ts";
import { labelIn } from "../../config/labels.ts";
import { section } from "../../config/documented-schema.ts";
import type { Translator } from "../../core/texts.ts";
import { dayText, type Moments } from "../look/moments.ts";
import type { ShownProvider } from "../look/providers.ts";
import type { Locals } from "../look/views.ts";

export const LINK_PATH = "/account/identities/link";
export const REMOVE_PATH = "/account/identities/remove";
export const UNDO_PATH = "/account/identities/undo";

/** What this part knows of a configured provider. */
export interface LinkableProvider extends ShownProvider {
  /** The only way in for its domains. */
  readonly only: boolean;
}

/** What the part shows. */
export interface LinkedAccounts {
  readonly account: WayOwner;
  /** Oldest first. */
  readonly identities: readonly LinkedIdentity[];
  /** Those of the configuration. */
  readonly providers: readonly LinkableProvider[];
  /** The organization of the person lets them sign in with this one and nothing else. */
  readonly only: Pick<ShownProvider, "name"> | undefined;
  /** What else the person can sign in with. */
  readonly allowed: Parameters<typeof canSignIn>[1];
  /** Whether a linking can be undone: that ends with a new password, which takes mail. */
  readonly canUndo: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The providers of which the person could link an identity. An account has one of each. */
export const linkable = ({
  identities,
  providers,
  only,
}: Pick<LinkedAccounts, "identities" | "providers" | "only">): readonly LinkableProvider[] =>
  only === undefined
    ? providers.filter(
        ({ key, only: isOnly }) => !isOnly && identities.every(({ provider }) => provider !== key),
      )
    : [];

/** The name of a provider, which may not be configured any more. */
export const nameOf = (
  { locale }: Pick<Translator, "locale">,
  providers: readonly Pick<ShownProvider, "key" | "name">[],
  key: string,
): string => labelIn(providers.find((each) => each.key === key)?.name ?? key, locale);

/** The address of a page about one identity. */
export const pageOf = (base: string, path: string, { id }: Pick<LinkedIdentity, "id">): string =>
  `${base}${path}?identity=${factorKey(id)}`;

/** Whether the person can remove it: it is not the only way to sign in. */
export function isRemovable(
  { id }: Pick<LinkedIdentity, "id">,
  { account, only, allowed }: Pick<LinkedAccounts, "account" | "only" | "allowed">,
): boolean {
  const ways = WAYS.provider.without?.(account.ways, new Set([id])) ?? account.ways;
  return only === undefined && canSignIn({ ...account, ways }, allowed);
}

/** Whether the linking can still be undone. The one that the account was registered with is part of it. */
export const isNew = ({ linked_at, registered }: LinkedIdentity, now: number): boolean =>
  !registered && undoEndsAt({ linked_at }) * 1_000 > now;

/** The address of the page that undoes it; `undefined` if it can't be undone. */
const undoOf = (
  base: string,
  identity: LinkedIdentity,
  { canUndo, now }: LinkedAccounts,
): string | undefined => (canUndo && isNew(identity, now) ? pageOf(base, UNDO_PATH, identity) : undefined);

/** The same for programs. */
export const identitiesMember = z
  .array(
    section({
      provider: z.string().describe("The key of the provider."),
      label: z.string(),
      email: z.string().exactOptional().describe("The address there when it was linked."),
      linked_at: z.int().describe("Seconds since the epoch."),
      last_used_at: z.int().nullable().describe("Seconds since the epoch."),
      href: z
        .string()
        .exactOptional()
        .describe("The page that removes it. Left out for the only way to sign in."),
      undo: z.string().exactOptional().describe("The page that undoes its linking, for seven days."),
    }),
  )
  .readonly();

export const identitiesOf = (
  t: Translator,
  base: string,
  linked: LinkedAccounts,
): z.output<typeof identitiesMember> =>
  linked.identities.map((identity) => describedIdentity(t, base, linked, identity));

function describedIdentity(
  t: Translator,
  base: string,
  linked: LinkedAccounts,
  identity: LinkedIdentity,
): z.output<typeof identitiesMember>[number] {
  const { provider, email, linked_at, last_used_at } = identity;
  const undo = undoOf(base, identity, linked);
  return {
    provider,
    label: nameOf(t, linked.providers, provider),
    ...(email !== null && { email }),
    linked_at,
    last_used_at,
    ...(isRemovable(identity, linked) && { href: pageOf(base, REMOVE_PATH, identity) }),
    ...(undo !== undefined && { undo }),
  };
}

/** The part of the page. `undefined`: there are no providers, and nothing is linked. */
export function linkedLocals(
  t: Translator,
  base: string,
  linked: LinkedAccounts,
  moment: Moments,
): Locals | undefined {
  const { identities, providers, only } = linked;
  const additions = linkable(linked);
  if (identities.length === 0 && additions.length === 0) return undefined;
  const lookOf = (key: string): string => providers.find((each) => each.key === key)?.preset ?? "openid";
  return {
    only: only === undefined ? "" : t("linked.only", { name: labelIn(only.name, t.locale) }),
    items: identities.map((identity, index) => {
      const { provider, email, linked_at, last_used_at } = identity;
      const canRemove = isRemovable(identity, linked);
      return {
        id: `identity-${index}`,
        look: lookOf(provider),
        name: nameOf(t, providers, provider),
        email: email ?? "",
        linked: moment(linked_at * 1000),
        used: last_used_at === null ? "" : moment(last_used_at * 1000),
        remove: canRemove ? pageOf(base, REMOVE_PATH, identity) : "",
        last: only === undefined && !canRemove ? t("linked.last") : "",
        undo: undoOf(base, identity, linked) ?? "",
        until: dayText(t.locale, undoEndsAt(identity) * 1000),
      };
    }),
    action: base + LINK_PATH,
    additions: additions.map(({ key, preset, name }) => ({
      key,
      look: preset,
      label: t("linked.add", { name: labelIn(name, t.locale) }),
    })),
  };
}
