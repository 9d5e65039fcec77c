/** The step `confirm-email`: the code from the mail of a registration, or its link, in the browser that registered. */
import { trimmed } from "../../accounts/names.ts";
import type { Registrations, RegistrationConfirmed } from "../../accounts/people/registrations.ts";
import { seconds } from "../../core/clock.ts";
import { kindsOf } from "../../accounts/ways/ways.ts";
import { AMR_EMAIL, AMR_PASSWORD } from "../../provider/authentication.ts";
import { again, codeField, expired, wrongCode } from "./mailed-code.ts";
import { signInAs, signInKnown } from "./provider.ts";
import { finishSignIn } from "./sign-in.ts";
import type { SignInState } from "./running-sign-in.ts";
import { askedAt, type Entry, type Field, type Outcome, type Step, type StepServices } from "./step.ts";

export const confirmEmail: Step = {
  isOpen: ({ prompt, state }, { registration }) =>
    prompt !== "consent" && registration !== undefined && state.step === "confirm-email",
  fields({ state, link }, { registration }): readonly Field[] {
    if (state.usernameTaken) {
      const asked = registration?.fields.find(({ name }) => name === "username");
      const required = asked?.registration === "required";
      return [{ name: "username", type: "text", autocomplete: "username", required }];
    }
    return link === undefined ? [codeField] : [];
  },
  actions: ({ state, link }) =>
    state.usernameTaken || link !== undefined ? ["submit"] : ["submit", "resend"],
  alternatives: ({ state }) => [stepToRegister(state), "login"],
  async submit(entry, services) {
    const { registrations } = services.people;
    if (registrations === undefined) return { kind: "gone" };
    return entry.action === "resend"
      ? resend(entry, services, registrations)
      : confirm(entry, services, registrations);
  },
};

async function resend(entry: Entry, services: StepServices, registrations: Registrations): Promise<Outcome> {
  const { signIn } = entry;
  const result = await registrations.resend(signIn.uid, askedAt(entry, services));
  if (result.kind === "limited") return result;
  if (result.kind === "gone") return registerAgain(signIn.state);
  return { kind: "next", state: { ...signIn.state, notice: "sent" } };
}

async function confirm(entry: Entry, services: StepServices, registrations: Registrations): Promise<Outcome> {
  const { ctx, signIn, values } = entry;
  const { uid, state, link } = signIn;
  const at = askedAt(entry, services);
  if (link !== undefined) services.links.clear(ctx);
  if (state.usernameTaken) {
    const username = trimmed(values.get("username") ?? "");
    const renamed = await registrations.rename(uid, username === "" ? null : username, at);
    if (renamed.kind === "limited") return renamed;
    if (renamed.kind === "invalid")
      return { kind: "invalid", problems: [{ code: renamed.problem, fields: ["username"] }] };
    if (renamed.kind === "username-taken")
      return { kind: "invalid", problems: [{ code: "taken", fields: ["username"] }] };
    return settled(entry, services, renamed);
  }
  const proof = link === undefined ? { code: values.get("code") ?? "" } : { link };
  const confirmed = await registrations.confirm(uid, proof, at);
  return confirmed.kind === "limited" ? confirmed : settled(entry, services, confirmed);
}

async function settled(
  entry: Entry,
  services: StepServices,
  result: RegistrationConfirmed,
): Promise<Outcome> {
  const { state } = entry.signIn;
  const { clock } = services.configuration;
  if (result.kind === "created" && result.identity !== undefined)
    return signInAs(
      entry,
      services,
      result.record,
      { startedAt: state.upstream?.leftAt ?? clock.now() },
      result.identity,
    );
  if (result.kind === "identity-known")
    return state.upstream === undefined ? registerAgain(state) : signInKnown(entry, services, state.upstream);
  if (result.kind === "created")
    return finishSignIn(entry, services, result.record, {
      at: seconds(clock),
      amr: kindsOf(result.record).includes("password") ? AMR_PASSWORD : AMR_EMAIL,
    });
  if (result.kind === "passkey-needed") return atPasskey(entry, services, result.owner);
  if (result.kind === "username-taken") return { kind: "next", state: usernameTaken(state) };
  if (result.kind === "wrong") return { kind: "invalid", problems: [wrongCode(result.triesLeft)] };
  // Another link than that of this registration: its code still works.
  if (entry.signIn.link !== undefined) return { kind: "next", state: { ...state, notice: "link-expired" } };
  return registerAgain(state);
}

/**
 * Somebody who registers without a password creates a passkey, and the account with it. Where codes by mail sign in, the account
 * does without.
 */
async function atPasskey(
  entry: Entry,
  services: StepServices,
  owner: Extract<RegistrationConfirmed, { readonly kind: "passkey-needed" }>["owner"],
): Promise<Outcome> {
  const { enrolment: before } = entry.signIn.state;
  const earlier = before?.as === null ? before : undefined;
  const enrolment = await services.secondFactors.enrolments?.beginNewAccount(owner, earlier);
  if (enrolment === undefined)
    return services.offers.emailCode ? withAddressAlone(entry, services) : { kind: "gone" };
  const { email } = owner;
  return { kind: "next", state: { step: "enrol", email, enrolment } };
}

/** Makes the account of somebody who has confirmed the address and wants no passkey now. */
export async function withAddressAlone(entry: Entry, services: StepServices): Promise<Outcome> {
  const { registrations } = services.people;
  const made = await registrations?.complete(entry.signIn.uid, null, askedAt(entry, services));
  if (made === undefined || made.kind === "passkey-taken") return again("register");
  return made.kind === "limited" ? made : settled(entry, services, made);
}

/**
 * The enrolment of a passkey whose account was not created: the next passkey has the same user handle, and replaces it.
 */
export function keptEnrolment({ enrolment, proven }: SignInState): Pick<SignInState, "enrolment"> {
  return enrolment === undefined || proven !== undefined ? {} : { enrolment };
}

/** The step of somebody who came back from a provider has no password. */
const stepToRegister = ({ upstream }: SignInState): "register" | "provider-register" =>
  upstream === undefined ? "register" : "provider-register";

/** Nothing waits for this code or link any more: the person registers again. */
const registerAgain = ({ upstream }: SignInState): Outcome =>
  upstream === undefined
    ? again("register")
    : { kind: "next", state: { upstream, ...expired("provider-register") } };

/** The person chooses another username. */
export function usernameTaken(state: SignInState): SignInState {
  const { email, upstream } = state;
  return {
    ...keptEnrolment(state),
    step: "confirm-email",
    ...(upstream && { upstream }),
    ...(email !== undefined && { email }),
    usernameTaken: true,
    notice: "username-taken",
  };
}
