/**
 * Linking an identity of a provider to an account (decisions.md, Linking, and Domains): what it needs besides the sign-in, the code
 * that stands in for a second factor, and the link. The sign-in and the account page show it; both ask here.
 *
 * Linking is enrolling: whoever can use the identity can sign in afterwards. So it takes a recent sign-in by what the account has
 * of its own, and its second factor or a code from its mailbox; and nothing is linked before the person has seen both parties.
 */
import type { IdentityProvider } from "../../config/providers.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { identityId } from "../../records/people/identity-kinds.ts";
import { isDisabled } from "../account.ts";
import { createGuardCodes, type SentGuardCode } from "../factors/guard-codes.ts";
import { hasSecondFactor } from "../factors/factor.ts";
import type { Unproven } from "../people/confirmations.ts";
import type { AskedAt, Limited } from "../people/requests.ts";
import { onlyProvider, providerForDomain } from "../providers.ts";
import type { AccountServices } from "../services.ts";
import { hasShown, hasWay, outranksMail, type Way } from "../ways/ways.ts";
import type { Identities } from "./identities.ts";
import type { Linked, LinkingSession, NotLinked } from "./identity.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";

/** What a person has done so far to link an identity. Plain JSON, to be kept sealed. */
export interface StartedLinking {
  readonly identity: UpstreamIdentity;
  /** The code from the mailbox was right: see {@link Linking.prove}. */
  readonly confirmed?: true;
}

/** What linking needs next. */
export type LinkingNeed =
  /** Nothing: the person may see the page that links. */
  | "nothing"
  /** A code from the mailbox: see {@link Linking.sendCode}. */
  | "code"
  /** A sign-in by what the account has of its own: what was shown is too little. */
  | "sign-in"
  | LinkingRefusal;

/**
 * Why an identity can't be linked. `taken`: it belongs to another account; `full`: the account has one of this provider, perhaps
 * this one; `domain`: the provider is for addresses of other domains, or the account signs in with another provider only.
 */
export type LinkingRefusal = "taken" | "full" | "domain";

export const isLinkingRefusal = (need: LinkingNeed): need is LinkingRefusal =>
  need === "taken" || need === "full" || need === "domain";

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Linking {
  /**
   * What is missing before this identity can be linked to this account.
   * @param amr what the person has shown in a sign-in not older than five minutes.
   */
  need(account: AccountRecord, started: StartedLinking, amr: readonly string[]): Promise<LinkingNeed>;
  /**
   * Sends a code to the confirmed address, or to the one before it for seven days after a change: the rule of the first factor.
   * @param subject the sign-in or session that waits for it: the id of the interaction, or the `uid` of the session.
   */
  sendCode(
    account: AccountRecord,
    identity: UpstreamIdentity,
    subject: string,
    at: AskedAt,
  ): Promise<SentGuardCode | Limited>;
  /**
   * Uses the code up. Only one that was sent for this account, this identity and this subject is right.
   * @param code as typed.
   */
  prove(
    sub: string,
    identity: UpstreamIdentity,
    subject: string,
    code: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "proven" } | Unproven>;
  /**
   * Links the identity, after the POST of the page that shows both parties.
   * @param session with the generation of the account when the person showed what `amr` says: whatever has changed the account
   *   since makes the person begin again.
   */
  link(
    sub: string,
    started: StartedLinking,
    amr: readonly string[],
    session: LinkingSession,
    at: AskedAt,
  ): Promise<Linked | NotLinked | Limited | { readonly kind: "code" | "sign-in" | "domain" }>;
}

/**
 * Whether an account with this address may have an identity of this provider: one with domains is for their addresses alone, and
 * accounts in a domain with an only way in have no other.
 * @param key of the provider; `undefined`: none.
 */
export function isInDomains(
  providers: readonly IdentityProvider[],
  key: string | undefined,
  email: string | undefined,
): boolean {
  const own = email === undefined ? undefined : providerForDomain(providers, email);
  if (own?.key === key) return true;
  const isForAll = providers.every((provider) => provider.key !== key || provider.domains.length === 0);
  return own?.only !== true && isForAll;
}

/** What a code is for. */
const guardedBy = (identity: UpstreamIdentity, subject: string) => ({
  subject,
  what: identityId(identity),
  params: { provider: identity.provider },
});

export function createLinking(
  services: Pick<
    AccountServices,
    "configuration" | "storage" | "clock" | "accounts" | "confirmations" | "limits" | "audit"
  >,
  identities: Pick<Identities, "find" | "link">,
): Linking {
  const { accounts, configuration } = services;
  const { providers } = configuration;
  const codes = createGuardCodes(services, { purpose: "identity-link", mail: "confirm-identity" });

  async function need(
    account: AccountRecord,
    { identity, confirmed }: StartedLinking,
    amr: readonly string[],
  ): Promise<LinkingNeed> {
    const { provider } = identity;
    const only = onlyProvider(configuration, account);
    if (only !== undefined && only.key !== provider) return "domain";
    if (!isInDomains(providers, provider, identity.email)) return "domain";
    const holder = await identities.find(identity);
    if (holder !== undefined && holder.sub !== account.sub) return "taken";
    if (account.ways.provider?.links.some((link) => link.provider === provider) === true) return "full";
    const factor = hasSecondFactor(account);
    if (factor && !amr.includes("mfa")) return "sign-in";
    // The organization vouches for the person: in place of a sign-in by something else, the mailbox does, whatever else follows.
    if (only !== undefined) return confirmed ? "nothing" : "code";
    // A code by mail is enough for an account that has nothing of its own; the word of another provider never is.
    const isEnough = hasWay(account, outranksMail) ? outranksMail : ({ kind }: Way) => kind === "email";
    if (!hasShown(amr, isEnough)) return "sign-in";
    return factor || confirmed ? "nothing" : "code";
  }

  return {
    need,
    sendCode: (account, identity, subject, at) => codes.send(account, guardedBy(identity, subject), at),
    prove: (sub, identity, subject, code, at) => codes.prove(sub, guardedBy(identity, subject), code, at),

    async link(sub, started, amr, session, at) {
      const account = await accounts.record(sub);
      // The generation makes the decision hold until the commit: a factor that is added or removed raises it.
      if (
        account === undefined ||
        isDisabled(account) ||
        account.sessions_generation !== session.sessions_generation
      )
        return { kind: "changed" };
      const missing = await need(account, started, amr);
      if (missing !== "nothing") return { kind: missing };
      return identities.link(sub, started.identity, session, at);
    },
  };
}
