/**
 * What people sign in with: the ways to sign in and the second factors, one row for each kind. Code that asks what an account
 * has, what was shown in a sign-in or what a list contains asks the rows, never for the name of a kind.
 */
import { isOperator } from "../../config/operators.ts";
import type { Ref } from "../../adapters/record-store.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { AuditAction } from "../../records/audit/actions.ts";
import type { AuditDetail } from "../../records/audit/audit-event.ts";
import type { AccountRecord, AccountWays, IdentityLink } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import type { ListedWay } from "../../records/factors/factor-check.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  type StoredApp,
  type StoredPasskey,
  type StoredRecoveryCodes,
} from "../../records/factors/factor-kinds.ts";
import { CONFIRMATION, type ConfirmationPurpose } from "../../records/people/confirmation-kinds.ts";
import { IDENTITY, type StoredIdentity } from "../../records/people/identity-kinds.ts";
import type { Records } from "../../records/records.ts";

/** After this many wrong codes in a row, an app is locked until the person uses a passkey or a recovery code, or an operator helps. */
export const MAX_WRONG_CODES = 100;

/** The second factors of an account, as `accounts.factors` returns them. Times are in seconds since the epoch. */
export interface Factors {
  /** The authenticator app; `null` if there is none. */
  readonly app: {
    readonly added_at: number;
    /** `null`: never since it was added. */
    readonly last_used_at: number | null;
    /** Whether it accepts no codes after 100 wrong ones in a row, until a passkey or a recovery code is used. */
    readonly stopped: boolean;
  } | null;
  /** Oldest first. */
  readonly passkeys: readonly {
    /** The credential id, Base64url. */
    readonly id: string;
    /** Chosen by the person. */
    readonly name: string;
    readonly added_at: number;
    readonly last_used_at: number | null;
    /** Whether it was copied to other devices, as far as its last use says. */
    readonly backed_up: boolean;
  }[];
  readonly recovery_codes_left: number;
}

/** An identity at another provider, without the address there. Times are in seconds since the epoch. */
export interface ShownIdentity {
  readonly id: string;
  /** The key of the provider in the configuration. */
  readonly provider: string;
  readonly linked_at: number;
  /** `null`: never since it was linked. */
  readonly last_used_at: number | null;
}

/** Everything that an account has besides the password. */
export interface OwnedWays extends Factors {
  /** Left out where only second factors are meant. */
  readonly identities?: readonly ShownIdentity[];
}

/** One thing that an account has, as lists show it. Times are in seconds since the epoch. */
export interface Method {
  readonly kind: string;
  /** For `removeFactor`. */
  readonly id: string;
  /** Chosen by the person; `null`: it has the name of its kind. */
  readonly name: string | null;
  /** Of an identity: the key of its provider, whose name it has. */
  readonly provider?: string;
  readonly added_at: number;
  readonly last_used_at: number | null;
  /** `stopped`: it accepts nothing after too many wrong codes. `copied`: other devices of the person have it as well. */
  readonly state?: "stopped" | "copied";
}

/** The part of an account that the rows read. Without `email_verified`, nothing is known of its address. */
export type WayOwner = Pick<AccountRecord, "sub" | "ways"> & Partial<Pick<AccountRecord, "email_verified">>;

/** What the configuration allows. What is missing is off. */
export interface AllowedWays {
  readonly passkeys?: unknown;
  readonly emailCode?: boolean;
}

/** What the audit calls the removal of something that an account has. */
type RemovedAction = Extract<AuditAction, "account.factor_removed" | "account.identity_unlinked">;

interface WayTexts {
  readonly name: string;
  /** With `count`: what the account has of it, as in "Password and 2 passkeys". */
  readonly count: string;
  /** The heading of its part of "Sign-in methods", and the text below. Left out: it has no part there. */
  readonly heading?: string;
  readonly text?: string;
  /** The button that removes one, and what that means. Left out: nobody removes it. */
  readonly remove?: string;
  readonly effect?: string;
  /** With `count`: what the page says instead of offering another one. Left out: nothing. */
  readonly full?: string;
}

/** One kind. */
export interface Way extends ListedWay {
  readonly kind: string;
  /** Whether it signs somebody in by itself. The others are shown after one that does. */
  readonly signsIn: boolean;
  /** Whether an account that has it needs two factors from then on. */
  readonly isFactor: boolean;
  /** Whether a mail gives the owner another one. A sign-in with it then shows that the person reads that mail. */
  readonly replaceable: boolean;
  /**
   * Whether it outranks a code by mail: an account that has it shows it where a code by mail is not enough (decisions.md, What is
   * it worth?).
   */
  readonly outranksMail: boolean;
  /** The values of `amr` that say that it was shown. */
  readonly amr: readonly string[];
  /** How strong a sign-in is in which it was shown. */
  readonly acr: "password" | "mfa" | "passkey";
  /** The most that an account can have of it. */
  readonly max: number;
  /** Whether the configuration allows it. */
  readonly isOn: (allowed: AllowedWays) => boolean;
  /** The ways without these. Left out: nobody removes it. */
  readonly without?: (ways: AccountWays, ids: ReadonlySet<string>) => AccountWays;
  /** Its member of what `accounts.factors` returns. @param stored its records. */
  readonly shown?: (stored: readonly object[]) => Partial<OwnedWays>;
  /** The same for lists, oldest first. */
  readonly methods?: (owned: OwnedWays) => readonly Method[];
  /** What the audit says of its removal. Default: that a factor was removed, and its kind. */
  readonly removed?: (
    account: WayOwner,
    id: string,
  ) => { readonly action: RemovedAction; readonly detail: AuditDetail };
  /** The purpose of the link that undoes its addition, which goes with it. Left out: there is none for each. */
  readonly undo?: ConfirmationPurpose;
  /** Keys of its texts. */
  readonly texts: WayTexts;
}

/** The most that an account can have, far beyond what anybody configures. */
const MAX_IDENTITIES = 50;

const linksOf = ({ ways }: WayOwner): readonly IdentityLink[] => ways.provider?.links ?? [];

/** The rows, in the order in which lists show them. To add a kind, add a row. */
export const WAYS: Readonly<Record<"password" | "passkey" | "app" | "provider" | "email", Way>> = {
  password: {
    kind: "password",
    signsIn: true,
    isFactor: false,
    replaceable: true,
    outranksMail: true,
    amr: ["pwd"],
    acr: "password",
    max: 1,
    isOn: () => true,
    ids: ({ ways }) => ((ways.password?.hash ?? null) === null ? [] : ["password"]),
    texts: { name: "methods.password", count: "methods.password" },
  },
  app: {
    kind: "app",
    signsIn: false,
    isFactor: true,
    replaceable: false,
    outranksMail: false,
    amr: ["otp"],
    acr: "mfa",
    max: 1,
    isOn: () => true,
    ids: ({ ways: { app } }) => (app ? ["app"] : []),
    stored: { kind: AUTHENTICATOR_APP, plural: "authenticator apps", key: (sub) => sub },
    without: ({ app: _removed, ...ways }) => ways,
    shown: ([stored]) => {
      if (stored === undefined) return { app: null };
      const { added_at, last_used_at, wrong_codes } = stored as StoredApp;
      return { app: { added_at, last_used_at, stopped: wrong_codes >= MAX_WRONG_CODES } };
    },
    methods({ app }) {
      if (app === null) return [];
      const { stopped, ...times } = app;
      return [{ kind: "app", id: "app", name: null, ...times, ...(stopped && { state: "stopped" }) }];
    },
    texts: {
      name: "methods.app",
      count: "methods.app.one",
      heading: "methods.app",
      text: "methods.app.text",
      remove: "methods.remove.app",
      effect: "methods.remove.app.text",
    },
  },
  passkey: {
    kind: "passkey",
    signsIn: true,
    isFactor: true,
    replaceable: false,
    outranksMail: true,
    amr: ["swk", "hwk"],
    acr: "passkey",
    max: 10,
    isOn: ({ passkeys }) => passkeys !== undefined,
    ids: ({ ways }) => ways.passkey?.ids ?? [],
    stored: { kind: PASSKEY, plural: "passkeys", key: (_sub, id) => id },
    without: ({ passkey, ...ways }, ids) => ({
      ...ways,
      ...(passkey && { passkey: { ...passkey, ids: passkey.ids.filter((id) => !ids.has(id)) } }),
    }),
    shown: (stored) => ({
      passkeys: (stored as readonly StoredPasskey[]).map(
        ({ id, name, added_at, last_used_at, backed_up }) => ({
          id,
          name,
          added_at,
          last_used_at,
          backed_up,
        }),
      ),
    }),
    methods: ({ passkeys }) =>
      passkeys.map(({ backed_up, ...passkey }) =>
        Object.assign(passkey, { kind: "passkey" }, backed_up && ({ state: "copied" } as const)),
      ),
    texts: {
      name: "methods.passkey",
      count: "methods.passkeys.count",
      heading: "methods.passkeys",
      text: "methods.passkeys.text",
      remove: "methods.remove.passkey",
      effect: "methods.remove.passkey.text",
      full: "methods.passkeys.full",
    },
  },
  provider: {
    kind: "provider",
    signsIn: true,
    isFactor: false,
    replaceable: false,
    outranksMail: false,
    amr: ["fed"],
    acr: "password",
    // One of each provider.
    max: MAX_IDENTITIES,
    isOn: () => true,
    ids: (account) => linksOf(account).map(({ id }) => id),
    stored: { kind: IDENTITY, plural: "identities at providers", key: (_sub, id) => id },
    without: ({ provider, ...ways }, ids) => {
      const links = (provider?.links ?? []).filter(({ id }) => !ids.has(id));
      return links.length === 0 ? ways : { ...ways, provider: { links } };
    },
    shown: (stored) => ({
      identities: (stored as readonly StoredIdentity[]).map(({ id, provider, linked_at, last_used_at }) => ({
        id,
        provider,
        linked_at,
        last_used_at,
      })),
    }),
    methods: ({ identities = [] }) =>
      identities.map(({ id, provider, linked_at, last_used_at }) => ({
        kind: "provider",
        id,
        name: null,
        provider,
        added_at: linked_at,
        last_used_at,
      })),
    removed: (account, id) => ({
      action: "account.identity_unlinked",
      detail: { provider: linksOf(account).find((link) => link.id === id)?.provider ?? "" },
    }),
    undo: "identity-undo",
    texts: {
      name: "methods.provider",
      count: "methods.providers.count",
      remove: "methods.remove.provider",
      effect: "methods.remove.provider.text",
    },
  },
  /** A code by mail: an account has it with its confirmed address. */
  email: {
    kind: "email",
    signsIn: true,
    isFactor: false,
    replaceable: true,
    outranksMail: false,
    amr: ["email"],
    acr: "password",
    max: 1,
    isOn: ({ emailCode = false }) => emailCode,
    ids: ({ email_verified = false }) => (email_verified ? ["email"] : []),
    texts: { name: "methods.email", count: "methods.email" },
  },
};

export const allWays = (): readonly Way[] => Object.values(WAYS);

/** The rows, with those first that sign somebody in. */
export const mainWaysFirst = (): readonly Way[] =>
  allWays().toSorted((one, other) => Number(other.signsIn) - Number(one.signsIn));

/** Whether codes by mail are on for this account: operators get none. */
export function usesEmailCodes(
  {
    configuration,
    mailDeployment,
  }: {
    readonly configuration: Pick<Configuration, "signIn" | "profile" | "operators">;
    readonly mailDeployment: unknown;
  },
  sub: string,
): boolean {
  const { signIn, profile } = configuration;
  return (
    signIn.emailCode &&
    profile !== "strict" &&
    mailDeployment !== undefined &&
    !isOperator(configuration, sub)
  );
}

/** The kinds that the account has. @param allowed Default: codes by mail are off. */
export function kindsOf(account: WayOwner, allowed: Pick<AllowedWays, "emailCode"> = {}): string[] {
  return allWays().flatMap((way) => (isOnFor(way, allowed) && way.ids(account).length > 0 ? [way.kind] : []));
}

/** An account keeps its passkeys while they are off. */
const isOnFor = (way: Way, { emailCode = false }: Pick<AllowedWays, "emailCode">): boolean =>
  way.isOn({ passkeys: true, emailCode });

/** Whether the account has a way of which this is true. */
export function hasWay(account: WayOwner, is: (way: Way) => boolean): boolean {
  return allWays().some((way) => is(way) && way.ids(account).length > 0);
}

/**
 * Whether the account can sign in.
 * @param allowed.providers those that are configured: an identity of another one signs nobody in. Default: all are.
 * @param allowed.emailCode default: codes by mail are off.
 */
export function canSignIn(
  account: WayOwner,
  allowed: Pick<AllowedWays, "emailCode"> & { readonly providers?: readonly { readonly key: string }[] } = {},
): boolean {
  const { providers } = allowed;
  const isKnown = (link: IdentityLink): boolean =>
    providers?.some(({ key }) => key === link.provider) ?? true;
  const provider = { links: linksOf(account).filter(isKnown) };
  const usable = { ...account, ways: { ...account.ways, provider } };
  return hasWay(usable, (way) => way.signsIn && isOnFor(way, allowed));
}

/** For {@link hasWay} and {@link hasShown}. */
export const outranksMail = (way: Way): boolean => way.outranksMail;

/**
 * Whether a code by mail was shown, and nothing that outranks it, for an account that has such a thing. That is no recent sign-in,
 * and changes nothing of what the account signs in with.
 */
export function isByMailAlone(amr: readonly string[], account: WayOwner): boolean {
  const isMail = amr.some((value) => WAYS.email.amr.includes(value));
  return isMail && !hasShown(amr, outranksMail) && hasWay(account, outranksMail);
}

/** For {@link hasWay} and {@link withoutWays}. */
export const isFactorWay = ({ isFactor }: Way): boolean => isFactor;

/** For {@link hasWay} and {@link withoutWays}: an identity at another provider. */
export const isIdentity = ({ kind }: Way): boolean => kind === "provider";

/** For {@link hasWay} and {@link hasShown}. */
export const isReplaceable = ({ replaceable }: Way): boolean => replaceable;

/** Whether a way was shown of which this is true. */
export function hasShown(amr: readonly string[], is: (way: Way) => boolean): boolean {
  return allWays().some((way) => is(way) && way.amr.some((value) => amr.includes(value)));
}

/** Everything of an account that lists show. */
export function methodsOf(owned: OwnedWays): Method[] {
  return allWays().flatMap((way) => way.methods?.(owned) ?? []);
}

/** An account after something was removed. */
export interface LeftWays {
  readonly account: AccountRecord;
  /** The records that go with it. */
  readonly records: readonly Ref[];
  /** The kinds of what was removed. */
  readonly kinds: readonly string[];
}

/** The account without what `which` accepts. `undefined` if it has nothing of it. */
export function withoutWays(
  account: AccountRecord,
  which: (id: string, way: Way) => boolean,
): LeftWays | undefined {
  const gone = allWays().flatMap((way) => {
    const ids = way.without === undefined ? [] : way.ids(account).filter((id) => which(id, way));
    return ids.length === 0 ? [] : [{ way, ids }];
  });
  if (gone.length === 0) return undefined;
  let { ways } = account;
  for (const { way, ids } of gone) ways = way.without?.(ways, new Set(ids)) ?? ways;
  return {
    account: { ...account, ways },
    records: gone.flatMap(({ way, ids }) => [...recordsOf(way, account.sub, ids), ...undosOf(way, ids)]),
    kinds: gone.map(({ way }) => way.kind),
  };
}

/** The records that hold these. */
function recordsOf({ stored }: Way, sub: string, ids: readonly string[]): Ref[] {
  return stored === undefined ? [] : ids.map((id) => stored.kind.ref(stored.key(sub, id)));
}

/** The links that undo the addition of these. */
function undosOf({ undo }: Way, ids: readonly string[]): Ref[] {
  return undo === undefined ? [] : ids.map((id) => CONFIRMATION.ref([undo, id]));
}

/** What the account has, from its records. */
export async function ownedWaysOf(
  account: AccountRecord,
  read: (refs: readonly Ref[]) => Promise<readonly unknown[]>,
): Promise<OwnedWays> {
  const ways = allWays().map((way) => ({ way, refs: recordsOf(way, account.sub, way.ids(account)) }));
  const [codes, ...found] = await read([
    RECOVERY_CODES.ref(account.sub),
    ...ways.flatMap(({ refs }) => refs),
  ]);
  const shown = ways.map(({ way, refs }) => {
    const stored = found.splice(0, refs.length);
    return way.shown?.(stored.filter((each) => typeof each === "object" && each !== null));
  });
  const left = (codes as StoredRecoveryCodes | undefined)?.codes.length ?? 0;
  return Object.assign({ app: null, passkeys: [], recovery_codes_left: left }, ...shown) as OwnedWays;
}

/** The same of an account that is stored; `undefined` if there is none. */
export async function readOwnedWays(records: Records, sub: string): Promise<OwnedWays | undefined> {
  const found = await records.find(ACCOUNT.ref(sub));
  return (
    found &&
    ownedWaysOf(found.value, async (refs) => (await records.store.get(refs)).map((each) => each?.value))
  );
}

/** The row of something that an account has. @throws if there is none. */
export function wayOf({ kind }: Pick<Method, "kind">): Way {
  const way = allWays().find((each) => each.kind === kind);
  if (way === undefined) throw new TypeError(`there is no way ${kind}`);
  return way;
}
