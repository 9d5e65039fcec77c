/** What a step of a running sign-in is: its fields, its actions, and what submitting it does. */
import type { ParameterizedContext } from "koa";
import type { UnitsOfWork } from "../../adapters/oidc/unit-of-work.ts";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import type { Actor, Caller } from "../../lib/audit/audit-event.ts";
import type { AuditCollector } from "../../lib/audit/collector.ts";
import { originOf } from "../../lib/audit/origin.ts";
import type { AccountRecord } from "../../lib/directory/directory.ts";
import type { AccountInternals } from "../../lib/domain/account.ts";
import type { ServiceEmitter } from "../../lib/events.ts";
import type { AttemptLimits } from "../../lib/provider/attempt-limits.ts";
import type { Guessing } from "../../lib/provider/guessing.ts";
import type { NewBrowsers } from "../../lib/provider/new-browsers.ts";
import type { DeviceCookies } from "../device-cookie.ts";

/** The steps that a person can be at. */
export const STEP_NAMES = ["login", "consent"] as const;
export type StepName = (typeof STEP_NAMES)[number];

/** What `ctx.state` must contain. */
export interface InteractionState {
  /** The deployment that the browser is on. */
  readonly deployment: Deployment;
  /** The `<id>` in the path `{base}/interaction/<id>`. */
  readonly interactionUid: string;
  /** The step in the path `{base}/interaction/<id>/<step>`. */
  readonly interactionStep?: string | undefined;
}

/** A Koa context of a running sign-in. */
export type InteractionContext = ParameterizedContext<InteractionState>;

/** The client that the person signs in to. */
export interface SignInClient {
  readonly client_id: string;
  /** The display name. */
  readonly name: string;
  /** Set for the internal client of the account pages. */
  readonly own?: true;
}

/** A sign-in that waits for the person at this browser. */
export interface RunningSignIn {
  readonly uid: string;
  /** The question of the protocol: who the person is, or whether a third-party client may read the account. */
  readonly prompt: "login" | "consent";
  readonly client: SignInClient;
  /** Path of `{base}/interaction/<id>` as the browser sees it. */
  readonly path: string;
  /** Bound to this sign-in, unguessable, never empty. */
  readonly csrf: string;
  /** `login_hint` of the request. */
  readonly loginHint?: string;
  /** `ui_locales` of the request: language tags, separated by spaces, in order of preference. */
  readonly uiLocales?: string;
  /** Who is signed in. Consent only. */
  readonly account?: Pick<AccountRecord, "sub" | "email">;
  /**
   * Consent only: exactly the fields that the client would get, by their names in the documented profile (`sub`, `email`,
   * `name`, `surname`, `date_of_birth`, `gender`) or by the name of a standard claim.
   */
  readonly shares: readonly string[];
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** A field of a step. */
export interface Field {
  readonly name: string;
  readonly type: "text" | "password";
  /** A token of the HTML attribute `autocomplete`. */
  readonly autocomplete: string;
  readonly required: boolean;
  /** What the field contains at first. Never a secret. */
  readonly value?: string;
}

/** Something that is wrong with what the person entered. Its text is `problem.<code>`. */
export interface Problem {
  readonly code: string;
  /** The names of the fields that it is about. */
  readonly fields: readonly string[];
  /** For the placeholders of the text. */
  readonly values?: Readonly<Record<string, number | string>>;
}

/** The step that a person is at. */
export interface PresentStep {
  readonly name: StepName;
  readonly signIn: RunningSignIn;
  /** Where it is submitted: the path of the sign-in, or for a step that it does not begin with, one below. */
  readonly path: string;
  /** With what the person entered before, except for secrets. */
  readonly fields: readonly Field[];
  readonly actions: readonly string[];
  /** Empty when the step is first shown. */
  readonly problems: readonly Problem[];
  /** Seconds until the sign-in expires. */
  readonly expiresIn: number;
}

/** What the person entered, by the name of the field. */
export type Values = ReadonlyMap<string, string>;

/** How submitting a step ended. */
export type Outcome =
  /** Where to redirect the browser. */
  | { readonly kind: "done"; readonly location: string }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] }
  /** Seconds until the next attempt can succeed. */
  | { readonly kind: "limited"; readonly retryAfter: number }
  /** The sign-in expired, was finished, or belongs to another browser. */
  | { readonly kind: "gone" };

/** A submitted step. */
export interface Entry {
  readonly ctx: InteractionContext;
  readonly signIn: RunningSignIn;
  /** Every required field has a value. */
  readonly values: Values;
  /** One of the step's actions. */
  readonly action: string;
}

/** A step. It knows nothing of HTML, JSON and the protocol. */
export interface Step {
  /** Whether the person may be at this step now. */
  readonly isOpen: (signIn: RunningSignIn) => boolean;
  readonly fields: (signIn: RunningSignIn) => readonly Field[];
  /** What can be submitted: `submit` for the fields, or a choice. */
  readonly actions: readonly string[];
  readonly submit: (entry: Entry, services: StepServices) => Promise<Outcome>;
}

/** What the steps need of the service. */
export interface StepServices {
  readonly units: UnitsOfWork;
  readonly configuration: Pick<Configuration, "clock">;
  readonly accounts: AccountInternals;
  readonly limits: Pick<AttemptLimits, "signIn">;
  readonly guessing: Guessing;
  readonly newBrowsers: NewBrowsers;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly devices: DeviceCookies;
  readonly protocol: SignInProtocol;
  /** The caller's IP address, as far as proxies are trusted. */
  readonly addressOf: (ctx: InteractionContext) => string;
}

/** The running sign-ins of oidc-provider. */
export interface SignInProtocol {
  /**
   * The sign-in that this browser may continue.
   * @returns `undefined` if it expired, was finished, or belongs to another browser or another id.
   */
  find(ctx: InteractionContext, uid: string): Promise<RunningSignIn | undefined>;
  /** Whether this is the hidden field `csrf` of a form of this sign-in. Fields signed by earlier keys count. */
  isOwnForm(signIn: Pick<RunningSignIn, "uid">, csrf: string): boolean;
  /** The person is this account. @returns where to redirect the browser. */
  signedIn(ctx: InteractionContext, account: AccountRecord): Promise<string>;
  /** What the client asks for; the account of the session remembers it. @throws ConditionFailed if the session has ended. */
  allow(ctx: InteractionContext, callerOf: (actor: Actor) => Caller): Promise<string>;
  /** The client gets `access_denied`. */
  deny(ctx: InteractionContext): Promise<string>;
}

/** The caller as the audit log records it. */
export function callerOf(
  { addressOf }: Pick<StepServices, "addressOf">,
  ctx: InteractionContext,
  actor: Actor,
): Caller {
  return { actor, ...originOf(addressOf(ctx), ctx.req.headers["user-agent"]) };
}

/** Whole minutes, rounded up: an attempt after them can succeed. */
export function minutes(seconds: number): number {
  return Math.max(1, Math.ceil(seconds / 60));
}
