/**
 * The steps that add a factor in a sign-in whose client needs one, whose person was offered a passkey, or whose
 * person registers without a password: `enrol-confirm`, a code from the mailbox; `enrol`, an authenticator app or a
 * passkey, tried before it counts; `recovery-codes`, which the person has to keep. Nobody is signed in before the last
 * one is complete, unless they were only offered one and decline. If something is lost in between, the person begins with
 * the password again.
 *
 * If the account has changed meanwhile, nothing is stored. The change may come from this very sign-in, in a concurrent
 * request.
 */
import type { Enrolment, Enrolments, NewAccountEnrolment } from "../../accounts/factors/enrolment.ts";
import { hasSecondFactor } from "../../accounts/factors/factor.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { ACR_MFA, amrOfPasskey, satisfies } from "../../provider/authentication.ts";
import { keptEnrolment, usernameTaken, withAddressAlone } from "./confirm-email.ts";
import { again, codeField, expired, wrongCode } from "./mailed-code.ts";
import { notAccepted } from "./invitation.ts";
import { NEW_FACTORS, nameProblem, PASSKEY_REFUSED } from "./new-factor.ts";
import { parsed } from "./passkey-sign-in.ts";
import { atEnrol, CHANGED, isAt, isExpired, proceed, provenOf, startOver, stillProven } from "./sign-in.ts";
import type { Proven, RunningSignIn, SignInState } from "./running-sign-in.ts";
import { askedAt, type Entry, type Outcome, type Step, type StepServices } from "./step.ts";

/** A person who was only offered a passkey can decline on each page. */
const withLater = ({ state }: RunningSignIn, actions: readonly string[]): readonly string[] =>
  state.proven?.offered ? [...actions, "later"] : actions;

/** The state without a step that has expired; `undefined` if it has not. */
const dropped = async (
  { state }: RunningSignIn,
  hasExpired: (clock: Clock) => boolean,
  { configuration }: Pick<StepServices, "configuration">,
): Promise<SignInState | undefined> => {
  if (!hasExpired(configuration.clock)) return undefined;
  if (state.proven !== undefined) return startOver(state);
  return { ...begunWith(state), ...keptEnrolment(state) };
};

/** The step that somebody without an account began with, which has expired. */
const begunWith = ({ invitation }: SignInState): SignInState =>
  invitation === undefined ? expired("register") : { step: "invitation", invitation, notice: "expired" };

export const enrolConfirm: Step = {
  isOpen: (signIn) => isAt(signIn, "enrol-confirm"),
  fields: () => [codeField],
  actions: (signIn) => withLater(signIn, ["submit", "resend"]),
  alternatives: () => ["login"],
  prepare: (signIn, services) =>
    dropped(
      signIn,
      (clock) => signIn.state.proven === undefined || isExpired(signIn.state.proven, clock),
      services,
    ),
  async submit(entry, services) {
    const { proven } = entry.signIn.state;
    const { enrolments } = services.secondFactors;
    if (proven === undefined || enrolments === undefined) return { kind: "gone" };
    const record = await stillProven(proven, services);
    if (record !== undefined && entry.action === "later") return proceed(entry, services, record, proven);
    if (isExpired(proven, services.configuration.clock))
      return { kind: "next", state: startOver(entry.signIn.state) };
    if (record === undefined || hasSecondFactor(record)) return CHANGED;
    return entry.action === "resend"
      ? resend(entry, services, enrolments, proven)
      : confirm(entry, services, enrolments, proven);
  },
};

async function resend(
  entry: Entry,
  services: StepServices,
  enrolments: Enrolments,
  { sub }: Proven,
): Promise<Outcome> {
  const { uid, state } = entry.signIn;
  const sent = await enrolments.sendCode(sub, uid, askedAt(entry, services));
  if (sent.kind === "limited") return sent;
  if (sent.kind === "gone") return CHANGED;
  return { kind: "next", state: { ...state, email: sent.to, notice: "sent" } };
}

async function confirm(
  entry: Entry,
  services: StepServices,
  enrolments: Enrolments,
  proven: Proven,
): Promise<Outcome> {
  const { signIn, values } = entry;
  const { sub } = proven;
  const begun = await enrolments.begin(sub, signIn.uid, values.get("code") ?? "", askedAt(entry, services));
  if (begun.kind === "wrong") return { kind: "invalid", problems: [wrongCode(begun.triesLeft)] };
  if (begun.kind !== "begun") return { kind: "invalid", problems: [{ code: "no-tries", fields: ["code"] }] };
  const { enrolment } = begun;
  if (enrolment.as.sessions_generation !== proven.generation) return CHANGED;
  return atEnrol(proven, enrolment);
}

type Offered = Partial<Pick<Enrolment | NewAccountEnrolment, "app" | "passkey">>;

/** The factors of the enrolment that are enough for the client, or that the person was offered. */
export function offeredFactors({
  demandedAcr = ACR_MFA,
  state,
}: RunningSignIn): Pick<Enrolment, "app" | "passkey"> {
  const { app = null, passkey = null }: Offered = state.enrolment ?? {};
  const isEnough = satisfies(ACR_MFA, demandedAcr) && !state.proven?.offered;
  return { app: isEnough ? app : null, passkey };
}

export const enrol: Step = {
  // A person who registers has proven only the address: there is no account yet.
  isOpen: ({ prompt, state }) =>
    prompt !== "consent" && state.step === "enrol" && state.enrolment !== undefined,
  fields(signIn) {
    const { app, passkey } = offeredFactors(signIn);
    return [
      ...(app === null ? [] : [NEW_FACTORS.app.field]),
      ...(passkey === null ? [] : [NEW_FACTORS.passkey.field]),
    ];
  },
  actions(signIn, { emailCode }) {
    const { app, passkey } = offeredFactors(signIn);
    // A code by mail signs in to an account that has nothing else.
    const { proven, invitation } = signIn.state;
    if (proven === undefined && invitation === undefined && emailCode) return ["passkey", "later"];
    return withLater(signIn, [...(app === null ? [] : ["app"]), ...(passkey === null ? [] : ["passkey"])]);
  },
  alternatives: ({ state: { proven, invitation } }) => {
    if (proven !== undefined) return ["login"];
    return [invitation === undefined ? "register" : "invitation", "login"];
  },
  prepare: (signIn, services) =>
    dropped(signIn, (clock) => (signIn.state.enrolment?.expiresAt ?? 0) <= clock.now(), services),

  async submit(entry, services) {
    const { signIn, values, action } = entry;
    const { state } = signIn;
    const { enrolment } = state;
    const { enrolments } = services.secondFactors;
    const { clock } = services.configuration;
    if (enrolments === undefined) return { kind: "gone" };
    if (state.proven === undefined) return makeAccount(entry, services, enrolments);
    const record = await stillProven(state.proven, services);
    if (record !== undefined && action === "later") return proceed(entry, services, record, state.proven);
    if (enrolment === undefined || enrolment.as === null || enrolment.expiresAt <= clock.now())
      return { kind: "next", state: startOver(state) };
    if (record === undefined) return CHANGED;
    const at = askedAt(entry, services);
    const { add } = NEW_FACTORS[action === "app" ? "app" : "passkey"];
    const added = await add(enrolments, enrolment, values, {}, at);
    if (added.kind === "changed") return keep(entry, services, state.proven, added, added.shown);
    return added.kind === "invalid" || added.kind === "limited" ? added : CHANGED;
  },
};

/** The account of somebody who registers without a password is made together with its passkey. */
async function makeAccount(entry: Entry, services: StepServices, enrolments: Enrolments): Promise<Outcome> {
  const { signIn, values } = entry;
  const { state } = signIn;
  const { enrolment } = state;
  if (enrolment?.as !== null) return again("register");
  if (entry.action === "later") return withAddressAlone(entry, services);
  const unnamed = nameProblem(values);
  if (unnamed !== undefined) return unnamed;
  const name = values.get("name") ?? "";
  const at = askedAt(entry, services);
  const tried = await enrolments.tryNewAccount(enrolment, parsed(values.get("credential")), name, at);
  if (tried.kind === "limited") return tried;
  if (tried.kind === "wrong") return PASSKEY_REFUSED;
  if (tried.kind === "stale")
    return { kind: "next", state: { ...begunWith(state), ...keptEnrolment(state) } };
  const { factor } = tried;
  const passkey = { sub: enrolment.sub, factor };
  const made =
    state.invitation === undefined
      ? await services.people.registrations?.complete(signIn.uid, passkey, at)
      : await services.invitations.accept(state.invitation.id, passkey.sub, factor, at);
  if (made === undefined) return again("register");
  if (made.kind === "limited") return made;
  if (made.kind === "passkey-taken") return PASSKEY_REFUSED;
  if (made.kind === "username-taken") return { kind: "next", state: usernameTaken(state) };
  if (made.kind !== "created") return state.invitation === undefined ? again("register") : notAccepted(made);
  const { record, recoveryCodes: codes } = made;
  const changed = { recoveryCodes: codes, sessions_generation: record.sessions_generation };
  return keep(
    entry,
    services,
    provenOf(record, 0, []),
    changed,
    amrOfPasskey(factor.passkey.backup_eligible),
  );
}

/** Recovery codes come with the first factor, and are shown only now. A further factor brings none. */
async function keep(
  entry: Entry,
  services: StepServices,
  proven: Proven,
  {
    recoveryCodes,
    sessions_generation: generation,
  }: { readonly recoveryCodes: readonly string[]; readonly sessions_generation: number },
  shown: readonly string[],
): Promise<Outcome> {
  services.protocol.detach(entry.signIn, proven.sub);
  const amr = [...new Set([...proven.amr, ...shown])];
  const { signedInAt: _there, ...before } = proven;
  const now = { ...before, generation, at: seconds(services.configuration.clock), amr };
  if (recoveryCodes.length > 0)
    return { kind: "next", state: { step: "recovery-codes", proven: now }, recoveryCodes };
  const record = await stillProven(now, services);
  return record === undefined ? CHANGED : proceed(entry, services, record, now);
}

export const recoveryCodes: Step = {
  isOpen: (signIn) => isAt(signIn, "recovery-codes"),
  fields: () => [{ name: "kept", type: "checkbox", autocomplete: "off", required: true, value: "true" }],
  actions: () => ["submit", "renew"],
  alternatives: () => [],
  async submit(entry, services) {
    const { signIn, values, action } = entry;
    const { proven } = signIn.state;
    const { enrolments } = services.secondFactors;
    if (proven === undefined || enrolments === undefined) return { kind: "gone" };
    const record = await stillProven(proven, services);
    if (record === undefined)
      return action === "submit" ? { kind: "next", state: startOver(signIn.state) } : CHANGED;
    if (action === "submit") {
      if (values.get("kept") !== "true")
        return { kind: "invalid", problems: [{ code: "required", fields: ["kept"] }] };
      return proceed(entry, services, record, proven);
    }
    const renewed = await enrolments.renewCodes(record.sub, proven.generation, askedAt(entry, services));
    if (renewed.kind === "limited") return renewed;
    if (renewed.kind !== "changed") return CHANGED;
    const generation = renewed.sessions_generation;
    return {
      kind: "next",
      state: { ...signIn.state, proven: { ...proven, generation } },
      recoveryCodes: renewed.recoveryCodes,
    };
  },
};
