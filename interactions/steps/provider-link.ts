/**
 * The steps that link an identity to the account of somebody who has just signed in to it: `provider-confirm`, a code from the
 * mailbox in place of a second factor, and `provider-link`, which shows both parties. Nothing is linked without its POST, and on each
 * page the person can go on without linking. What was shown of the account counts for five minutes.
 */
import type { UpstreamIdentity } from "../../upstream/upstream.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import { WAYS } from "../../accounts/ways/ways.ts";
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { codeField, wrongCode } from "./mailed-code.ts";
import { atLink, hasComeBack, knownAccount, ownerOf, sendLinkCode, withoutUpstream } from "./linking.ts";
import { CHANGED, isAt, isExpired, proceed, startOver, stillProven } from "./sign-in.ts";
import type { LinkingState } from "./provider-state.ts";
import type { Proven, RunningSignIn } from "./running-sign-in.ts";
import { askedAt, type Entry, type Outcome, type Step, type StepServices } from "./step.ts";

/** The action that goes on without linking. */
const SKIP = "skip";

const NO_TRIES: Outcome = { kind: "invalid", problems: [{ code: "no-tries", fields: ["code"] }] };

type Linker = Proven & { readonly linking: LinkingState };

function linkerAt({ state: { proven } }: RunningSignIn): Linker | undefined {
  return proven?.linking && { ...proven, linking: proven.linking };
}

/** Somebody of an organization that signs its people in: nobody has signed in yet, and the mailbox stands for that. */
const isOnlyAt = (signIn: RunningSignIn): boolean =>
  hasComeBack(signIn) && signIn.state.proven === undefined && signIn.state.known?.only === true;

export const providerConfirm: Step = {
  isOpen: (signIn) =>
    signIn.state.step === "provider-confirm" &&
    (isOnlyAt(signIn) || (isAt(signIn, "provider-confirm") && linkerAt(signIn) !== undefined)),
  fields: () => [codeField],
  actions: (signIn) => (isOnlyAt(signIn) ? ["submit", "resend"] : ["submit", "resend", SKIP]),
  alternatives: () => ["login"],
  async submit(entry, services) {
    const { signIn } = entry;
    const proven = linkerAt(signIn);
    if (proven === undefined) return confirmOnly(entry, services);
    const record = await stillProven(proven, services);
    if (record === undefined || isExpired(proven, services.configuration.clock))
      return { kind: "next", state: startOver(signIn.state) };
    if (entry.action === SKIP) return withoutLinking(entry, services, record, proven);
    return confirm(entry, services, record, proven.linking.identity, () =>
      proceed(entry, services, record, { ...proven, linking: { ...proven.linking, confirmed: true } }),
    );
  },
};

/** The code is the sign-in, as far as the page that links: nothing else was shown of the account. */
async function confirmOnly(entry: Entry, services: StepServices): Promise<Outcome> {
  const { signIn } = entry;
  const { upstream: identity } = signIn.state;
  const record = await knownAccount(signIn.state, services);
  if (identity === undefined || record === undefined) return { kind: "next", state: startOver({}) };
  return confirm(entry, services, record, identity, () =>
    proceed(entry, services, record, {
      at: seconds(services.configuration.clock),
      amr: [],
      linking: { identity, confirmed: true, owner: ownerOf(record) },
    }),
  );
}

async function confirm(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  identity: UpstreamIdentity,
  confirmed: () => Promise<Outcome>,
): Promise<Outcome> {
  const { signIn, values, action } = entry;
  const { linking } = services.people;
  if (linking === undefined) return { kind: "gone" };
  if (action === "resend")
    return sendLinkCode(entry, services, record, identity, { ...signIn.state, notice: "sent" });
  const at = askedAt(entry, services);
  const proof = await linking.prove(record.sub, identity, signIn.uid, values.get("code") ?? "", at);
  if (proof.kind === "wrong") return { kind: "invalid", problems: [wrongCode(proof.triesLeft)] };
  return proof.kind === "gone" ? NO_TRIES : confirmed();
}

export const providerLink: Step = {
  isOpen: (signIn) => isAt(signIn, "provider-link") && linkerAt(signIn) !== undefined,
  fields: () => [],
  actions: (signIn) => (linkerAt(signIn)?.linking.refused === undefined ? ["submit", SKIP] : [SKIP]),
  alternatives: () => [],
  async submit(entry, services) {
    const { signIn } = entry;
    const proven = linkerAt(signIn);
    const { linking } = services.people;
    if (proven === undefined || linking === undefined) return { kind: "gone" };
    const record = await stillProven(proven, services);
    if (record === undefined || isExpired(proven, services.configuration.clock))
      return { kind: "next", state: startOver(signIn.state) };
    if (entry.action === SKIP) return withoutLinking(entry, services, record, proven);
    const session = { sessions_generation: proven.generation };
    const at = askedAt(entry, services);
    const result = await linking.link(record.sub, proven.linking, proven.amr, session, at);
    if (result.kind === "linked") return linked(entry, services, proven);
    if (result.kind === "limited") return result;
    if (result.kind === "taken" || result.kind === "full" || result.kind === "domain")
      return { kind: "next", state: atLink(proven, result.kind) };
    // The account has changed since the person signed in.
    return CHANGED;
  },
};

/** The sign-in goes on as the account is now: all its sessions have ended, and this one begins. */
async function linked(entry: Entry, services: StepServices, proven: Linker): Promise<Outcome> {
  const { linking: done, ...shown } = proven;
  const { provider } = done.identity;
  services.protocol.detach(entry.signIn, proven.sub);
  const record = await services.accounts.record(proven.sub);
  if (record === undefined) return CHANGED;
  const isOnly = onlyProvider(services.configuration, record) !== undefined;
  // What the account signs in with is the identity.
  const now = isOnly ? { ...shown, amr: [...WAYS.provider.amr, ...shown.amr], provider } : shown;
  return proceed(withoutUpstream(entry), services, record, now);
}

async function withoutLinking(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  { linking: _linking, ...shown }: Linker,
): Promise<Outcome> {
  // Without the identity, such an account can't sign in.
  if (onlyProvider(services.configuration, record) !== undefined)
    return { kind: "next", state: startOver({}) };
  return proceed(withoutUpstream(entry), services, record, shown);
}
