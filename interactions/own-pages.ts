/** For teams that put their own pages on the running sign-ins: their routes, our flow. */
import type { Context } from "koa";
import type { UnitsOfWork } from "../adapters/oidc/unit-of-work.ts";
import type { Deployment } from "../config/configuration.ts";
import { ConditionFailed } from "../lib/errors.ts";
import type {
  Credentials,
  InteractionContext,
  InteractionFlow,
  RunningInteraction,
  SignInOutcome,
} from "./flow.ts";
import { isFromHere } from "./forgery.ts";

/** What came of a form besides the outcomes of a sign-in. */
export type FormOutcome =
  | { readonly kind: "done"; /** Where the browser goes on: answer 303. */ readonly location: string }
  /** The sign-in expired, was finished, or is another browser's: let the person start again. */
  | { readonly kind: "gone" }
  /** The form did not come from your page: another site sent it, or the field `csrf` is not the one of `find`. */
  | { readonly kind: "forged" };

/**
 * The running sign-ins, for routes of your own at `{base}/interaction/<id>` in front of `service.routes()`. Each
 * call takes the Koa context of the request. Faults of the storage reject with `StorageUnavailable`: answer 503.
 */
export interface Interactions {
  /** The sign-in that this browser may go on with; `undefined` when there is none at this address. */
  find(ctx: Context): Promise<RunningInteraction | undefined>;
  /** Tries a name and a password; takes the rate-limit points. `csrf` is what your form sent back. */
  signIn(ctx: Context, form: Credentials & { readonly csrf: string }): Promise<SignInOutcome | FormOutcome>;
  /** The person lets the client have the fields of `find`. */
  allow(ctx: Context, form: { readonly csrf: string }): Promise<FormOutcome>;
  /** The person refuses. */
  deny(ctx: Context, form: { readonly csrf: string }): Promise<FormOutcome>;
}

/** Which running sign-in an address belongs to. */
export interface InteractionPlace {
  readonly deployment: Deployment;
  readonly uid: string;
  /** When the request may have begun, on the clock of `performance`. */
  readonly underWaySince: number;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
}

interface OwnPagesParts {
  readonly flow: InteractionFlow;
  readonly units: UnitsOfWork;
  readonly locate: (ctx: Context) => InteractionPlace | undefined;
}

type Answer<T> = (ctx: InteractionContext, running: RunningInteraction) => Promise<T>;

const done = (location: string): FormOutcome => ({ kind: "done", location });

/** The calls over the same flow that the built-in pages use. */
export function createInteractions({ flow, units, locate }: OwnPagesParts): Interactions {
  /** Finds the sign-in, answers, and commits what the answer wrote: all of it or nothing. */
  async function within<T>(ctx: Context, answer: Answer<T>): Promise<T | undefined> {
    const place = locate(ctx);
    if (place === undefined) return undefined;
    // The host application's state stays its own.
    const own: InteractionContext = Object.create(ctx, {
      state: { value: { deployment: place.deployment, interactionUid: place.uid } },
    });
    return units.run(place, async (unit) => {
      const running = await flow.find(own, place.uid);
      const result = running && (await answer(own, running));
      await unit.commit();
      return result;
    });
  }

  async function submit<T>(ctx: Context, csrf: string, answer: Answer<T>): Promise<T | FormOutcome> {
    const gone = { kind: "gone" } as const;
    try {
      const result = await within<T | FormOutcome>(ctx, async (own, running) =>
        isFromHere(own) && flow.isOwnForm(running, csrf) ? answer(own, running) : { kind: "forged" },
      );
      return result ?? gone;
    } catch (error) {
      if (error instanceof ConditionFailed) return gone;
      throw error;
    }
  }

  return {
    find: (ctx) => within(ctx, async (_own, running) => running),
    signIn: (ctx, { csrf, ...credentials }) =>
      submit(ctx, csrf, (own, running) => flow.signIn(own, running, credentials)),
    allow: (ctx, { csrf }) => submit(ctx, csrf, async (own, running) => done(await flow.allow(own, running))),
    deny: (ctx, { csrf }) => submit(ctx, csrf, async (own, running) => done(await flow.deny(own, running))),
  };
}
