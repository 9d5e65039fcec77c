/**
 * The step `provider-known`: a provider vouches for an address, and an account has it. An address never links anything: the person
 * signs in to the account in the way that it has, and may then link the identity. Nothing of the account is shown but how it can be
 * signed in to, and a disabled one looks the same.
 */
import { randomUUID } from "node:crypto";
import { onlyProvider } from "../../accounts/providers.ts";
import { kindsOf, wayOf } from "../../accounts/ways/ways.ts";
import { hasComeBack, knownAccount, sendLinkCode } from "./linking.ts";
import { passkeyWay, signInWithPasskey } from "./passkey-sign-in.ts";
import { checkPassword } from "./sign-in.ts";
import type { KnownAddress } from "./provider-state.ts";
import type { SignInState } from "./running-sign-in.ts";
import type { Step, StepServices } from "./step.ts";

export const providerKnown: Step = {
  isOpen: (signIn) =>
    hasComeBack(signIn) && signIn.state.step === "provider-known" && signIn.state.upstream?.vouched === true,
  fields: ({ state: { known } }) =>
    takes(known, "password")
      ? [{ name: "password", type: "password", autocomplete: "current-password", required: true }]
      : [],
  actions: ({ state: { known, loginChallenge } }) => [
    ...(takes(known, "password") || known?.only ? ["submit"] : []),
    ...(takes(known, "passkey") && loginChallenge !== undefined ? [passkeyWay.action] : []),
  ],
  passkey: ({ state: { known, loginChallenge } }, { secondFactors: { passkeys } }) =>
    takes(known, "passkey") && loginChallenge ? passkeys?.anyRequest(loginChallenge) : undefined,
  alternatives: ({ state: { known } }) => [
    ...(known?.only ? [] : ["forgot-password" as const]),
    // An account with a password or a passkey shows that.
    ...(known?.ways.length === 0 && known.only !== true ? ["email-code" as const] : []),
    "provider-register",
    "login",
  ],
  async prepare(signIn, services) {
    const { state } = signIn;
    const challenge = passkeyWay.prepare?.(signIn, services);
    if (state.known !== undefined && challenge === undefined) return undefined;
    const { known = await knownAddress(state, services), upstream } = state;
    // The forms of other steps begin with it.
    const username = state.username ?? upstream?.email;
    return { ...state, known, ...(username !== undefined && { username }), ...challenge };
  },
  async submit(entry, services) {
    const { signIn, values, action } = entry;
    const { upstream, known } = signIn.state;
    if (upstream?.email === undefined) return { kind: "gone" };
    const record = await knownAccount(signIn.state, services);
    // Whoever has no account has none with this passkey.
    if (action === passkeyWay.action)
      return signInWithPasskey(entry, services, "provider-known", record?.sub ?? randomUUID());
    if (known?.only) {
      // It has been deleted since.
      if (record === undefined) return { kind: "next", state: { step: "provider-register", upstream } };
      return sendLinkCode(entry, services, record, upstream, { upstream, known });
    }
    const password = values.get("password") ?? "";
    return checkPassword(entry, services, { username: upstream.email, password, fields: ["password"] });
  },
};

const takes = (known: KnownAddress | undefined, kind: string): boolean =>
  known !== undefined && known.only !== true && known.ways.includes(kind);

async function knownAddress(
  state: SignInState,
  services: Pick<StepServices, "accounts" | "configuration">,
): Promise<KnownAddress> {
  const record = await knownAccount(state, services);
  const { upstream } = state;
  // It has been deleted since: like any account with a password.
  const ways = record === undefined ? ["password"] : kindsOf(record);
  const only = record && onlyProvider(services.configuration, record);
  const isOnly = only !== undefined && only.key === upstream?.provider;
  return {
    ways: ways.filter((kind) => wayOf({ kind }).outranksMail),
    ...(isOnly && { only: true }),
  };
}
