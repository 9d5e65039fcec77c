/**
 * The step `provider-fresh`: the request wants a recent sign-in, and the provider does not prove one. It may have ignored that it
 * was asked, and its session outlives ours. The person shows what the account has of its own.
 */
import { seconds } from "../../core/clock.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { checkPassword, isAt, isExpired, proceed, provenOf, stillProven } from "./sign-in.ts";
import type { Entry, Outcome, Proven, Step, StepServices } from "./step.ts";

/** What the person has to show besides the provider. An account with a second factor is asked for that instead. */
export async function proveFresh(
  { ctx }: Entry,
  { protocol, configuration }: StepServices,
  record: AccountRecord,
  { at, amr, signedInAt, provider }: Pick<Proven, "at" | "amr" | "signedInAt" | "provider">,
): Promise<Outcome> {
  const proven = {
    ...provenOf(record, at, amr),
    ...(signedInAt !== undefined && { signedInAt }),
    ...(provider !== undefined && { provider }),
  };
  // Where the provider is the only way in, a password is none.
  if (proven.ways.includes("password") && onlyProvider(configuration, record) === undefined)
    return { kind: "next", state: { step: "provider-fresh", proven } };
  return { kind: "done", location: await protocol.refuse(ctx, "login_required", NOT_RECENT) };
}

const NOT_RECENT = "the person did not show a recent sign-in";

export const providerFresh: Step = {
  isOpen: (signIn) => isAt(signIn, "provider-fresh"),
  fields: () => [{ name: "password", type: "password", autocomplete: "current-password", required: true }],
  actions: () => ["submit", "cancel"],
  alternatives: () => ["login"],
  async submit(entry, services) {
    const { ctx, signIn, values, action } = entry;
    if (action === "cancel")
      return { kind: "done", location: await services.protocol.refuse(ctx, "login_required", NOT_RECENT) };
    const { proven } = signIn.state;
    const { clock } = services.configuration;
    const record = proven && !isExpired(proven, clock) ? await stillProven(proven, services) : undefined;
    if (proven === undefined || record === undefined)
      return { kind: "next", state: { notice: "begin-anew" } };
    const credentials = {
      username: record.email,
      password: values.get("password") ?? "",
      fields: ["password"],
    };
    return checkPassword(entry, services, credentials, async (checked) => {
      // The address may have another account by now.
      if (checked.sub !== record.sub) return { kind: "next", state: { notice: "begin-anew" } };
      // It was still by the provider that the person came in.
      return proceed(entry, services, checked, {
        at: seconds(clock),
        amr: proven.amr,
        ...(proven.provider !== undefined && { provider: proven.provider }),
      });
    });
  },
};
