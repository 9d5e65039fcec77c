/**
 * Every type of account event, a row each: when it is sent, and what it tells. `docs/events.schema.json` and
 * `docs/notifications/events.md` are made from these rows, and each event that is sent fits its row.
 * Specification: `decisions.md`, "Events for one's own systems".
 */
import { z } from "zod";
import { type EventReceiverSettings, EVENT_TYPES, type EventType } from "../../config/events.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import type { AuditDetail, AuditEvent } from "../../records/audit/audit-event.ts";
import type { AccountRecord, IdentityLink } from "../../records/directory/directory.ts";
import { isDisabled, passwordGeneration } from "../account.ts";
import { attributeValue } from "../account-schema.ts";
import { exactly } from "../arguments.ts";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { type FieldValues, type PersonFields, valueOf } from "../profile-fields.ts";

/** Everything that deliveries are about: notifications, and account events. */
export const DELIVERED_TYPES = [...NOTIFICATION_TYPES, ...EVENT_TYPES] as const;

export type DeliveredType = (typeof DELIVERED_TYPES)[number];

/** Raised when a receiver that fits the schema of before could fail. A new type or a new member is no such change. */
export const EVENTS_VERSION = 1;

/** A committed change of an account, as its events see it. */
export interface AccountStep {
  /** `undefined`: the account is new. */
  readonly before: AccountRecord | undefined;
  /** `undefined`: the account is deleted. */
  readonly after: AccountRecord | undefined;
  /** How the audit calls the change. */
  readonly action: string;
  readonly detail?: AuditDetail | undefined;
  /** An import: whether it sends events. Others always do. */
  readonly isAnnounced?: boolean | undefined;
}

/** What an event tells besides the account. */
type Told = Readonly<Record<string, unknown>>;

interface EventRow {
  /** When it is sent, completing "Sent when …". */
  readonly when: string;
  /** The members of `data` besides those of every event. */
  readonly tells: z.ZodRawShape;
  readonly example: Told;
  /** One entry for each event that a change of an account causes. Default: none does. */
  readonly ofChange?: (step: AccountStep, fields: PersonFields) => readonly Told[];
  /** The same for what the audit collects, because it changes no account. */
  readonly ofNote?: (event: AuditEvent) => readonly Told[];
}

/** A change of an account that was there before and stays. */
type Change = (before: AccountRecord, after: AccountRecord) => readonly Told[];

const whenChanged =
  (told: Change) =>
  ({ before, after }: AccountStep): readonly Told[] =>
    before === undefined || after === undefined ? [] : told(before, after);

const once = (isTold: boolean): readonly Told[] => (isTold ? [{}] : []);

/** The keys of the first that the second does not have. */
const keysBesides = (one: object, other: object): string[] =>
  Object.keys(one)
    .filter((key) => !Object.hasOwn(other, key))
    .toSorted();

/** Each factor once: `app`, and `passkey` for each passkey. */
function factorsBesides({ ways }: AccountRecord, other: AccountRecord): Told[] {
  const others = new Set(other.ways.passkey?.ids);
  return [
    ...(ways.app === true && other.ways.app !== true ? [{ factor: "app" }] : []),
    ...(ways.passkey?.ids ?? []).filter((id) => !others.has(id)).map(() => ({ factor: "passkey" })),
  ];
}

const linksOf = ({ ways }: AccountRecord): readonly IdentityLink[] => ways.provider?.links ?? [];

function identitiesBesides(one: AccountRecord, other: AccountRecord): Told[] {
  const others = new Set(linksOf(other).map(({ id }) => id));
  return linksOf(one)
    .filter(({ id }) => !others.has(id))
    .map(({ provider }) => ({ provider }));
}

const rolesIn = (record: AccountRecord, service: string): readonly string[] =>
  ownValue(record.roles ?? {}, service) ?? [];

/** Why all sessions ended with a change, by how the audit calls it. */
const SESSION_REASONS: Readonly<Record<string, string>> = {
  "account.disabled": "disabled",
  "account.password_changed": "password",
  "account.password_reset": "password",
};

/** Why one session ended, as the audit collects it. */
const ONE_SESSION: ReadonlySet<string> = new Set(["signed_out", "ended", "limit"]);

const service = z.string().describe("The key of the service");
const provider = z.string().describe("The key of the provider in the configuration");
const services = z.array(z.string()).describe("The keys of the services that the account is assigned to");
const factor = z.enum(["app", "passkey"]).describe("An authenticator app, or a passkey");
const client_id = z.string().describe("The client");

const ROWS: Readonly<Record<EventType, EventRow>> = {
  "account.registered": {
    when: "a person has registered and confirmed the address; there is no `account.created` then",
    tells: {
      services,
      provider: provider.optional().describe("With which provider, if with one"),
      invitation: z.string().optional().describe("The id of the invitation, if the person accepted one"),
    },
    example: { services: [] },
    ofChange: ({ before, after, action, detail }) => {
      if (before !== undefined || after === undefined || action !== "account.registered") return [];
      const { provider: by, invitation } = detail ?? {};
      return [
        {
          services: Object.keys(after.services).toSorted(),
          ...(by !== undefined && { provider: by }),
          ...(invitation !== undefined && { invitation }),
        },
      ];
    },
  },
  "account.created": {
    when: "an account is created by an operator or a program; for an import only when it asks for events",
    tells: { services },
    example: { services: ["1"] },
    ofChange: ({ before, after, action }) => {
      if (before !== undefined || after === undefined || action === "account.registered") return [];
      return [{ services: Object.keys(after.services).toSorted() }];
    },
  },
  "account.updated": {
    when: "fields or attributes have another value, except the e-mail address",
    tells: { fields: z.array(z.string()).describe("Their names") },
    example: { fields: ["surname"] },
    ofChange({ before, after }, personFields) {
      if (before === undefined || after === undefined) return [];
      const isConfirmed = before.email === after.email && before.email_verified !== after.email_verified;
      const fields = [...(isConfirmed ? ["email_verified"] : []), ...personFields.changed(before, after)];
      return fields.length === 0 ? [] : [{ fields }];
    },
  },
  "account.deleted": {
    when: "an account is deleted. It is the last event of the account",
    tells: {},
    example: {},
    ofChange: ({ before, after }) => once(before !== undefined && after === undefined),
  },
  "account.disabled": {
    when: "an account is disabled",
    tells: {},
    example: {},
    ofChange: whenChanged((before, after) => once(!isDisabled(before) && isDisabled(after))),
  },
  "account.enabled": {
    when: "a disabled account is enabled",
    tells: {},
    example: {},
    ofChange: whenChanged((before, after) => once(isDisabled(before) && !isDisabled(after))),
  },
  "account.signed_in": {
    when: "a person has signed in, or a client got tokens with a username and a password; not when a session that exists is used again",
    tells: { client_id, provider: provider.optional().describe("With which provider, if with one") },
    example: { client_id: "news" },
    ofNote({ action, outcome = "success", actor, client, detail }) {
      if ((action !== "sign_in" && action !== "password_grant") || outcome !== "success") return [];
      const by = detail?.["provider"];
      return [{ client_id: client?.client_id ?? actor.id ?? "", ...(by !== undefined && { provider: by }) }];
    },
  },
  "account.password_changed": {
    when: "the password is another one, or is void",
    tells: { has_password: z.boolean().describe("Whether the account has a password now") },
    example: { has_password: true },
    ofChange: whenChanged((before, after) =>
      passwordGeneration(before) === passwordGeneration(after)
        ? []
        : [{ has_password: (after.ways.password?.hash ?? null) !== null }],
    ),
  },
  "account.address_changed": {
    when: "the e-mail address is another one",
    tells: {},
    example: {},
    ofChange: whenChanged((before, after) => once(before.email !== after.email)),
  },
  "account.factor_added": {
    when: "an authenticator app or a passkey is added",
    tells: { factor },
    example: { factor: "passkey" },
    ofChange: whenChanged((before, after) => factorsBesides(after, before)),
  },
  "account.factor_removed": {
    when: "an authenticator app or a passkey is removed, whoever or whatever removes it",
    tells: { factor },
    example: { factor: "app" },
    ofChange: whenChanged((before, after) => factorsBesides(before, after)),
  },
  "account.identity_linked": {
    when: "an identity at another provider is linked",
    tells: { provider },
    example: { provider: "google" },
    ofChange: whenChanged((before, after) => identitiesBesides(after, before)),
  },
  "account.identity_unlinked": {
    when: "an identity at another provider is unlinked, whoever or whatever unlinks it",
    tells: { provider },
    example: { provider: "google" },
    ofChange: whenChanged((before, after) => identitiesBesides(before, after)),
  },
  "account.sessions_ended": {
    when: "all sign-in sessions of an account ended, or all but the one in which the person ended them; or one ended",
    tells: {
      reason: z
        .enum(["ended", "password", "disabled", "signed_out", "limit"])
        .describe(
          "`ended`: by an operator or the person; `password`, `disabled`: with that change; `signed_out`: the person signed out; `limit`: the account had too many",
        ),
      all: z.boolean().describe("Whether it is about all sessions, not one"),
    },
    example: { reason: "ended", all: true },
    ofChange: ({ before, after, action }) =>
      before === undefined || after === undefined || before.sessions_generation === after.sessions_generation
        ? []
        : [{ reason: SESSION_REASONS[action] ?? "ended", all: true }],
    ofNote: ({ action, reason = "" }) =>
      action === "session.ended" && ONE_SESSION.has(reason) ? [{ reason, all: false }] : [],
  },
  "account.roles_changed": {
    when: "an account has other roles in a service that it is assigned to",
    tells: { service, roles: z.array(z.string()).describe("Its roles there now") },
    example: { service: "1", roles: ["editor"] },
    ofChange: whenChanged((before, after) =>
      Object.keys(after.services)
        .toSorted()
        .filter((key) => rolesIn(before, key).join(" ") !== rolesIn(after, key).join(" "))
        .map((key) => ({ service: key, roles: rolesIn(after, key) })),
    ),
  },
  "account.assigned": {
    when: "an account is assigned to a service, or has another number there",
    tells: {
      service,
      user_id_in_service: z
        .int()
        .nullable()
        .describe("Its number there; `null` until the service reports it"),
    },
    example: { service: "1", user_id_in_service: null },
    ofChange: whenChanged((before, after) =>
      Object.entries(after.services)
        .filter(([key, number]) => ownValue(before.services, key) !== number)
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([key, user_id_in_service]) => ({ service: key, user_id_in_service })),
    ),
  },
  "account.unassigned": {
    when: "an account is no longer assigned to a service",
    tells: { service },
    example: { service: "1" },
    ofChange: whenChanged((before, after) =>
      keysBesides(before.services, after.services).map((key) => ({ service: key })),
    ),
  },
  "account.invited": {
    when: "somebody is invited. There is no account yet: `data` has `invitation` in place of `sub` and `user_id`",
    tells: {},
    example: {},
  },
};

/** The table of the types. A new type is a row, and a name in `config/events.ts`. */
export const EVENT_ROWS: ReadonlyMap<EventType, EventRow> = new Map(
  EVENT_TYPES.map((type) => [type, ROWS[type]] as const),
);

/** What `include` names, by name. */
const profile = z
  .record(z.string(), attributeValue.nullable())
  .optional()
  .describe("What `include` of the receiver names: name → value after the event, or `null` without one");

const ABOUT_ACCOUNT = {
  sub: z.string().describe("The account: the `sub` in tokens"),
  user_id: z.int().describe("The number of the account"),
};
const ABOUT_INVITATION = { invitation: z.string().describe("The id of the invitation") };

/** The whole body of one type. */
export function eventSchema(type: EventType): z.ZodType<EventBody> {
  const about = type === "account.invited" ? ABOUT_INVITATION : ABOUT_ACCOUNT;
  return exactly({
    type: z.literal(type),
    timestamp: z.iso.datetime().describe("When it happened, in UTC"),
    data: exactly({ ...about, ...ROWS[type].tells, profile }),
  });
}

/** The body of an event; its members come in this order. */
export interface EventBody {
  readonly type: EventType;
  /** ISO 8601, as Standard Webhooks has it. */
  readonly timestamp: string;
  readonly data: Told;
}

/** No account has these. */
const NOBODY = { sub: "00000000-0000-0000-0000-000000000000", user_id: 0 };

/**
 * An event that did not happen, for the documentation, for tests of a receiver and for operators.
 * @param at seconds since the epoch.
 * @param given the account, with what `include` names. Default: nobody.
 */
export function exampleEvent(type: EventType, at: number, given?: Told): EventBody {
  const about: Told = given ?? (type === "account.invited" ? { invitation: NOBODY.sub } : NOBODY);
  const { profile: included, ...account } = about;
  return eventBody(type, at, {
    ...account,
    ...ROWS[type].example,
    ...(included !== undefined && { profile: included }),
  });
}

/** @param at seconds since the epoch. */
export function eventBody(type: EventType, at: number, data: Told): EventBody {
  return { type, timestamp: new Date(at * 1000).toISOString(), data };
}

/** All that `include` can name, as an account or an invitation has it. */
export function valuesTold(
  record: FieldValues & Pick<AccountRecord, "email"> & { readonly email_verified?: boolean },
  { rows }: PersonFields,
): Told {
  const { email, email_verified = false } = record;
  return {
    email,
    email_verified,
    ...Object.fromEntries(rows.map((row) => [row.name, valueOf(row, record)])),
  };
}

/** The members that `include` names. @param values all that can be told. */
export function profileOf(
  { include }: Pick<EventReceiverSettings, "include">,
  values: Readonly<Record<string, unknown>>,
): Told {
  if (include.length === 0) return {};
  return { profile: Object.fromEntries(include.map((name) => [name, ownValue(values, name) ?? null])) };
}
