/**
 * The step `provider-fresh`: the request wants a recent sign-in, and the provider does not prove one. It may have ignored that it
 * was asked, and its session outlives ours. The person shows what the account has of its own: the password, or for an account
 * without one a code sent to its confirmed address. One with a second factor is asked for that instead.
 */
import { onlyProvider } from "../../accounts/providers.ts";
import { WAYS } from "../../accounts/ways/ways.ts";
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { codeField } from "./mailed-code.ts";
import { proveByCode } from "./email-code.ts";
import { checkPassword, isAt, isExpired, proceed, provenOf, stillProven } from "./sign-in.ts";
import type { Proven } from "./running-sign-in.ts";
import { askedAt, type Entry, type Outcome, type Step, type StepServices } from "./step.ts";

/** What the person has to show besides the provider. */
export async function proveFresh(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  { at, amr, signedInAt, provider }: Pick<Proven, "at" | "amr" | "signedInAt" | "provider">,
): Promise<Outcome> {
  const proven = {
    ...provenOf(record, at, amr),
    ...(signedInAt !== undefined && { signedInAt }),
    ...(provider !== undefined && { provider }),
  };
  // Where the provider is the only way in, neither a password nor a mailbox counts.
  if (onlyProvider(services.configuration, record) !== undefined) return giveUp(entry, services);
  if (proven.ways.includes(WAYS.password.kind))
    return { kind: "next", state: { step: "provider-fresh", proven } };
  return sendCode(entry, services, record, proven);
}

async function sendCode(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
  notice?: string,
): Promise<Outcome> {
  const { ctx, signIn } = entry;
  const { freshCodes } = services.people;
  if (freshCodes === undefined) return giveUp(entry, services);
  const at = { ...askedAt(entry, services), userAgent: ctx.req.headers["user-agent"] };
  const sent = await freshCodes.start(signIn.uid, record.email, true, at);
  if (sent.kind === "limited") return sent;
  const state = { step: "provider-fresh", proven, mailed: true } as const;
  return { kind: "next", state: { ...state, ...(notice !== undefined && { notice }) } };
}

/** The client learns that nobody has signed in as recently as it wants. */
async function giveUp({ ctx }: Entry, { protocol }: StepServices): Promise<Outcome> {
  const description = "the person did not show a recent sign-in";
  return { kind: "done", location: await protocol.refuse(ctx, "login_required", description) };
}

export const providerFresh: Step = {
  isOpen: (signIn) => isAt(signIn, "provider-fresh"),
  fields: ({ state }) => [
    state.mailed === true
      ? codeField
      : { name: "password", type: "password", autocomplete: "current-password", required: true },
  ],
  actions: ({ state }) => ["submit", ...(state.mailed === true ? ["resend"] : []), "cancel"],
  alternatives: () => ["login"],
  async submit(entry, services) {
    const { signIn, values, action } = entry;
    if (action === "cancel") return giveUp(entry, services);
    const { proven, mailed } = signIn.state;
    const { clock } = services.configuration;
    const record = proven && !isExpired(proven, clock) ? await stillProven(proven, services) : undefined;
    if (proven === undefined || record === undefined)
      return { kind: "next", state: { notice: "begin-anew" } };
    if (action === "resend") return sendCode(entry, services, record, proven, "code-sent");
    /** The address may have another account by now. It was still by the provider that the person came in. */
    const then = async (shown: AccountRecord): Promise<Outcome> =>
      shown.sub === record.sub
        ? proceed(entry, services, shown, {
            at: seconds(clock),
            amr: proven.amr,
            ...(proven.provider !== undefined && { provider: proven.provider }),
          })
        : { kind: "next", state: { notice: "begin-anew" } };
    const { freshCodes } = services.people;
    if (mailed === true && freshCodes !== undefined)
      return proveByCode(entry, services, freshCodes, record.email, then);
    const password = values.get("password") ?? "";
    return checkPassword(entry, services, { username: record.email, password, fields: ["password"] }, then);
  },
};
