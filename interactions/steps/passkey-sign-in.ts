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
import { proceed } from "./sign-in.ts";
import {
  type Entry,
  type Outcome,
  type RunningSignIn,
  type SignInState,
  type Step,
  type StepName,
  type StepServices,
} from "./step.ts";

/** The first state of a sign-in, where passkeys are on. */
export function firstState(passkeys: Pick<Passkeys, "challenge">): SignInState {
  return { loginChallenge: passkeys.challenge() };
}

/** Whether a passkey can be used now. At `login` the account is not known; at `reauthenticate` it must have one. */
function isOffered({ state, account }: RunningSignIn, name: StepName): boolean {
  if (state.loginChallenge === undefined) return false;
  return name === "login" || (account?.factors?.passkeys.length ?? 0) > 0;
}

/** Whether a password can be used now: at `reauthenticate` the account must have one. */
export const takesPassword = ({ account }: RunningSignIn, name: StepName): boolean =>
  name === "login" || account?.hasPassword === true;

/** The parts of `login` and `reauthenticate` that a passkey changes. */
export function withPasskey(
  name: "login" | "reauthenticate",
): Required<Pick<Step, "actions" | "passkey" | "prepare">> {
  return {
    actions(signIn) {
      const password = takesPassword(signIn, name) ? ["submit"] : [];
      const passkey = isOffered(signIn, name) ? ["passkey"] : [];
      return signIn.prefersPasskey ? [...passkey, ...password] : [...password, ...passkey];
    },
    // Not even at `reauthenticate` does it name the passkeys of the account: nobody has shown the password.
    passkey: (signIn, { secondFactors: { passkeys } }) =>
      signIn.state.loginChallenge && isOffered(signIn, name)
        ? passkeys?.anyRequest(signIn.state.loginChallenge)
        : undefined,
    async prepare(signIn, { configuration, secondFactors: { passkeys } }) {
      const { state } = signIn;
      const { loginChallenge } = state;
      if (passkeys === undefined) return undefined;
      if (loginChallenge !== undefined && loginChallenge.expiresAt > configuration.clock.now())
        return undefined;
      return { ...state, loginChallenge: passkeys.challenge() };
    },
  };
}

/** `autocomplete` of the field in which the browser suggests passkeys. */
export function suggesting(autocomplete: string, signIn: RunningSignIn, name: StepName): string {
  return isOffered(signIn, name) ? `${autocomplete} webauthn` : autocomplete;
}

/**
 * The answer of a passkey. An unknown one, a disabled account and a wrong signature look alike, and the step gets a new
 * challenge.
 * @param sub the account that it must belong to. Left out: whichever it names.
 */
export async function signInWithPasskey(
  entry: Entry,
  services: StepServices,
  name: StepName,
  sub?: string,
): Promise<Outcome> {
  const { signIn, values } = entry;
  const { events, secondFactors, configuration } = services;
  const { loginChallenge, challenge: _challenge, passkey: _request, proven: _proven, ...rest } = signIn.state;
  if (secondFactors.passkeys === undefined || loginChallenge === undefined) return { kind: "gone" };
  const result = await secondFactors.passkeys.use(parsed(values.get("credential")), loginChallenge, sub);
  if (result.kind === "right") {
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
  noteFailure(audit, { ...event, client: signIn.client.client_id, detail }, attempt);
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
