/** The step `new-password`: the code from the mail, or its link, and a new password. Then the person signs in with it. */
import type { ResetFinished } from "../../accounts/people/password-resets.ts";
import { again, codeField, wrongCode } from "./mailed-code.ts";
import { askedAt, type Offers, type Outcome, type Step } from "./step.ts";

export const newPassword: Step = {
  isOpen: ({ prompt, state, link }, { resets }) =>
    prompt !== "consent" && resets && (state.step === "new-password" || link !== undefined),
  fields: ({ link }) => [
    ...(link === undefined ? [codeField] : []),
    { name: "password", type: "password", autocomplete: "new-password", required: true },
  ],
  actions: () => ["submit"],
  alternatives: () => ["forgot-password", "login"],
  async submit(entry, services) {
    const { ctx, signIn, values } = entry;
    const { passwordResets } = services.people;
    if (passwordResets === undefined) return { kind: "gone" };
    const { uid: interaction, link } = signIn;
    const proof = link === undefined ? { code: values.get("code") ?? "", interaction } : { link };
    const at = askedAt(entry, services);
    const result = await passwordResets.finish(proof, values.get("password") ?? "", at);
    if (link !== undefined && (result.kind === "done" || result.kind === "gone")) services.links.clear(ctx);
    if (result.kind === "done") {
      services.devices.writeReset(ctx, result);
      services.protocol.detach(signIn, result.sub);
    }
    return outcomeOf(result, services.offers, signIn.state.username);
  },
};

/** The outcome of a new password, here and at the page that the link opens elsewhere. */
export function outcomeOf(
  result: ResetFinished,
  { passwordLength: { min, max } }: Offers,
  username?: string,
): Outcome {
  if (result.kind === "done")
    return {
      kind: "next",
      state: { notice: "password-changed", ...(username !== undefined && { username }) },
    };
  if (result.kind === "limited") return result;
  if (result.kind === "wrong") return { kind: "invalid", problems: [wrongCode(result.triesLeft)] };
  if (result.kind === "gone") return again("forgot-password");
  return {
    kind: "invalid",
    problems: [{ code: result.problem, fields: ["password"], values: { min, max } }],
  };
}
