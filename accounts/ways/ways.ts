/**
 * What people sign in with: the ways to sign in and the second factors, one row for each kind. Code that asks what an account
 * has, what was shown in a sign-in or what a list contains asks the rows, never for the name of a kind.
 */
import type { Ref } from "../../adapters/record-store.ts";
import type { AccountRecord, AccountWays } from "../../records/directory/directory.ts";
import type { ListedWay } from "../../records/factors/factor-check.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  type StoredApp,
  type StoredPasskey,
  type StoredRecoveryCodes,
} from "../../records/factors/factor-kinds.ts";

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

/** One thing that an account has, as lists show it. Times are in seconds since the epoch. */
export interface Method {
  readonly kind: string;
  /** For `removeFactor`. */
  readonly id: string;
  /** Chosen by the person; `null`: it has the name of its kind. */
  readonly name: string | null;
  readonly added_at: number;
  readonly last_used_at: number | null;
  /** `stopped`: it accepts nothing after too many wrong codes. `copied`: other devices of the person have it as well. */
  readonly state?: "stopped" | "copied";
}

/** The part of an account that the rows read. */
export type WayOwner = Pick<AccountRecord, "sub" | "ways">;

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
  /** The values of `amr` that say that it was shown. */
  readonly amr: readonly string[];
  /** How strong a sign-in is in which it was shown. */
  readonly acr: "password" | "mfa" | "passkey";
  /** The most that an account can have of it. */
  readonly max: number;
  /** Whether the configuration allows it. @param allowed what is missing there is off. */
  readonly isOn: (allowed: { readonly passkeys?: unknown }) => boolean;
  /** The ways without these. Left out: nobody removes it. */
  readonly without?: (ways: AccountWays, ids: ReadonlySet<string>) => AccountWays;
  /** Its member of what `accounts.factors` returns. @param stored its records. */
  readonly shown?: (stored: readonly object[]) => Partial<Factors>;
  /** The same for lists, oldest first. */
  readonly methods?: (factors: Factors) => readonly Method[];
  /** Keys of its texts. */
  readonly texts: WayTexts;
}

/** The rows, in the order in which lists show them. To add a kind, add a row. */
export const WAYS: Readonly<Record<"password" | "passkey" | "app", Way>> = {
  password: {
    kind: "password",
    signsIn: true,
    isFactor: false,
    replaceable: true,
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
};

export const allWays = (): readonly Way[] => Object.values(WAYS);

/** The rows, with those first that sign somebody in. */
export const mainWaysFirst = (): readonly Way[] =>
  allWays().toSorted((one, other) => Number(other.signsIn) - Number(one.signsIn));

/** The kinds that the account has. */
export function kindsOf(account: WayOwner): string[] {
  return allWays().flatMap((way) => (way.ids(account).length > 0 ? [way.kind] : []));
}

/** Whether the account has a way of which this is true. */
export function hasWay(account: WayOwner, is: (way: Way) => boolean): boolean {
  return allWays().some((way) => is(way) && way.ids(account).length > 0);
}

/** Whether the account can sign in by itself, without a mail. */
export function canSignIn(account: WayOwner): boolean {
  return hasWay(account, ({ signsIn }) => signsIn);
}

/** For {@link hasWay} and {@link hasShown}. */
export const isReplaceable = ({ replaceable }: Way): boolean => replaceable;

/** Whether a way was shown of which this is true. */
export function hasShown(amr: readonly string[], is: (way: Way) => boolean): boolean {
  return allWays().some((way) => is(way) && way.amr.some((value) => amr.includes(value)));
}

/** Everything of an account that lists show. */
export function methodsOf(factors: Factors): Method[] {
  return allWays().flatMap((way) => way.methods?.(factors) ?? []);
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
export function withoutWays(account: AccountRecord, which: (id: string) => boolean): LeftWays | undefined {
  const gone = allWays().flatMap((way) => {
    const ids = way.without === undefined ? [] : way.ids(account).filter(which);
    return ids.length === 0 ? [] : [{ way, ids }];
  });
  if (gone.length === 0) return undefined;
  let { ways } = account;
  for (const { way, ids } of gone) ways = way.without?.(ways, new Set(ids)) ?? ways;
  return {
    account: { ...account, ways },
    records: gone.flatMap(({ way, ids }) => recordsOf(way, account.sub, ids)),
    kinds: gone.map(({ way }) => way.kind),
  };
}

/** The records that hold these. */
function recordsOf({ stored }: Way, sub: string, ids: readonly string[]): Ref[] {
  return stored === undefined ? [] : ids.map((id) => stored.kind.ref(stored.key(sub, id)));
}

/** What the account has, from its records. */
export async function factorsOf(
  account: AccountRecord,
  read: (refs: readonly Ref[]) => Promise<readonly unknown[]>,
): Promise<Factors> {
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
  return Object.assign({ app: null, passkeys: [], recovery_codes_left: left }, ...shown) as Factors;
}

/** The row of something that an account has. @throws if there is none. */
export function wayOf({ kind }: Pick<Method, "kind">): Way {
  const way = allWays().find((each) => each.kind === kind);
  if (way === undefined) throw new TypeError(`there is no way ${kind}`);
  return way;
}
