/**
 * The step `provider-register`: a new account for somebody who came back from a provider. There is no password. An address that the
 * provider vouches for needs no mail; any other is confirmed as in every registration, and gets the same answer whether or not an
 * account has it.
 */
import { personNameProblem } from "../../accounts/names.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";
import { askedField, formOf, problemsIn, REFUSED, termsField } from "./register.ts";
import { hasComeBack } from "./linking.ts";
import { signInAs, signInKnown } from "./provider.ts";
import type { RunningSignIn } from "./running-sign-in.ts";
import { askedAt, type Field, type Outcome, type Step } from "./step.ts";

export const providerRegister: Step = {
  isOpen: (signIn, { registration }) =>
    hasComeBack(signIn) &&
    registration !== undefined &&
    providerOf(signIn)?.registration !== false &&
    signIn.state.usernameTaken === undefined,
  fields({ state: { upstream, known } }, { registration: { fields = [], terms } = {} }): readonly Field[] {
    // An account has the address: the person wants another one.
    const email = known === undefined ? (upstream?.email ?? "") : "";
    const hasUsername = fields.some((row) => row.name === "username" && row.registration === "required");
    return [
      ...fields.map((row) => {
        const value = prefilled(row.name, upstream);
        return { ...askedField(row, hasUsername), ...(value !== undefined && { value }) };
      }),
      { name: "email", type: "email", autocomplete: "email", required: true, value: email },
      ...(terms === undefined ? [] : [termsField(terms.version)]),
    ];
  },
  actions: () => ["submit"],
  alternatives: () => ["login"],
  async submit(entry, services): Promise<Outcome> {
    const { signIn } = entry;
    const { upstream } = signIn.state;
    const { registrations } = services.people;
    if (registrations === undefined || upstream === undefined) return { kind: "gone" };
    const form = { ...formOf(entry, registrations.settings.fields), password: null, identity: upstream };
    const result = await registrations.start(signIn.uid, form, askedAt(entry, services));
    if (result.kind === "created")
      return signInAs(entry, services, result.record, { startedAt: upstream.leftAt }, upstream);
    if (result.kind === "identity-known") return signInKnown(entry, services, upstream);
    if (result.kind === "sent")
      return { kind: "next", state: { step: "confirm-email", email: form.email, upstream } };
    if (result.kind === "address-known") return { kind: "next", state: { step: "provider-known", upstream } };
    if (result.kind === "invalid") return problemsIn(result.problems, services);
    return result.kind === "limited" ? result : REFUSED;
  },
};

/** The provider that the person came back from, as far as this client offers it. */
export const providerOf = ({ providers = [], state }: RunningSignIn) => {
  const key = state.upstream?.provider ?? state.proven?.linking?.identity.provider;
  return providers.find((provider) => provider.key === key);
};

/** What the provider says of a person, if it can be entered. */
function prefilled(name: string, upstream: UpstreamIdentity | undefined): string | undefined {
  const value = name === "name" ? upstream?.name : name === "surname" ? upstream?.surname : undefined;
  return value === undefined || personNameProblem(value) !== undefined ? undefined : value;
}
