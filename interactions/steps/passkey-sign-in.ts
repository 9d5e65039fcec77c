/**
 * Signing in with a passkey alone, at `login` and `reauthenticate`. A passkey is both factors. The challenge is made
 * with the sign-in itself, so that showing the first page writes nothing.
 */
import { callerOf } from "../../provider/exchange.ts";
import { amrOfPasskey } from "../../provider/authentication.ts";
import { ANONYMOUS } from "../../records/audit/audit-event.ts";
import { noteFailure } from "../../accounts/limits/attempt-limits.ts";
import { seconds } from "../../core/clock.ts";
import type { Passkeys } from "../../accounts/factors/passkeys.ts";
import { mayEnter, proceed } from "./sign-in.ts";
import type { SignInState, StepName } from "./running-sign-in.ts";
import type { Entry, Outcome, SignInWay, StepServices } from "./step.ts";

/** The first state of a sign-in, where passkeys are on. */
export function firstState(passkeys: Pick<Passkeys, "challenge">): SignInState {
  return { loginChallenge: passkeys.challenge() };
}

/** Signing in with a passkey alone. */
export const passkeyWay: SignInWay = {
  kind: "passkey",
  fields: [],
  action: "passkey",
  needs: "reauthenticate.needs.passkey",
  isOpen: ({ state }) => state.loginChallenge !== undefined,
  suggestion: "webauthn",
  prepare({ state: { loginChallenge } }, { configuration, secondFactors: { passkeys } }) {
    if (passkeys === undefined) return undefined;
    if (loginChallenge !== undefined && loginChallenge.expiresAt > configuration.clock.now())
      return undefined;
    return { loginChallenge: passkeys.challenge() };
  },
  submit: (entry, services, step) =>
    signInWithPasskey(entry, services, step, step === "login" ? undefined : entry.signIn.account?.sub),
};

/**
 * The answer of a passkey. An unknown one, a disabled account and a wrong signature look alike, and the step gets a new
 * challenge.
 * @param sub the account that it must belong to; `undefined`: whichever it names.
 */
export async function signInWithPasskey(
  entry: Entry,
  services: StepServices,
  name: StepName,
  sub: string | undefined,
): Promise<Outcome> {
  const { signIn, values } = entry;
  const { events, secondFactors, configuration } = services;
  const { loginChallenge, challenge: _challenge, passkey: _request, proven: _proven, ...rest } = signIn.state;
  if (secondFactors.passkeys === undefined || loginChallenge === undefined) return { kind: "gone" };
  const result = await secondFactors.passkeys.use(parsed(values.get("credential")), loginChallenge, sub);
  if (result.kind === "right" && mayEnter(signIn, result.account, services)) {
    const { account, backupEligible } = result;
    return proceed(entry, services, account, {
      at: seconds(configuration.clock),
      amr: amrOfPasskey(backupEligible),
    });
  }
  const { client_id } = signIn.client;
  const limited = await countWrongPasskey(entry, services, sub);
  events.emit("sign_in.failure", { reason: limited === undefined ? "credentials" : "limited", client_id });
  if (limited !== undefined) return limited;
  const isLate = loginChallenge.expiresAt <= configuration.clock.now();
  return {
    kind: "next",
    state: { ...rest, step: name, notice: isLate ? "passkey-late" : "passkey-refused" },
  };
}

/**
 * Takes the points of a wrong passkey, and records it. A right passkey needs none: nobody guesses a signature, and nobody
 * keeps a neighbor behind the same address out.
 * @param sub the account that it had to belong to.
 * @returns the outcome without a point: nothing is stored.
 */
export async function countWrongPasskey(
  entry: Entry,
  { limits, audit }: Pick<StepServices, "limits" | "audit">,
  sub: string | undefined,
): Promise<Extract<Outcome, { readonly kind: "limited" }> | undefined> {
  const { ctx, signIn } = entry;
  const attempt = await limits.wrongPasskey({ interaction: signIn.uid, address: ctx.exchange.address });
  const detail = { factor: "passkey" };
  const event =
    sub === undefined
      ? ({ ...callerOf(ctx, ANONYMOUS), action: "sign_in", reason: "credentials" } as const)
      : ({
          ...callerOf(ctx, { kind: "account", id: sub }),
          action: "second_factor",
          subject: sub,
          reason: "wrong",
        } as const);
  noteFailure(audit, { ...event, client: signIn.clientThen, detail }, attempt);
  return attempt.allowed ? undefined : { kind: "limited", retryAfter: attempt.retryAfter };
}

/** A credential in WebAuthn's JSON form, which may be anything. */
export function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
