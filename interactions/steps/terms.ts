/** The step `terms`: new terms of use, before the sign-in of a person who has not accepted them is complete. */
import { callerOf } from "../../provider/exchange.ts";
import { termsField } from "./register.ts";
import { finishSignIn, stillProven } from "./sign-in.ts";
import type { Step } from "./step.ts";

export const terms: Step = {
  isOpen: ({ state }, { registration }) =>
    state.step === "terms" && state.proven !== undefined && registration?.terms !== undefined,
  fields: (_signIn, { registration }) =>
    registration?.terms === undefined ? [] : [termsField(registration.terms.version)],
  actions: () => ["submit", "cancel"],
  alternatives: () => [],
  async submit(entry, services) {
    const { ctx, signIn, values, action } = entry;
    const { accounts, protocol, offers } = services;
    if (action === "cancel") return { kind: "done", location: await protocol.deny(ctx) };
    const { version } = offers.registration?.terms ?? {};
    if (version === undefined || values.get("terms") !== version)
      return { kind: "invalid", problems: [{ code: "terms", fields: ["terms"] }] };
    const { proven } = signIn.state;
    const record = proven && (await stillProven(proven, services));
    if (proven === undefined || record === undefined) return { kind: "next", state: {} };
    await accounts.acceptTerms(record.sub, version, callerOf(ctx, { kind: "account", id: record.sub }));
    return finishSignIn(entry, services, record, proven);
  },
};
