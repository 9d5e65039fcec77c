/** The operations on the identities of an account at other providers. */
import { z } from "zod";
import { anyString, exactly, ruled } from "../arguments.ts";
import { identityProblem } from "../identities/identity.ts";
import { ANY, CHANGES, FINDS, ONE, SUB } from "./factors.ts";
import { NONE, operation } from "./operation.ts";

const shown = exactly({
  /** The key of the provider in the configuration. */
  provider: z.string(),
  /** The issuer, as the provider writes it; of Microsoft that of the tenant. */
  issuer: z.string(),
  /** The `sub` there; of Microsoft `tid:oid`, of GitHub the numeric `id`. */
  subject: z.string(),
  /** Seconds since the epoch. */
  linked_at: z.int(),
  /** Seconds since the epoch. `null`: never since it was linked. */
  last_used_at: z.int().nullable(),
});

/** An identity of an account at another provider. Its address there is shown to the person alone. */
export interface Identity extends Readonly<z.output<typeof shown>> {}
const identity: z.ZodType<Identity> = shown.meta({ id: "Identity" });

const newIdentity = exactly({
  /** The key of the provider in the configuration. */
  provider: anyString,
  /** Who the person is there: the `sub`; of Microsoft `tid:oid`, of GitHub the numeric `id`. Compared exactly as it is. */
  subject: ruled(identityProblem),
});

/** Called on `accounts`: an identity belongs to one account. */
export const identityRows = {
  /** Lists the identities of an account at other providers, the oldest first. Empty, too, if there is no such account. */
  identities: operation({
    ...FINDS,
    ...ONE,
    input: NONE,
    output: z.array(identity).readonly(),
    columns: ["provider", "issuer", "subject", "linked_at", "last_used_at"],
    path: "identities",
    words: "identities list",
    example: ANY,
  }),
  /**
   * Links an identity, so that the person can sign in with it the first time.
   *
   * Make sure that it is the person's: whoever can use it can sign in to the account. Ends all sessions; if mail is configured, the
   * person gets a mail with a link that undoes it for seven days.
   *
   * @throws NotFound if there is no such account.
   * @throws UnknownReference when no provider has this key.
   * @throws AlreadyExists when the identity is linked to an account, or the account has one of this provider.
   */
  linkIdentity: operation({
    ...CHANGES,
    effect: "create",
    input: newIdentity,
    output: identity,
    confirm: "page",
    audit: ["account.identity_linked"],
    errors: ["not_found", "unknown_reference", "already_exists"],
    recent: true,
    path: "identities",
    words: "identities link",
    example: { target: [SUB], input: { provider: "google", subject: "110169484474386276334" } },
  }),
  /**
   * Unlinks the identity of a provider.
   *
   * Ends all sessions; if mail is configured, the person gets a mail.
   *
   * @returns `false` if the account has none of this provider.
   * @throws SignInError `last_sign_in_method` when the account has no other way to sign in: set a password first.
   */
  unlinkIdentity: operation({
    ...CHANGES,
    effect: "remove",
    target: ["sub", "provider"],
    input: NONE,
    output: NONE,
    confirm: "final",
    audit: ["account.identity_unlinked"],
    errors: ["last_sign_in_method"],
    missing: "identity",
    recent: true,
    path: "identities",
    words: "identities unlink",
    example: { target: [SUB, "google"], input: {} },
  }),
};
