/** A running sign-in: what the pages know of it, and the calls that a team makes from pages of its own. */
import type { Context, ParameterizedContext } from "koa";
import type { UnitRequest, UnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import type { Deployment } from "../config/configuration.ts";
import { ConditionFailed } from "../lib/errors.ts";
import { isFromHere } from "./forms.ts";

/** What `ctx.state` must contain before a handler runs. */
export interface InteractionState {
  /** The deployment that the browser is on. */
  deployment: Deployment;
  /** The `<id>` in the path `{base}/interaction/<id>`. */
  interactionUid: string;
}

/** A Koa context for the handlers. */
export type InteractionContext = ParameterizedContext<InteractionState>;

/** A sign-in that waits for the person at this browser. */
export interface RunningInteraction {
  readonly uid: string;
  /** The question to the person: who they are, or whether a third-party client may read the account. */
  readonly prompt: "login" | "consent";
  readonly client: {
    readonly client_id: string;
    /** The display name of the client. */
    readonly name: string;
    /** Set for the internal client of the account pages. */
    readonly own?: true;
  };
  /** `login_hint` of the request; pre-fills the first field. */
  readonly loginHint?: string;
  /** `ui_locales` of the request: language tags, separated by spaces, in order of preference. */
  readonly uiLocales?: string;
  /** Consent only: the display name of the account, such as the e-mail address. */
  readonly account?: string;
  /** Value of the hidden field `csrf`: bound to this interaction, unguessable, never empty. */
  readonly csrf: string;
  /** Path of `{base}/interaction/<id>` as the browser sees it, including the prefix. */
  readonly action: string;
  /**
   * Consent only: exactly the fields that the client would get, by their names in the documented profile (`sub`, `email`,
   * `name`, `surname`, `date_of_birth`, `gender`) or by the name of a standard claim.
   */
  readonly fields: readonly string[];
}

/** What the person typed, unchanged; neither is empty. */
export interface Credentials {
  /** The username or the e-mail address. */
  readonly username: string;
  readonly password: string;
}

/** How an attempt to sign in ended. An unknown user and a wrong password are both `wrong`, and take the same time. */
export type SignInOutcome =
  | { readonly kind: "done"; /** Where to redirect the browser. */ readonly location: string }
  | { readonly kind: "wrong" }
  | {
      readonly kind: "limited";
      /** Seconds until the next attempt can succeed. */ readonly retryAfter: number;
    };

/**
 * The running sign-ins. Storage faults reject with `StorageUnavailable`, which the endpoint answers. `ConditionFailed`
 * means that another request finished the interaction first; it leads to the "start again" page.
 */
export interface InteractionFlow {
  /**
   * The interaction that this browser may continue.
   * @returns `undefined` if it expired, was finished, or belongs to another browser or another id.
   */
  find(ctx: InteractionContext, uid: string): Promise<RunningInteraction | undefined>;
  /** Whether this is the hidden field `csrf` of a form of this interaction. Fields signed by earlier keys count. */
  isOwnForm(running: RunningInteraction, csrf: string): boolean;
  /** Takes the rate-limit points, checks the password and, if it is right, stores the result. */
  signIn(
    ctx: InteractionContext,
    running: RunningInteraction,
    credentials: Credentials,
  ): Promise<SignInOutcome>;
  /** The person gives the client the fields. @returns where to redirect the browser. */
  allow(ctx: InteractionContext, running: RunningInteraction): Promise<string>;
  /** The person refuses; the client gets `access_denied`. @returns where to redirect the browser. */
  deny(ctx: InteractionContext, running: RunningInteraction): Promise<string>;
}

/** The outcomes of a form, besides those of a sign-in. */
export type FormOutcome =
  | { readonly kind: "done"; /** Where to redirect the browser, with a 303. */ readonly location: string }
  /** The sign-in expired, was finished, or belongs to another browser. Let the person start again. */
  | { readonly kind: "gone" }
  /** The form is not from your page: another site sent it, or its field `csrf` is not the one from `find`. */
  | { readonly kind: "forged" };

/**
 * The running sign-ins, for routes of your own at `{base}/interaction/<id>` in front of `service.routes()`. Each call takes
 * the Koa context of the request. Storage faults reject with `StorageUnavailable`; answer them with a 503.
 */
export interface Interactions {
  /** The sign-in that this browser may continue; `undefined` if there is none at this address. */
  find(ctx: Context): Promise<RunningInteraction | undefined>;
  /** Tries a username and a password, and takes the rate-limit points. `csrf` is the field that your form sent back. */
  signIn(ctx: Context, form: Credentials & { readonly csrf: string }): Promise<SignInOutcome | FormOutcome>;
  /** The person gives the client the fields that `find` listed. */
  allow(ctx: Context, form: { readonly csrf: string }): Promise<FormOutcome>;
  /** The person refuses. */
  deny(ctx: Context, form: { readonly csrf: string }): Promise<FormOutcome>;
}

/** The running sign-in that a request is for. */
export interface InteractionRequest extends UnitRequest {
  readonly deployment: Deployment;
  readonly uid: string;
}

type Answer<T> = (ctx: InteractionContext, running: RunningInteraction) => Promise<T>;

const done = (location: string): FormOutcome => ({ kind: "done", location });

/**
 * The calls, over the flow that the built-in pages use.
 * @param locate finds the sign-in that a request is for.
 */
export function createInteractions(
  flow: InteractionFlow,
  units: UnitsOfWork,
  locate: (ctx: Context) => InteractionRequest | undefined,
): Interactions {
  /** Finds the sign-in and commits everything that the answer writes, or nothing. */
  async function withRunning<T>(ctx: Context, answer: Answer<T>): Promise<T | undefined> {
    const request = locate(ctx);
    if (request === undefined) return undefined;
    // A context of its own leaves the host application's `ctx.state` alone.
    const own: InteractionContext = Object.create(ctx, {
      state: { value: { deployment: request.deployment, interactionUid: request.uid } },
    });
    return units.run(request, async (unit) => {
      const running = await flow.find(own, request.uid);
      const result = running && (await answer(own, running));
      await unit.commit();
      return result;
    });
  }

  async function submit<T>(ctx: Context, csrf: string, answer: Answer<T>): Promise<T | FormOutcome> {
    const gone = { kind: "gone" } as const;
    try {
      const result = await withRunning<T | FormOutcome>(ctx, async (own, running) =>
        isFromHere(own) && flow.isOwnForm(running, csrf) ? answer(own, running) : { kind: "forged" },
      );
      return result ?? gone;
    } catch (error) {
      if (error instanceof ConditionFailed) return gone;
      throw error;
    }
  }

  return {
    find: (ctx) => withRunning(ctx, async (_own, running) => running),
    signIn: (ctx, { csrf, ...credentials }) =>
      submit(ctx, csrf, (own, running) => flow.signIn(own, running, credentials)),
    allow: (ctx, { csrf }) => submit(ctx, csrf, async (own, running) => done(await flow.allow(own, running))),
    deny: (ctx, { csrf }) => submit(ctx, csrf, async (own, running) => done(await flow.deny(own, running))),
  };
}
