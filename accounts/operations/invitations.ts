/** The operations on invitations: people whom an administrator asks to make an account. */
import { z } from "zod";
import { newInvitation } from "../account-schema.ts";
import { anyString, choice, exactly } from "../arguments.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

const state = choice(["waiting", "accepted", "withdrawn", "void", "expired"]);

const shown = exactly({
  /** A UUID. */
  id: z.string(),
  email: z.string(),
  /** Keys of the services that the account is assigned to. */
  services: z.array(z.string()).readonly(),
  /** Service key → the roles in this service; services without are left out. */
  roles: z.record(z.string(), z.array(z.string()).readonly()).readonly(),
  /**
   * `waiting` for the person; `accepted`, `withdrawn`; `expired`: seven days are over; `void`: whoever invited has lost the right to, or
   * the address got an account in another way.
   */
  state,
  /** How often it can still be sent again. */
  sends_left: z.int(),
  /** Seconds since the epoch. */
  sent_at: z.int(),
  /** When its link ends, in seconds since the epoch. */
  expires_at: z.int(),
  /** Who invited. */
  invited_by: exactly({ kind: z.string(), id: z.string().nullable() }).readonly(),
  /** The account that it became; `null` before that. */
  sub: z.string().nullable(),
});

/** An invitation. Its link is in the mail and nowhere else. */
export interface Invitation extends Readonly<z.output<typeof shown>> {}
const invitation: z.ZodType<Invitation> = shown.meta({ id: "Invitation" });

const READS = { role: "viewer", limited: false, confirm: "none", audit: [], errors: [] } as const;
const COLUMNS = ["id", "email", "state", "services", "sent_at", "expires_at", "sends_left"] as const;
const ONE = { target: ["id"], columns: [], example: { target: ["ID"], input: {} } } as const;

export const invitations = operations("invitation", {
  /**
   * Lists invitations, newest first.
   *
   * One is listed for 90 days after its link has ended.
   */
  list: operation({
    ...READS,
    effect: "list",
    target: [],
    input: exactly({
      /** Only those to this address. */
      email: anyString.exactOptional(),
      /** Only those in this state. */
      state: state.exactOptional(),
    }),
    output: invitation,
    columns: COLUMNS,
    latest: 100,
    example: { target: [], input: { state: "waiting" } },
  }),
  /**
   * Shows an invitation.
   * @returns `undefined` if there is none.
   */
  find: operation({ ...READS, ...ONE, effect: "read", input: NONE, output: invitation }),
  /**
   * Invites somebody: sends a mail with a link that works once, for seven days and in any browser.
   *
   * The account exists when the person has chosen a password or a passkey there; its address is then confirmed.
   *
   * @throws NameTaken when an account has the address, or the username. Nobody is mailed.
   * @throws AlreadyExists when an invitation to the address is waiting: send that one again, or withdraw it.
   * @throws UnknownReference when a service, role or portal is not in the directory.
   * @throws SignInError `not_applicable` without mail, and for an address of a domain that signs in at its provider only.
   */
  create: operation({
    effect: "create",
    target: [],
    input: newInvitation,
    output: invitation,
    role: "administrator",
    limited: false,
    confirm: "none",
    audit: ["invitation.sent"],
    errors: ["name_taken", "already_exists", "unknown_reference", "not_applicable"],
    columns: [],
    example: { target: [], input: { email: "hedy@example.com", services: ["news"] } },
  }),
  /**
   * Sends an invitation again, three times at most.
   *
   * The link of the mail before stops working, and the seven days begin anew.
   *
   * @throws NotFound if there is no such invitation.
   * @throws SignInError `not_applicable` when it was accepted, withdrawn, is void, or was sent often enough.
   */
  send: operation({
    ...ONE,
    effect: "verb",
    input: NONE,
    output: invitation,
    role: "support",
    limited: false,
    confirm: "none",
    audit: ["invitation.sent"],
    errors: ["not_found", "not_applicable"],
  }),
  /**
   * Withdraws an invitation: its link stops working.
   *
   * @throws NotFound if there is no such invitation.
   * @throws SignInError `not_applicable` when it was accepted or withdrawn.
   */
  withdraw: operation({
    ...ONE,
    effect: "verb",
    input: NONE,
    output: invitation,
    role: "support",
    limited: false,
    confirm: "final",
    audit: ["invitation.withdrawn"],
    errors: ["not_found", "not_applicable"],
  }),
});

type All = Facade<typeof invitations.rows>;

/** The invitations that there are. `accounts.invite` makes one. */
export interface Invitations extends Omit<All, "create"> {}

/** The call of `accounts` that makes an invitation. */
export interface Invites {
  readonly invite: All["create"];
}
