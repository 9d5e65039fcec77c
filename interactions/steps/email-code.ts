/**
 * The step `email-code`: a code by mail signs in, first the name, then the code. Every name gets the same answers after the same
 * time. A sign-in has one code: a new one replaces it (decisions.md, Signing in with a code by mail).
 */
import { shownEmail, trimmed } from "../../accounts/names.ts";
import type { SignInCodes } from "../../accounts/people/sign-in-codes.ts";
import { outranksMail, WAYS } from "../../accounts/ways/ways.ts";
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { AMR_EMAIL } from "../../provider/authentication.ts";
import { codeField, wrongCode } from "./mailed-code.ts";
import { proceed } from "./sign-in.ts";
import type { RunningSignIn } from "./running-sign-in.ts";
import {
  askedAt,
  CAN_ADD_PASSKEY,
  type Entry,
  type Outcome,
  type SignInWay,
  type Step,
  type StepServices,
} from "./step.ts";

/** No account has a longer name. */
const MAX_NAME_CHARACTERS = 256;

/** Whether a code was asked for. */
const isAsked = ({ state }: Pick<RunningSignIn, "state">): boolean =>
  state.step === "email-code" && state.mailed === true;

export const emailCode: Step = {
  isOpen: ({ prompt }, offers) => prompt !== "consent" && offers.emailCode,
  fields(signIn) {
    const { loginHint = "", state } = signIn;
    if (isAsked(signIn)) return [codeField];
    const { username: value = loginHint } = state;
    return [{ name: "username", type: "text", autocomplete: "username", required: true, value }];
  },
  actions(signIn) {
    if (!isAsked(signIn)) return ["submit"];
    return signIn.state.username === undefined ? ["submit", "resend"] : ["submit", "resend", "change"];
  },
  alternatives: () => ["login", "register"],
  async submit(entry, services) {
    const { action, signIn, values } = entry;
    const { state, account } = signIn;
    if (!isAsked(signIn)) {
      const username = trimmed(values.get("username") ?? "").slice(0, MAX_NAME_CHARACTERS);
      return send(entry, services, username, { ...state, username });
    }
    const name = state.username ?? account?.email ?? "";
    if (action === "resend") return send(entry, services, name, { ...state, notice: "code-sent" });
    if (action === "change") {
      const { mailed: _mailed, notice: _notice, ...rest } = state;
      return { kind: "next", state: rest };
    }
    return use(entry, services, name);
  },
};

/**
 * A code by mail as a way to sign in again, for somebody who has nothing that outranks it. On the first page it is a link: the form
 * there has one button.
 */
export const emailWay: SignInWay = {
  kind: WAYS.email.kind,
  fields: [],
  action: "email",
  needs: "reauthenticate.needs.email",
  button: (t) => t("email-code.send"),
  isOpen: ({ account }, step) =>
    step === "reauthenticate" &&
    account !== undefined &&
    !Object.values(WAYS).some((way) => outranksMail(way) && account.ways.includes(way.kind)),
  async submit(entry, services) {
    const { account, state } = entry.signIn;
    if (account === undefined) return { kind: "gone" };
    const { username: _username, ...rest } = state;
    return send(entry, services, account.email, rest);
  },
};

/** Asks for a code. @param state of the sign-in then. */
async function send(
  entry: Entry,
  services: StepServices,
  name: string,
  state: RunningSignIn["state"],
): Promise<Outcome> {
  const { ctx, signIn } = entry;
  const { signInCodes } = services.people;
  if (signInCodes === undefined) return { kind: "gone" };
  const at = { ...askedAt(entry, services), userAgent: ctx.req.headers["user-agent"] };
  const sent = await signInCodes.start(signIn.uid, name, signIn.wantsRecent === true, at);
  if (sent.kind === "limited") return sent;
  const { proven: _proven, ...rest } = state;
  return { kind: "next", state: { ...rest, step: "email-code", mailed: true } };
}

/** Signs the person in with the code that was sent. */
async function use(entry: Entry, services: StepServices, name: string): Promise<Outcome> {
  const { people, configuration } = services;
  if (people.signInCodes === undefined) return { kind: "gone" };
  return proveByCode(entry, services, people.signInCodes, name, (record) =>
    proceed(entry, services, record, {
      at: seconds(configuration.clock),
      amr: AMR_EMAIL,
      ...(entry.values.get(CAN_ADD_PASSKEY) === "true" && { canAddPasskey: true }),
    }),
  );
}

/** Uses up the code that was typed. @param then what a right one leads to. */
export async function proveByCode(
  entry: Entry,
  services: StepServices,
  codes: SignInCodes,
  name: string,
  then: (record: AccountRecord) => Promise<Outcome>,
): Promise<Outcome> {
  const { ctx, signIn, values } = entry;
  const { devices, events, units } = services;
  const { client_id } = signIn.client;
  const used = await codes.use(signIn.uid, name, values.get("code") ?? "", {
    ...askedAt(entry, services),
    ...(devices.has(ctx) && { device: (account) => devices.readAtForm(ctx, account) }),
  });
  if (used.kind === "right") {
    units.required().refund(used.attempt);
    return then(used.record);
  }
  events.emit("sign_in.failure", {
    reason: used.kind === "limited" ? "limited" : "credentials",
    client_id,
  });
  if (used.kind === "limited") return limitedHere(used);
  if (used.kind === "wrong") return { kind: "invalid", problems: [wrongCode(used.triesLeft)] };
  return { kind: "invalid", problems: [{ code: "code-expired", fields: ["code"] }] };
}

/** The words for a name are about passwords. */
function limitedHere(limited: Extract<Outcome, { readonly kind: "limited" }>): Outcome {
  const { whose, ...rest } = limited;
  return whose === undefined || whose === "name" ? rest : limited;
}

/** Whose sign-in the code is for, as the person has typed it. */
export function askedName({ state, account }: RunningSignIn): string {
  return state.username ?? (account === undefined ? "" : shownEmail(account.email));
}
