/**
 * The step `invitation`: somebody who has followed the link of an invitation chooses a password or a passkey, and the account is made
 * with it. Showing it spends nothing (decisions.md, Invitations).
 */
import { randomUUID } from "node:crypto";
import { seconds } from "../../core/clock.ts";
import { AMR_PASSWORD } from "../../provider/authentication.ts";
import { proceed } from "./sign-in.ts";
import type { SignInState } from "./running-sign-in.ts";
import { askedAt, type Entry, type Outcome, type Step, type StepServices } from "./step.ts";

/** The action of somebody who wants a passkey instead. */
const WITHOUT_PASSWORD = "without-password";

const INVITATION_GONE: SignInState = { step: "login", notice: "invitation-gone" };

export const invitation: Step = {
  isOpen: ({ prompt, state, invited }) =>
    prompt !== "consent" && (state.invitation !== undefined || invited === true),
  fields: ({ state: { invitation: opened } }) => [
    // Password managers store the password with it.
    {
      name: "email",
      type: "email",
      autocomplete: "username",
      required: true,
      value: opened?.email ?? "",
      readOnly: true,
    },
    { name: "password", type: "password", autocomplete: "new-password", required: true },
  ],
  actions: (_signIn, { passkeys }) => (passkeys ? ["submit", WITHOUT_PASSWORD] : ["submit"]),
  alternatives: () => ["login"],
  /** Looks the link up when the step is first shown. */
  async prepare({ state, link }, { people, invitations }) {
    const found = state.invitation?.id ?? (await invitedBy(link, people));
    const owner = found === undefined ? undefined : await invitations.findOpen(found);
    if (found === undefined || owner === undefined) return INVITATION_GONE;
    if (state.invitation !== undefined) return undefined;
    return { step: "invitation", invitation: { id: found, email: owner.email } };
  },
  async submit(entry, services): Promise<Outcome> {
    const { signIn, values, action } = entry;
    const { invitation: opened } = signIn.state;
    if (opened === undefined) return { kind: "next", state: INVITATION_GONE };
    if (action === WITHOUT_PASSWORD) return atPasskey(entry, services, opened.id);
    const chosen = { kind: "password", password: values.get("password") ?? "" } as const;
    const at = askedAt(entry, services);
    const accepted = await services.invitations.accept(opened.id, randomUUID(), chosen, at);
    if (accepted.kind === "created")
      return proceed(entry, services, accepted.record, {
        at: seconds(services.configuration.clock),
        amr: AMR_PASSWORD,
      });
    if (accepted.kind === "limited") return accepted;
    if (accepted.kind !== "refused-password") return notAccepted(accepted);
    const { min, max } = services.offers.passwordLength;
    const problem = { code: accepted.problem, fields: ["password"], values: { min, max } };
    return { kind: "invalid", problems: [problem] };
  },
};

/** The id of the invitation of a link. */
async function invitedBy(
  link: string | undefined,
  { confirmations }: StepServices["people"],
): Promise<string | undefined> {
  const pending = link === undefined ? undefined : await confirmations.findByLink(link);
  return pending?.purpose === "invitation" ? pending.subject : undefined;
}

async function atPasskey(entry: Entry, services: StepServices, id: string): Promise<Outcome> {
  const { state } = entry.signIn;
  const owner = await services.invitations.findOpen(id);
  if (owner === undefined || state.invitation === undefined) return { kind: "next", state: INVITATION_GONE };
  const before = state.enrolment?.as === null ? state.enrolment : undefined;
  const enrolment = await services.secondFactors.enrolments?.beginNewAccount(owner, before);
  if (enrolment === undefined) return { kind: "gone" };
  return { kind: "next", state: { step: "enrol", invitation: state.invitation, enrolment } };
}

/** There is no account, and none can be made with this invitation. */
export const notAccepted = ({ kind }: { readonly kind: string }): Outcome => ({
  kind: "next",
  state: kind === "address-known" ? { step: "login", notice: "invitation-known" } : INVITATION_GONE,
});
