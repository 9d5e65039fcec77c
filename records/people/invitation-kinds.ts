/** Invitations: people whom an administrator has asked to make an account. */
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Actor } from "../audit/audit-event.ts";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** An invitation as it is stored. Times are in milliseconds since the epoch. */
export interface StoredInvitation {
  /** A UUID. */
  readonly id: string;
  /** A keyed digest of the address, as it is compared at sign-in. */
  readonly address: string;
  /** Sealed JSON: the address, and what the account gets. */
  readonly sealed: string;
  /** `void`: its address got an account in another way. What else makes it void is not stored. */
  readonly state: "waiting" | "accepted" | "withdrawn" | "void";
  readonly invitedBy: Actor;
  /** Whoever invited was an administrator of the configuration then: the invitation ends with that role. */
  readonly byAdministrator: boolean;
  /** The deployment that its link leads to. */
  readonly deployment: DeploymentKind;
  /** How often it can still be sent again. */
  readonly sendsLeft: number;
  /** The account that it became. */
  readonly sub: string | null;
  readonly createdAt: number;
  readonly sentAt: number;
  /** When its link ends. */
  readonly expiresAt: number;
}

/** The sealing context of an invitation. */
export const invitationContext = (id: string): string => `invitation ${id}`;

/** How long it is listed once its link has ended. */
const LISTED_MS = 90 * 86_400_000;

/** The only partition. */
const ALL = "all";

export const INVITATION: Kind<StoredInvitation, "all" | "address"> = defineKind({
  name: "invitation",
  holds: "an invitation: a person may make an account",
  key: "a UUID",
  keyOf: ({ id }) => id,
  index: {
    all: ({ createdAt }) => [{ at: ALL, order: createdAt }],
    address: ({ address, createdAt }) => [{ at: address, order: createdAt }],
  },
  indexFor: {
    all: "listing invitations",
    address: "finding those of an address",
  },
  // The account that it became.
  parent: { kind: ACCOUNT, key: ({ sub }) => sub ?? undefined },
  expires: "90 days after its link",
  expiresAt: ({ expiresAt }) => expiresAt + LISTED_MS,
  sealed: ({ sealed, ...rest }, replace) => ({
    ...rest,
    sealed: replace(invitationContext(rest.id), sealed),
  }),
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "void while it waits: its link is gone",
    change: (invitation) => (invitation.state === "waiting" ? { ...invitation, state: "void" } : invitation),
  },
  afterReset: "removed",
  personal:
    "the `sub` and a keyed digest of the address; sealed with `keys.secrets`: the address, the profile, services and roles",
});

export const BY_CREATION: ReturnType<typeof INVITATION.where> = INVITATION.where("all", ALL);
