/** The key `events`: receivers of account events in systems of one's own, beside the documented notifications. */
import { z } from "zod";
import { isObjectName } from "../core/untrusted-keys.ts";
import { attributesOf, type AccountSettings } from "./attributes.ts";
import { described, list, section, text } from "./documented-schema.ts";
import type { Problem } from "./problems.ts";
import { isSigningSecret, SIGNING_SECRET_FORM, urlProblem } from "./value-forms.ts";

/** All types of account events. `accounts/events/event-types.ts` says when each is sent, and with which data. */
export const EVENT_TYPES = [
  "account.registered",
  "account.created",
  "account.updated",
  "account.deleted",
  "account.disabled",
  "account.enabled",
  "account.signed_in",
  "account.password_changed",
  "account.address_changed",
  "account.factor_added",
  "account.factor_removed",
  "account.identity_linked",
  "account.identity_unlinked",
  "account.sessions_ended",
  "account.roles_changed",
  "account.assigned",
  "account.unassigned",
  "account.invited",
] as const;

export type EventType = (typeof EVENT_TYPES)[number];

/** What an event can include of every account, besides the attributes of the configuration. */
export const INCLUDABLE = [
  "email",
  "email_verified",
  "username",
  "name",
  "surname",
  "date_of_birth",
  "gender",
  "locale",
  "portal",
] as const;

const MAX_RECEIVERS = 30;

const eventType = described(z.enum(EVENT_TYPES), {
  form: `one of ${EVENT_TYPES.map((type) => `\`${type}\``).join(", ")}`,
});

const eventReceiver = section({
  /** Where events are sent; its address is checked at every connection, see `notifications.allowedReceivers`. */
  url: described(
    z.string().refine((address) => urlProblem(address) === undefined),
    { form: "an absolute http or https URL without user, password and fragment" },
  ),
  /** Signs events (Standard Webhooks); during a rotation both secrets, the new one first. */
  signing_secret: described(text(256, isSigningSecret, SIGNING_SECRET_FORM), { holds: "secret" }),
  /** The events that it receives. */
  types: list(eventType, 1),
  /** What events tell about the account besides its identifiers. Default `[]`. */
  include: described(
    list(
      text(40, (name) => !isObjectName(name), "a name"),
      0,
    ).default([]),
    {
      form: `a list of different entries, each one of ${INCLUDABLE.map((name) => `\`${name}\``).join(", ")}, or a key of \`accounts.attributes\``,
    },
  ),
});

/** A receiver of account events as it is configured. */
export interface EventReceiverSettings extends z.output<typeof eventReceiver> {}

/** Its type has a name, because only so the comments of its keys reach the declarations of other files. */
export const eventReceiverSchema: z.ZodType<
  EventReceiverSettings,
  z.input<typeof eventReceiver>
> = eventReceiver;

const keys = section({
  /**
   * Receivers of [account events](docs/notifications/events.md) in systems of your own, at most 30: key →
   * [description](#a-receiver-of-events). In lists, the receiver is `events:KEY`. Default `{}`.
   */
  receivers: described(
    z
      .record(z.string(), described(eventReceiver, { form: "an object that describes a receiver" }))
      .readonly()
      .default({}),
    { form: "an object: key → an object that describes a receiver" },
  ),
});

/** Events for one's own systems. */
export interface EventSettings extends z.output<typeof keys> {}
export interface EventsInput extends z.input<typeof keys> {}

/** Its type has a name, as that of `notifications`. */
export const events: z.ZodType<EventSettings, EventsInput> = keys;

/** What is wrong with receivers of events, beyond the form of each key. */
export function eventProblems(
  { receivers }: EventSettings,
  accounts: AccountSettings,
  allowedReceivers: readonly string[],
): readonly Problem[] {
  const problems: Problem[] = [];
  const path = ["events", "receivers"];
  const entries = Object.entries(receivers);
  if (entries.length > MAX_RECEIVERS)
    problems.push({ path, text: `must have at most ${MAX_RECEIVERS} receivers` });
  const known = new Set<string>([...INCLUDABLE, ...attributesOf(accounts).map(({ name }) => name)]);
  for (const [key, { url, include }] of entries.slice(0, MAX_RECEIVERS)) {
    const at = [...path, key];
    if (!/^[a-z][a-z0-9-]{0,31}$/u.test(key))
      problems.push({
        path: at,
        text: "is not a key for a receiver: it has 1 to 32 of a-z 0-9 -, a letter first",
      });
    else if (isObjectName(key))
      problems.push({ path: at, text: "must not have a name that every object has" });
    if (url.startsWith("http:") && allowedReceivers.length === 0)
      problems.push({
        path: [...at, "url"],
        text: "must be https, or config.notifications.allowedReceivers must name its host or network",
      });
    for (const [index, name] of include.entries())
      if (!known.has(name))
        problems.push({
          path: [...at, "include", index],
          text: `must be ${INCLUDABLE.join(", ")}, or a key of config.accounts.attributes`,
        });
  }
  return problems;
}
