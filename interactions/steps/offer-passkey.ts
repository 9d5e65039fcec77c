/**
 * The step `offer-passkey`: after a password, a person whose device can create a passkey is asked to add one. The account
 * remembers the time before the page is shown, so nobody is asked again at the next sign-in on any device, and only one of
 * two sign-ins at once asks. Going on without a passkey repeats every check, because the client may require a second factor
 * by now.
 */
import { callerOf } from "../../provider/exchange.ts";
import { addFactor, isAt, proceed, startOver, stillProven } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const offerPasskey: Step = {
  isOpen: (signIn) => isAt(signIn, "offer-passkey"),
  fields: () => [],
  actions: () => ["submit", "later", "never"],
  alternatives: () => [],
  async submit(entry, services) {
    const { ctx, signIn, action } = entry;
    const { proven } = signIn.state;
    if (proven === undefined) return { kind: "gone" };
    const record = await stillProven(proven, services);
    if (record === undefined) return { kind: "next", state: startOver(signIn.state) };
    if (action === "submit") return addFactor(entry, services, record, proven);
    if (action === "never")
      await services.accounts.declinePasskeyOffer(
        record.sub,
        callerOf(ctx, { kind: "account", id: record.sub }),
      );
    return proceed(entry, services, record, proven);
  },
};
