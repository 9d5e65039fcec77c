/** The steps of a running sign-in: their fields, their actions, and the effect of submitting them. */
import type { Label } from "../../config/labels.ts";
import { callerOf, type ServiceContext } from "../../provider/exchange.ts";
import type { ProviderServices } from "../../provider/services.ts";
import { ANONYMOUS } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Translator } from "../../core/texts.ts";
import type { PasswordLength } from "../../accounts/passwords/password-rules.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import type { PasskeyRequest } from "../../accounts/factors/passkeys.ts";
import type { RememberedBrowser } from "../../accounts/factors/remembered-browsers.ts";
import type { Method } from "../../accounts/ways/ways.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { LinkCookie } from "../link-cookie.ts";
import type { Trips } from "../trips.ts";
import type { Registrations } from "../../accounts/people/registrations.ts";
import type { Proven, RunningSignIn, SignInState, StepName } from "./running-sign-in.ts";

/** The action that gives the person more time. It belongs to no step. */
export const MORE_TIME = "more-time";

/** How long before its end a sign-in warns the person and offers more time. */
export const LATE_SECONDS = 300;

/** The features that the service offers to everybody. */
export interface Offers {
  /** How people register, if they can. */
  readonly registration?: Registrations["settings"];
  /** Whether there is mail for a forgotten password. */
  readonly resets: boolean;
  /** Whether a code by mail signs in. */
  readonly emailCode: boolean;
  readonly passwordLength: PasswordLength;
  /** Days for which a browser can be remembered; missing if none can. */
  readonly rememberDays?: number;
  /** Whether people can have passkeys. */
  readonly passkeys: boolean;
  /** Whether people are asked to add a passkey. */
  readonly passkeyOffer: boolean;
}

/** A field of a step. */
export interface Field {
  readonly name: string;
  readonly type: "text" | "email" | "tel" | "url" | "password" | "date" | "select" | "checkbox" | "hidden";
  /** A value of the HTML attribute `autocomplete`. */
  readonly autocomplete: string;
  readonly required: boolean;
  /** The initial value, or what a checkbox sends when it is checked. Never a secret. */
  readonly value?: string;
  /** The values to choose from, besides none. */
  readonly options?: readonly string[];
  /** What the keys of the texts of the options begin with. Default: its name. */
  readonly optionTexts?: string;
  readonly checked?: boolean;
  /** The person has entered it on the page before. */
  readonly readOnly?: true;
}

/** Something that is wrong with what the person entered. Its text is `problem.<code>`. */
export interface Problem {
  readonly code: string;
  /** The names of the fields that it is about. */
  readonly fields: readonly string[];
  /** For the placeholders of the text. */
  readonly values?: Readonly<Record<string, number | string>>;
}

/** What is known of an identity at a provider, besides what every method has. */
export interface SignInIdentity {
  /** The name of the provider. */
  readonly label?: Label;
  /** The address there. */
  readonly email?: string | undefined;
}

/**
 * A way to sign in besides the password, or a browser that is spared the second factor. Times are in seconds since the
 * epoch.
 */
export type SignInMethod =
  /** `id` is what the action `remove` sends, and `factor` what `removeOwnFactor` takes. */
  | (Method & SignInIdentity & { readonly factor: string })
  | (RememberedBrowser & { readonly kind: "browser" });

/** The step that a person is at. */
export interface PresentStep {
  readonly name: StepName;
  readonly signIn: RunningSignIn;
  /** Where it is submitted: the path of the sign-in, or for a step that it does not begin with, one below. */
  readonly path: string;
  /** With what the person entered before, except for secrets. */
  readonly fields: readonly Field[];
  readonly actions: readonly string[];
  /** The request that the action `passkey` answers. */
  readonly passkey?: PasskeyRequest;
  /** The steps that the person can go to instead, with their paths. */
  readonly alternatives: readonly { readonly name: StepName; readonly path: string }[];
  readonly offers: Offers;
  /** Empty when the step is first shown. */
  readonly problems: readonly Problem[];
  /** New recovery codes: only in the answer to what made them. */
  readonly recoveryCodes?: readonly string[];
  /** `review-methods`: what there is now. */
  readonly methods?: readonly SignInMethod[];
  /** Set when the fields have what the person has typed so far: showing the step again would lose it. */
  readonly hasEntries?: true;
  /** The person can be given more time, near the end. */
  readonly extendable?: true;
  /** Seconds until the sign-in expires. */
  readonly expiresIn: number;
}

/** What the person entered, by the name of the field. */
export type Values = ReadonlyMap<string, string>;

/** How submitting a step ended. */
export type Outcome =
  /** Where to redirect the browser. */
  | { readonly kind: "done"; readonly location: string }
  /** The sign-in continues at another step. */
  | {
      readonly kind: "next";
      readonly state: SignInState;
      /** Shown once, with the next step. They are stored nowhere. */
      readonly recoveryCodes?: readonly string[];
    }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] }
  /** Seconds until the next attempt can succeed. */
  | { readonly kind: "limited"; readonly retryAfter: number; readonly whose?: string }
  /** The sign-in expired, was finished, or belongs to another browser. */
  | { readonly kind: "gone" };

/** A submitted step. */
export interface Entry {
  readonly ctx: ServiceContext;
  readonly signIn: RunningSignIn;
  /** Every required field has a value. */
  readonly values: Values;
  /** One of the step's actions. */
  readonly action: string;
  /** The language of the page. */
  readonly locale: string;
}

/** A step. It knows nothing of HTML, JSON and the protocol. */
export interface Step {
  /** Whether the person may be at this step now. */
  readonly isOpen: (signIn: RunningSignIn, offers: Offers) => boolean;
  readonly fields: (signIn: RunningSignIn, offers: Offers) => readonly Field[];
  /** What can be submitted: `submit` for the fields, or a choice. In the order of the page. */
  readonly actions: (signIn: RunningSignIn, offers: Offers) => readonly string[];
  /** The request that the action `passkey` answers. */
  readonly passkey?: (
    signIn: RunningSignIn,
    services: Pick<StepServices, "secondFactors">,
  ) => PasskeyRequest | undefined;
  /** The steps that the person can go to instead, whether or not they are open. */
  readonly alternatives: (signIn: RunningSignIn) => readonly StepName[];
  readonly submit: (entry: Entry, services: StepServices) => Promise<Outcome>;
  /** What the step lists, read each time that it is shown. */
  readonly methods?: (
    signIn: RunningSignIn,
    services: Pick<StepServices, "accounts" | "configuration" | "identities" | "secondFactors">,
  ) => Promise<readonly SignInMethod[]>;
  /** The state to store before the step is shown; `undefined` if none. */
  readonly prepare?: (
    signIn: RunningSignIn,
    services: Pick<StepServices, "accounts" | "configuration" | "invitations" | "people" | "secondFactors">,
  ) => Promise<SignInState | undefined>;
}

/** The steps that begin with any of the ways. `reauthenticate` takes those that the account has. */
export type SignInStep = "login" | "reauthenticate";

/** A way to sign in at these steps. */
export interface SignInWay {
  /** As in `accounts/ways/ways.ts`. */
  readonly kind: string;
  /** What the person enters for it. */
  readonly fields: readonly Field[];
  /** What uses it: `submit` with the fields, or a name of its own. */
  readonly action: string;
  /** Key of the text that `reauthenticate` asks with: "This change needs your password". */
  readonly needs: string;
  /** The label of a button that is all it needs on the page. Left out: it has a form of its own. */
  readonly button?: (t: Translator) => string;
  /** Whether it can be used now, if the account has it. */
  readonly isOpen: (signIn: RunningSignIn, step: SignInStep) => boolean;
  /** With this in the `autocomplete` of the first field, browsers suggest it there. */
  readonly suggestion?: string;
  /** What to store before the step is shown; `undefined` if nothing. */
  readonly prepare?: (
    signIn: RunningSignIn,
    services: Pick<StepServices, "configuration" | "secondFactors">,
  ) => Partial<SignInState> | undefined;
  readonly submit: (entry: Entry, services: StepServices, step: SignInStep) => Promise<Outcome>;
}

/** What the steps need of the service. */
export type StepServices = Pick<
  ProviderServices,
  | "units"
  | "configuration"
  | "accounts"
  | "limits"
  | "passwordCheck"
  | "newBrowsers"
  | "events"
  | "audit"
  | "people"
  | "secondFactors"
  | "identities"
  | "invitations"
> & {
  readonly devices: DeviceCookies;
  readonly protocol: SignInProtocol;
  readonly offers: Offers;
  readonly links: LinkCookie;
  readonly trips: Trips;
};

/** The running sign-ins of oidc-provider. */
export interface SignInProtocol {
  /**
   * The sign-in that this browser may continue.
   * @returns `undefined` if it expired, was finished, or belongs to another browser or another id.
   */
  find(ctx: ServiceContext, uid: string): Promise<RunningSignIn | undefined>;
  /** Whether this is the hidden field `csrf` of a form of this sign-in. Fields signed by earlier keys count. */
  isOwnForm(signIn: Pick<RunningSignIn, "uid">, csrf: string): boolean;
  /**
   * Gives the person the full time of a sign-in again, if nothing else changes it before the commit.
   * @returns the sign-in with its new end.
   * @throws ConditionFailed if it has ended, or was extended as often as it may.
   */
  extend(ctx: ServiceContext, signIn: RunningSignIn): Promise<RunningSignIn>;
  /** Stores what the person has done so far. */
  keep(signIn: RunningSignIn, state: SignInState): void;
  /** All sessions of this account have ended. A sign-in that began in one of them continues without it. */
  detach(signIn: RunningSignIn, sub: string): void;
  /** The person is this account. @returns where to redirect the browser. */
  signedIn(
    ctx: ServiceContext,
    signIn: RunningSignIn,
    account: AccountRecord,
    shown: Pick<Proven, "at" | "signedInAt" | "amr" | "remembered" | "provider">,
  ): Promise<string>;
  /** What the client asks for; the account of the session remembers it. @throws ConditionFailed if the session has ended. */
  allow(ctx: ServiceContext): Promise<string>;
  /** The person continues as the account of the session. @throws ConditionFailed if it has ended. */
  continueAs(ctx: ServiceContext): Promise<string>;
  /** The client gets an error (RFC 6749 section 4.1.2.1). */
  refuse(ctx: ServiceContext, error: string, description: string): Promise<string>;
  /** The client gets `access_denied`. */
  deny(ctx: ServiceContext): Promise<string>;
}

/**
 * What `login` and `email-code` take besides their fields: `true` if this device can create a passkey. Only then may the step `offer-passkey`
 * follow: nobody else sees a page on which there is nothing to do.
 */
export const CAN_ADD_PASSKEY = "can_add_passkey";

/** Whether a field is for a code of an authenticator app: six digits that change every half minute. */
export function isAppCode(step: StepName, { name }: Pick<Field, "name">): boolean {
  return name === "code" && (step === "second-factor" || step === "enrol");
}

/** Who asks for mail, and where. */
export function askedAt(
  { ctx, signIn, locale }: Pick<Entry, "ctx" | "signIn" | "locale">,
  services: Pick<StepServices, "devices">,
): AskedAt {
  const { devices } = services;
  return {
    deployment: ctx.exchange.deployment.kind,
    caller: { ...callerOf(ctx, ANONYMOUS), client: signIn.clientThen },
    address: ctx.exchange.address,
    locale,
    ...(signIn.client.own !== true && { clientName: signIn.client.name }),
    ...(devices.has(ctx) && { device: (account) => devices.read(ctx, account) }),
  };
}
