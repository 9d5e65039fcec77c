/**
 * `{base}/providers/<key>/callback`, where people come back from a provider. A GET ends the trip, asks the provider who it is,
 * and goes on with the sign-in or the account page that the trip is for. It shows no page of its own, but for a trip that nobody
 * makes in this browser.
 */
import type { FindSignedIn } from "../provider/account.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import type { ProviderCallback } from "../provider/pages.ts";
import { UpstreamFault } from "../upstream/upstream.ts";
import { LINK_PATH } from "./account/linked-accounts.ts";
import { seeOther } from "./answers.ts";
import { readable } from "./forms.ts";
import { type Reply, send, unreadable } from "./reply.ts";
import type { PageServices } from "./services.ts";
import type { Arrival } from "./steps/provider.ts";
import { languageOf } from "./steps/running-sign-in.ts";
import { callbackPath, type EndedTrip } from "./trips.ts";

/** What an answer that came as a form keeps. */
const KEPT = ["code", "state", "error", "iss"];
const MAX_KEPT_BYTES = 4_096;

/** The context as that of the sign-in, or of none. */
function contextOf(ctx: ServiceContext, uid: string | undefined): ServiceContext {
  const exchange: object = Object.create(ctx.exchange, { uid: { value: uid }, step: { value: undefined } });
  return Object.create(ctx, { exchange: { value: exchange } });
}

/** @param findSignedIn finds the session that something is linked in. */
export function createProviderCallback(
  {
    flow,
    pages,
    units,
    upstream,
    trips,
  }: Pick<PageServices, "flow" | "pages" | "units" | "upstream" | "trips">,
  findSignedIn: FindSignedIn,
): ProviderCallback {
  /** What the provider says, after ten seconds at most. */
  const ask = (ctx: ServiceContext, { trip }: EndedTrip, answer: URLSearchParams): Promise<Arrival> =>
    ctx.exchange.outside(async () => {
      try {
        return await upstream.finish(trip, answer);
      } catch (error) {
        if (error instanceof UpstreamFault) return error;
        throw error;
      }
    });

  async function toSignIn(
    ctx: ServiceContext,
    { uid, trip, arrival }: { readonly uid: string; readonly trip: EndedTrip; readonly arrival: Arrival },
  ): Promise<Reply> {
    const own = contextOf(ctx, uid);
    const answer = await units.run(own.exchange, () =>
      flow.arrive(own, trip, arrival, (signIn) => pages.visit(own, languageOf(signIn)).locale),
    );
    if (answer.kind === "done") return { kind: "leave", location: answer.location };
    if (answer.kind === "limited")
      return { kind: "refused", status: 429, error: "rate_limited", retryAfter: answer.retryAfter };
    // Its page says what comes next, also that the sign-in has ended.
    return { kind: "leave", location: `${ctx.exchange.deployment.path}/interaction/${uid}` };
  }

  /** Whether the trip was begun in the session that this browser has now. */
  async function isInSession(ctx: ServiceContext, { owner }: EndedTrip): Promise<boolean> {
    if (owner.kind !== "account") return true;
    const { secure } = ctx.exchange.deployment;
    const person = await findSignedIn({ req: ctx.req, res: ctx.res, secure });
    return (
      person?.account.sub === owner.sub &&
      person.session === owner.session &&
      person.account.sessions_generation === owner.generation
    );
  }

  async function comeBack(ctx: ServiceContext, answer: URLSearchParams): Promise<Reply> {
    const { uid: provider = "" } = ctx.exchange;
    const trip = await trips.end(ctx, provider, answer.get("state") ?? "");
    if (trip === "elsewhere") return { kind: "gone", ended: { reason: trip } };
    // It has ended, or was never begun: nothing says which.
    if (trip === "gone" || !(await isInSession(ctx, trip)))
      return ctx.req.headers.cookie ? { kind: "gone" } : { kind: "gone", ended: { reason: "no-cookies" } };
    const arrival = await ask(ctx, trip, answer);
    const { owner } = trip;
    if (owner.kind === "sign-in") return toSignIn(ctx, { uid: owner.uid, trip, arrival });
    await trips.keep(
      ctx,
      trip,
      arrival instanceof UpstreamFault ? { fault: arrival.reason } : { identity: arrival },
    );
    return { kind: "leave", location: ctx.exchange.deployment.path + LINK_PATH };
  }

  return {
    show: async (ctx, answer) => send(contextOf(ctx, undefined), pages, await comeBack(ctx, answer)),
    async submit(ctx) {
      const { uid = "", deployment } = ctx.exchange;
      const form = await readable(() => ctx.exchange.form());
      const kept = KEPT.flatMap((name) => {
        const value = form?.get(name);
        return value === undefined ? [] : [[name, value] as [string, string]];
      });
      const size = kept.reduce((sum, [, value]) => sum + Buffer.byteLength(value), 0);
      if (form === undefined || size > MAX_KEPT_BYTES) return send(ctx, pages, unreadable(ctx));
      // Another site has sent it, so the browser has left its cookies out.
      const query = new URLSearchParams(kept);
      seeOther(ctx, `${deployment.path}${callbackPath(uid)}?${query}`);
    },
  };
}
