/**
 * The ways to sign in at `login` and `reauthenticate`. A row says what the way asks for and what its action does; the steps know
 * none by name. What an account has of each is in `accounts/ways/ways.ts`.
 */
import { wayOf } from "../../accounts/ways/ways.ts";
import { emailWay } from "./email-code.ts";
import { passkeyWay } from "./passkey-sign-in.ts";
import { providerWay } from "./provider.ts";
import { checkPassword } from "./sign-in.ts";
import type { RunningSignIn } from "./running-sign-in.ts";
import type { Field, SignInStep, SignInWay, Step } from "./step.ts";

const password: SignInWay = {
  kind: "password",
  fields: [{ name: "password", type: "password", autocomplete: "current-password", required: true }],
  action: "submit",
  needs: "reauthenticate.needs.password",
  isOpen: () => true,
  async submit(entry, services, step) {
    const { account } = entry.signIn;
    const typed = entry.values.get("password") ?? "";
    if (step === "login") {
      const username = entry.values.get("username") ?? "";
      return checkPassword(entry, services, { username, password: typed, fields: ["username", "password"] });
    }
    if (account === undefined) return { kind: "gone" };
    return checkPassword(entry, services, { username: account.email, password: typed, fields: ["password"] });
  },
};

/** The rows, in the order of the page. To add a way, add a row here and one in `accounts/ways/ways.ts`. */
export const SIGN_IN_WAYS: readonly SignInWay[] = [password, passkeyWay, providerWay, emailWay];

/** The ways that can be used now. The one that this browser used comes first. */
export function waysAt(signIn: RunningSignIn, step: SignInStep): readonly SignInWay[] {
  const { account, prefers, byOwnWay = false, operatorsOnly = false } = signIn;
  const isFirst = ({ kind }: SignInWay): boolean => kind === prefers;
  const isEnough = ({ kind }: SignInWay): boolean =>
    step === "login" ||
    (account?.ways.includes(kind) === true && (!byOwnWay || wayOf({ kind }).outranksMail));
  // A mailbox, or another provider, opens no console.
  const isHere = (way: SignInWay): boolean => !operatorsOnly || wayOf(way).outranksMail;
  return SIGN_IN_WAYS.filter((way) => way.isOpen(signIn, step) && isHere(way) && isEnough(way)).toSorted(
    (one, other) => Number(isFirst(other)) - Number(isFirst(one)),
  );
}

/** The parts of a step that the ways make up. @param before the fields before theirs. */
export function withWays(
  step: SignInStep,
  before: (signIn: RunningSignIn) => readonly Field[] = () => [],
): Required<Pick<Step, "fields" | "actions" | "passkey" | "prepare" | "submit">> {
  return {
    fields(signIn) {
      const open = waysAt(signIn, step);
      const [first, ...others] = [...before(signIn), ...open.flatMap((way) => way.fields)];
      const suggestions = open.flatMap(({ suggestion }) => suggestion ?? []);
      if (first === undefined) return [];
      return [{ ...first, autocomplete: [first.autocomplete, ...suggestions].join(" ") }, ...others];
    },
    actions: (signIn) => waysAt(signIn, step).map(({ action }) => action),
    // Not even at `reauthenticate` does it name the passkeys of the account: nobody has shown the password.
    passkey(signIn, { secondFactors: { passkeys } }) {
      const { loginChallenge } = signIn.state;
      const isOpen = waysAt(signIn, step).includes(passkeyWay);
      return isOpen && loginChallenge ? passkeys?.anyRequest(loginChallenge) : undefined;
    },
    async prepare(signIn, services) {
      const parts = SIGN_IN_WAYS.flatMap((way) => way.prepare?.(signIn, services) ?? []);
      return parts.length === 0 ? undefined : Object.assign({}, signIn.state, ...parts);
    },
    async submit(entry, services) {
      const way = waysAt(entry.signIn, step).find(({ action }) => action === entry.action);
      return way === undefined ? { kind: "gone" } : way.submit(entry, services, step);
    },
  };
}
