/** The first page of a sign-in, for somebody who is not known yet and for somebody who is signed in already. */
import { trimmed } from "../../accounts/names.ts";
import { firstPage, providersAt } from "./first-page.ts";
import { SIGN_IN_WAYS, waysAt, withWays } from "./sign-in-ways.ts";
import type { RunningSignIn } from "./running-sign-in.ts";
import type { Field, Outcome, Step } from "./step.ts";

/** UTF-16 units of a typed name that is kept. No name of an account is longer. */
const MAX_TYPED_NAME = 256;

const nameField = ({ loginHint = "", state: { username = loginHint } }: RunningSignIn): Field => ({
  name: "username",
  type: "text",
  autocomplete: "username",
  required: true,
  value: username,
});

const everything = withWays("login", (signIn) => [nameField(signIn)]);

/** The actions for the way of the password: after the name, it has a page of its own. */
const PASSWORD = "submit";

/**
 * The step `login`: a name and a password, or another way. An unknown name and a wrong password get the same answer after the same
 * time. Where domains count, it is the name, and then what its domain allows; a program may send both at once.
 */
export const login: Step = {
  isOpen: ({ prompt }) => prompt !== "consent",
  ...everything,
  fields(signIn, offers) {
    const { asks } = firstPage(signIn);
    const [name, ...others] = everything.fields(signIn, offers);
    if (name === undefined || asks === "nothing") return [];
    if (asks === "name") return [name];
    return asks === "everything" ? [name, ...others] : [{ ...nameField(signIn), readOnly: true }, ...others];
  },
  actions(signIn) {
    const { asks, domain } = firstPage(signIn);
    if (asks === "nothing") return ["provider", "change"];
    const others = waysAt(signIn, "login").filter(({ kind }) => kind !== "provider");
    const actions = others.map(({ action }) => action);
    // The provider of the domain is what the page recommends.
    if (domain !== undefined) actions.unshift("provider");
    else if (providersAt("login", signIn).length > 0) actions.push("provider");
    return asks === "proof" ? [...actions, "change"] : actions;
  },
  passkey: (signIn, services) =>
    firstPage(signIn).asks === "nothing" ? undefined : everything.passkey(signIn, services),
  alternatives(signIn) {
    if (signIn.operatorsOnly) return [];
    const { asks } = firstPage(signIn);
    if (asks === "nothing") return [];
    return asks === "name" ? ["register"] : ["forgot-password", "email-code", "register"];
  },
  async submit(entry, services) {
    const { signIn, action, values } = entry;
    if (action === "change") return nameAgain(signIn);
    const { asks, domain } = firstPage(signIn);
    // The provider of its domain may know the name.
    const named = domain === undefined ? signIn : { ...signIn, loginHint: signIn.state.username ?? "" };
    if (action !== PASSWORD || asks !== "name")
      return everything.submit({ ...entry, signIn: named }, services);
    if ((values.get("password") ?? "") === "") return keepName(signIn, values.get("username") ?? "");
    // The page has no field for the password, so that the problem is with the name.
    const outcome = await everything.submit(entry, services);
    if (outcome.kind !== "invalid") return outcome;
    const problems = outcome.problems.map(({ code, values: about }) => {
      const fields = ["username"];
      return about === undefined ? { code, fields } : { code, fields, values: about };
    });
    return { kind: "invalid", problems };
  },
};

/** The next page depends on the domain of the name, and on no account. */
function keepName({ state }: RunningSignIn, typed: string): Outcome {
  const { notice: _notice, ...rest } = state;
  const username = trimmed(typed).slice(0, MAX_TYPED_NAME);
  return { kind: "next", state: { ...rest, step: "login", username, named: true } };
}

function nameAgain({ state }: RunningSignIn): Outcome {
  const { notice: _notice, named: _named, ...rest } = state;
  return { kind: "next", state: { ...rest, step: "login" } };
}

/**
 * The step `reauthenticate`: what the person who is signed in can sign in with, before something that needs a recent sign-in. A
 * person with nothing, because passkeys have been turned off, can only choose a new password by mail.
 */
export const reauthenticate: Step = {
  isOpen: ({ prompt, account }) => prompt === "login" && account !== undefined,
  ...withWays("reauthenticate"),
  alternatives: () => ["forgot-password", "login"],
};

/** The step `provider`: the provider that the client has named. Nothing goes there without a POST. */
export const hintedProvider: Step = {
  isOpen: ({ prompt, hinted }) => prompt !== "consent" && hinted !== undefined,
  fields: () => [],
  actions: () => ["submit"],
  alternatives: () => ["login"],
  async submit(entry, services) {
    const { hinted = "" } = entry.signIn;
    const way = SIGN_IN_WAYS.find(({ kind }) => kind === "provider");
    if (way === undefined) return { kind: "gone" };
    return way.submit(
      { ...entry, action: "provider", values: new Map([["provider", hinted]]) },
      services,
      "login",
    );
  },
};
