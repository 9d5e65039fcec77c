/** What the pages need from the protocol side: the only thing that the handlers know of OAuth. */
import type { ParameterizedContext } from "koa";
import type { Deployment } from "../config/configuration.ts";

/** What must be in `ctx.state` before a handler runs. */
export interface InteractionState {
  /** The deployment that the browser came to. */
  deployment: Deployment;
  /** The `<id>` of `{base}/interaction/<id>`, taken from the path. */
  interactionUid: string;
}

/** A Koa context on its way through the pages. */
export type InteractionContext = ParameterizedContext<InteractionState>;

/** A sign-in that waits for the person in front of this browser. */
export interface RunningInteraction {
  readonly uid: string;
  /** What is asked: who the person is, or whether a third-party client may read the account. */
  readonly prompt: "login" | "consent";
  readonly client: {
    readonly client_id: string;
    /** What people call the client. */
    readonly name: string;
    /** True for the internal client of the account pages; not there else. */
    readonly own?: true;
  };
  /** `login_hint` of the request: fills in the first field. */
  readonly loginHint?: string;
  /** `ui_locales` of the request: language tags with spaces between them, the best first. */
  readonly uiLocales?: string;
  /** Consent only: what the person who is signed in is called, such as the e-mail address. */
  readonly account?: string;
  /** Value of the hidden field `csrf`: bound to this interaction, not to be guessed, never empty. */
  readonly csrf: string;
  /** Path of `{base}/interaction/<id>` as the browser sees it, prefix included. */
  readonly action: string;
  /**
   * Consent only: exactly the fields that the client would get, by the names of the documented profile
   * (`sub`, `email`, `name`, `surname`, `date_of_birth`, `gender`) or of a standard claim.
   */
  readonly fields: readonly string[];
}

/** What the person typed, as it came; neither is empty. */
export interface Credentials {
  /** The username or the e-mail address. */
  readonly username: string;
  readonly password: string;
}

/** How a try to sign in ended. An unknown user and a wrong password are both `wrong`, after the same time. */
export type SignInOutcome =
  | { readonly kind: "done"; /** Where the browser goes on. */ readonly location: string }
  | { readonly kind: "wrong" }
  | { readonly kind: "limited"; /** Seconds until the next try can succeed. */ readonly retryAfter: number };

/**
 * The running sign-ins. Faults of a store reject with `StorageUnavailable` and are the edge's to answer;
 * `ConditionFailed` says that somebody else finished the interaction meanwhile and gives the page "start again".
 */
export interface InteractionFlow {
  /**
   * The interaction that this browser may go on with.
   * @returns `undefined` when it expired, was finished, or belongs to another browser or another id.
   */
  find(ctx: InteractionContext, uid: string): Promise<RunningInteraction | undefined>;
  /** Whether this came in the hidden field `csrf` of a form of this interaction; also of one that an earlier key signed. */
  isOwnForm(running: RunningInteraction, csrf: string): boolean;
  /** Takes the rate-limit points, checks the password and, when it is right, writes the result. */
  signIn(
    ctx: InteractionContext,
    running: RunningInteraction,
    credentials: Credentials,
  ): Promise<SignInOutcome>;
  /** The person lets the client have the fields. @returns where the browser goes on. */
  allow(ctx: InteractionContext, running: RunningInteraction): Promise<string>;
  /** The person refuses: the client is told `access_denied`. @returns where the browser goes on. */
  deny(ctx: InteractionContext, running: RunningInteraction): Promise<string>;
}
