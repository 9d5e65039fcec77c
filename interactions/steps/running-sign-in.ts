/** A running sign-in: the steps that there are, how far the person has come, and what the request asks for. */
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import type { ClientThen } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Enrolment, NewAccountEnrolment } from "../../accounts/factors/enrolment.ts";
import type { PasskeyChallenge, PasskeyRequest } from "../../accounts/factors/passkeys.ts";
import type { LanguageHints } from "../look/language.ts";
import type { DomainProvider, ShownProvider } from "../look/providers.ts";
import type { KnownAddress, LeftFor, LinkingState, Newcomer } from "./provider-state.ts";

/** The steps that a person can be at. */
export const STEP_NAMES = [
  "login",
  "provider",
  "reauthenticate",
  "email-code",
  "second-factor",
  "provider-problem",
  "provider-fresh",
  "offer-passkey",
  "enrol-confirm",
  "enrol",
  "recovery-codes",
  "review-methods",
  "register",
  "confirm-email",
  "invitation",
  "provider-register",
  "provider-known",
  "provider-confirm",
  "provider-link",
  "forgot-password",
  "new-password",
  "terms",
  "consent",
  "continue",
] as const;
export type StepName = (typeof STEP_NAMES)[number];

/** The progress of a person in a running sign-in, stored with it. */
export interface SignInState {
  /** The step that the person is at. Default: the one that the prompt of the protocol asks for. */
  readonly step?: StepName;
  /** What to say at that step: a text `notice.<code>`. */
  readonly notice?: string;
  /** The address that a code was sent to. */
  readonly email?: string;
  /**
   * The name for which a new password or a code was asked, to sign in with it afterwards; or the one that was asked for first.
   */
  readonly username?: string;
  /** `login`: `username` is the answer to the page that asks for the name first. */
  readonly named?: true;
  /** `email-code`: a code was asked for, with `username` or for the person who is signed in. */
  readonly mailed?: true;
  /** The invitation that the person has followed: they can read the mail to this address. */
  readonly invitation?: { readonly id: string; readonly email: string };
  /** The confirmed registration has a username that somebody else has. */
  readonly usernameTaken?: true;
  /** Who came back from a provider, while no account has the identity. */
  readonly upstream?: Newcomer;
  /** `provider-known`: how the account with the address of `upstream` can be signed in to. */
  readonly known?: KnownAddress;
  /** Who the person has proven to be, while something is still missing: a second factor, or accepting the terms. */
  readonly proven?: Proven;
  /** `login` and `reauthenticate`: what a passkey signs, of whatever account. */
  readonly loginChallenge?: PasskeyChallenge;
  /** `second-factor`: what a passkey of the account signs. */
  readonly challenge?: PasskeyChallenge;
  /** The same as the browser wants it. */
  readonly passkey?: PasskeyRequest;
  /**
   * `enrol-confirm`: the account that a code was sent for; `provider-confirm`: see {@link linkCode}. A person who has to start again
   * can still use it.
   */
  readonly codeFor?: string;
  /**
   * `enrol`: what is enrolled; a {@link NewAccountEnrolment} if the person is not `proven`, which stays while the person
   * registers again.
   */
  readonly enrolment?: Enrolment | NewAccountEnrolment;
  /** The provider that the notice or the problem is about. */
  readonly provider?: LeftFor;
}

/** The factors of an account that a person has shown. There is no session before the rest is shown. */
export interface Proven {
  readonly sub: string;
  /** The `sessions_generation` of the account then. Whatever ends its sessions makes the person start again. */
  readonly generation: number;
  /** When the last part was shown, in seconds since the epoch. */
  readonly at: number;
  /**
   * By a provider: when the person signed in there, in seconds since the epoch; `null` if it did not say. The sign-in has this
   * time instead of `at`.
   */
  readonly signedInAt?: number | null;
  /** The factors that were shown, as `amr`. */
  readonly amr: readonly string[];
  /** The kinds of the account's ways to sign in then. */
  readonly ways: readonly string[];
  /** The key of the provider that the person came by. */
  readonly provider?: string;
  /** The person is signed in, and shows only what is missing; `at` is the time of that sign-in. */
  readonly stepUp?: true;
  /** The browser is remembered: the second factor was not shown. */
  readonly remembered?: true;
  /** A step-up for which only a passkey is enough. */
  readonly passkeyOnly?: true;
  /** The person's device says that it can create a passkey. */
  readonly canAddPasskey?: true;
  /** Nothing more is needed: the person may add a passkey, or go on without one. */
  readonly offered?: true;
  /** The person has come back from a provider, and may link that identity. */
  readonly linking?: LinkingState;
}

const unregistered = section({
  /** The host of its `client_id`, in ASCII, with the port if it is another than 443. Show it whole. */
  host: z.string(),
  /** The path of its `client_id`. Missing if the service allows exactly this address. */
  path: z.string().exactOptional(),
  /**
   * Where the answer goes: `https` to that host. `loopback` and `scheme` to an application on the person's device: then nobody can
   * tell whether it is the one that it says it is.
   */
  how: z.enum(["https", "loopback", "scheme"]),
  /** `scheme` only: the links that open the application. */
  scheme: z.string().exactOptional(),
  /** What it calls itself, in at most 60 characters. Show it in quotation marks. */
  name: z.string().exactOptional(),
  /** Whether the service allows its host or address by name: otherwise nobody has checked it. */
  checked: z.boolean(),
});

/** What is known of a client that nobody registered. */
export interface UnregisteredClient extends z.output<typeof unregistered> {}

const client = section({
  client_id: z.string(),
  /** The display name. */
  name: z.string(),
  /** Set when the person signs in to the account pages. */
  own: z.literal(true).exactOptional(),
  /** Path of its logo on this host. */
  logo: z.string().exactOptional(),
  /** Its home page. */
  client_uri: z.string().exactOptional(),
  /** Its privacy policy. */
  policy_uri: z.string().exactOptional(),
  /** Its terms of use. */
  tos_uri: z.string().exactOptional(),
  /** A client that nobody registered (Client ID Metadata Document). Its `name` is its host. */
  unregistered: unregistered.exactOptional(),
});

/** The client that the person signs in to. */
export interface SignInClient extends z.output<typeof client> {}
export const signInClient: z.ZodType<SignInClient, SignInClient> = client;

const api = section({
  identifier: z.string(),
  name: z.string(),
  /** What it asks for, with the descriptions of the API. */
  scopes: z.array(section({ name: z.string(), label: z.string() })).readonly(),
});

/** An API that the client wants to call on the person's behalf. */
export interface ConsentApi extends z.output<typeof api> {}
export const consentApi: z.ZodType<ConsentApi, ConsentApi> = api;

/** A sign-in that waits for the person at this browser. */
export interface RunningSignIn {
  readonly uid: string;
  /** The question of the protocol: who the person is (`create`: as a new account), or whether a client may read the account. */
  readonly prompt: "login" | "create" | "consent" | "continue";
  readonly client: SignInClient;
  /** The same client for the audit. */
  readonly clientThen: ClientThen;
  /** Path of `{base}/interaction/<id>` as the browser sees it. */
  readonly path: string;
  /** Bound to this sign-in, unguessable, never empty. */
  readonly csrf: string;
  /** `login_hint` of the request. */
  readonly loginHint?: string;
  /** The request, sealed, to start it again after the end. */
  readonly again?: string;
  /** `ui_locales` of the request: language tags, separated by spaces, in order of preference. */
  readonly uiLocales?: string;
  /** `continue` only: the answer goes to an application on the person's device, and any of them can claim its address. */
  readonly forDevice?: true;
  /** Who is signed in: at consent, at `continue`, and when the account pages ask for a recent sign-in. */
  readonly account?: Pick<AccountRecord, "sub" | "email" | "locale"> & {
    /** Name and surname; may be empty. */
    readonly name: string;
    /** The kinds of its ways to sign in. */
    readonly ways: readonly string[];
    /** The keys of the providers that are linked to it. Default: none. */
    readonly providers?: readonly string[];
  };
  /**
   * Consent only: exactly the fields that the client would get, by their names in the documented profile (`sub`, `email`,
   * `name`, `surname`, `date_of_birth`, `gender`) or by the name of a standard claim.
   */
  readonly shares: readonly string[];
  /** Consent only: the APIs that the client could call, in the order of the request. */
  readonly apis: readonly ConsentApi[];
  readonly state: SignInState;
  /** The `acr` that the request and its client need; `undefined` if a password is enough. */
  readonly demandedAcr?: string;
  /** The link in mail led here to accept an invitation. */
  readonly invited?: true;
  /** The token of the link in mail that this browser has followed. */
  readonly link?: string;
  /** The request wants a recent or a strong sign-in: a remembered browser is neither. */
  readonly wantsEverything?: true;
  /** The request wants a recent sign-in. */
  readonly wantsRecent?: true;
  /** The account pages want a password or a passkey, which the account has: the word of a provider is not enough. */
  readonly byOwnWay?: true;
  /** The kind of way that somebody has used in this browser: it comes first. */
  readonly prefers?: string;
  /** The providers that the client offers, in the order of the configuration. Default: none. */
  readonly providers?: readonly ShownProvider[];
  /** Those of them, and those with `only`, whose domains count: then the name comes first. Default: none. */
  readonly domains?: readonly DomainProvider[];
  /** The key of the provider that the request names in `provider_hint`, if the client offers it. */
  readonly hinted?: string;
  /** The key of the provider that this browser used last, as the browser sent it: it comes first. */
  readonly lastProvider?: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** The person can be given more time, near the end. */
  readonly extendable?: true;
  /** The client accepts that a provider has asked for a second factor. */
  readonly acceptsProviderMfa?: true;
  /** It leads to the console: for everybody but operators, everything that they show is wrong. */
  readonly operatorsOnly?: true;
  /** How old the sign-in may be, in seconds; 0: the request wants a new one. */
  readonly maxAge?: number;
}

/** The language hints of a sign-in for its pages. */
export function languageOf({ uiLocales, account }: RunningSignIn): LanguageHints {
  return { uiLocales, account: account?.locale ?? undefined };
}
