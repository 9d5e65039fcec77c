/**
 * Where a sign-in turns to linking: somebody came back from a provider, and has then signed in to an account of their own. Nothing is
 * linked here: `provider-link` asks first.
 */
import { fullName, readName } from "../../accounts/names.ts";
import { isLinkingRefusal } from "../../accounts/identities/linking.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { identityId } from "../../records/people/identity-kinds.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";
import type { LinkingState, Newcomer } from "./provider-state.ts";
import type { Proven, RunningSignIn, SignInState } from "./running-sign-in.ts";
import { askedAt, type Entry, type Outcome, type StepServices } from "./step.ts";

/** Whether somebody waits here who came back from a provider, and whom nobody knows yet. */
export const hasComeBack = ({ prompt, account, state }: RunningSignIn): boolean =>
  (prompt === "login" || prompt === "create") && account === undefined && state.upstream !== undefined;

/**
 * Where somebody goes on who has come back with an identity that no account has. `undefined`: nowhere, because there is no account
 * with the address that the provider vouches for, and none can be made.
 */
export async function stateOfNewcomer(
  { signIn }: Pick<Entry, "signIn">,
  services: Pick<StepServices, "accounts" | "configuration" | "offers">,
  upstream: Newcomer,
): Promise<SignInState | undefined> {
  if (!hasComeBack({ ...signIn, state: { upstream } })) return undefined;
  const known = await knownAccount({ upstream }, services);
  const only = known && onlyProvider(services.configuration, known);
  if (known !== undefined && (only === undefined || only.key === upstream.provider))
    return { step: "provider-known", upstream };
  const provider = services.configuration.providers.find(({ key }) => key === upstream.provider);
  const canRegister = services.offers.registration !== undefined && provider?.registration === true;
  return canRegister ? { step: "provider-register", upstream } : undefined;
}

/** The identity that this person may link; `undefined` if there is none. */
export function linkingOf(
  { upstream }: SignInState,
  { linking }: Pick<Proven, "linking">,
  record: AccountRecord,
): LinkingState | undefined {
  return linking ?? (upstream && { identity: upstream, owner: ownerOf(record) });
}

/** The account with the address that the provider vouches for, as the stored identity has it: what a form says does not count. */
export async function knownAccount(
  { upstream }: SignInState,
  { accounts }: Pick<StepServices, "accounts">,
): Promise<AccountRecord | undefined> {
  if (upstream?.email === undefined || !upstream.vouched) return undefined;
  return accounts.recordByName(readName(upstream.email));
}

/** The same sign-in without the identity: it is linked, or the person does not want that. */
export function withoutUpstream(entry: Entry): Entry {
  const { upstream: _upstream, known: _known, ...state } = entry.signIn.state;
  return { ...entry, signIn: { ...entry.signIn, state } };
}

/** Sends the code that guards the linking, and waits for it. @param state what is kept meanwhile. */
export async function sendLinkCode(
  entry: Entry,
  services: Pick<StepServices, "people" | "devices">,
  record: AccountRecord,
  identity: UpstreamIdentity,
  state: SignInState,
): Promise<Outcome> {
  const { linking } = services.people;
  if (linking === undefined) return { kind: "gone" };
  const sent = await linking.sendCode(record, identity, entry.signIn.uid, askedAt(entry, services));
  if (sent.kind === "limited") return sent;
  const codeFor = linkCode(record.sub, identity);
  return { kind: "next", state: { ...state, step: "provider-confirm", codeFor, email: sent.to } };
}

export const ownerOf = (record: AccountRecord): LinkingState["owner"] => ({
  name: fullName(record),
  email: record.email,
});

/** What a code from the mailbox was sent for. */
const linkCode = (sub: string, identity: UpstreamIdentity): string => `link ${sub} ${identityId(identity)}`;

/**
 * The step before the identity is linked. `undefined`: this sign-in can't link it, and goes on without.
 * @param proven what the person has shown of the account, with what is being linked.
 */
export async function linkingStep(
  entry: Entry,
  services: Pick<StepServices, "people" | "devices">,
  record: AccountRecord,
  proven: Proven & { readonly linking: LinkingState },
): Promise<Outcome | undefined> {
  const { signIn } = entry;
  const { linking } = services.people;
  if (linking === undefined) return undefined;
  const need = await linking.need(record, proven.linking, proven.amr);
  if (need === "sign-in") return undefined;
  if (isLinkingRefusal(need)) return { kind: "next", state: atLink(proven, need) };
  if (need === "nothing") return { kind: "next", state: atLink(proven) };
  const { identity } = proven.linking;
  const codeFor = linkCode(record.sub, identity);
  const { state } = signIn;
  if (state.codeFor === codeFor && state.email !== undefined)
    return { kind: "next", state: { step: "provider-confirm", proven, codeFor, email: state.email } };
  return sendLinkCode(entry, services, record, identity, { proven });
}

/** The page that links. @param refused why it doesn't. */
export function atLink(
  proven: Proven & { readonly linking: LinkingState },
  refused?: LinkingState["refused"],
): SignInState {
  const linking = { ...proven.linking, ...(refused !== undefined && { refused }) };
  return { step: "provider-link", proven: { ...proven, linking } };
}
