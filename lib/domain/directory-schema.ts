/** What the calls about services, groups and portals accept. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { NOTIFICATION_TYPES } from "../../notifier/plan.ts";
import { receiverAddressProblem } from "./text-rules.ts";
import { exactly, ruled } from "./arguments.ts";
import type { EntrySettings, ServiceSettings } from "./directory-entry.ts";
import { type ReceiverSettings, signingSecrets } from "./receivers.ts";
import { keyProblem, textProblem } from "./text-rules.ts";

const types = z
  .array(z.enum(NOTIFICATION_TYPES, { error: `must be one of ${NOTIFICATION_TYPES.join(", ")}` }), {
    error: "must be a list of notification types",
  })
  .refine((all) => new Set(all).size === all.length, { error: "must not have a type twice" });

/** RFC 7617 section 2: no control characters, and the colon ends the user-id. */
const credential = ruled(textProblem);

const receiver: z.ZodType<ReceiverSettings> = exactly({
  url: described(ruled(receiverAddressProblem), {
    form: "an absolute http or https URL without user, password and fragment",
    description:
      "Where notifications are sent; whether it may be connected to is checked each time, see `notifications.allowedReceivers`",
    otherwise: "required",
  }),
  client_id: described(
    ruled((text) => textProblem(text) ?? (text.includes(":") ? "must not have a colon" : undefined)),
    {
      form: "a text of 1 to 256 characters without a colon",
      description: "User of the Basic credentials that the receiver expects",
      otherwise: "required",
    },
  ),
  client_secret: described(credential, {
    form: "a text of 1 to 256 characters",
    description: "Password of the Basic credentials that the receiver expects",
    otherwise: "required",
  }),
  types: described(types, {
    form: `a list of different entries, each one of ${NOTIFICATION_TYPES.map((type) => `\`${type}\``).join(", ")}`,
    description: "The notifications that it gets",
    otherwise: "required",
  }),
  signing_secret: described(ruled(signingSecretProblem).optional(), {
    form: "`whsec_` and the Base64 of 24 to 64 bytes, or two of that with a space between them",
    description:
      "Signs notifications (Standard Webhooks); while it is being changed both are given, the new one first",
    otherwise: "none: notifications are not signed",
  }),
});

function isSigningSecret(text: string): boolean {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/u.exec(text)?.[1] ?? "";
  const bytes = Buffer.from(encoded, "base64");
  return bytes.length >= 24 && bytes.length <= 64 && bytes.toString("base64") === encoded;
}

function signingSecretProblem(text: string): string | undefined {
  const secrets = signingSecrets(text);
  return secrets.length <= 2 && secrets.every(isSigningSecret)
    ? undefined
    : "must be whsec_ and the Base64 of 24 to 64 bytes, or two of that with a space between them";
}

/** Key of a service, group or portal. */
export const entryKey: z.ZodType<string> = ruled(keyProblem);

const entry = {
  name: described(ruled(textProblem), {
    form: "a text of 1 to 256 characters",
    description: "What people see",
    otherwise: "required",
  }),
  receiver: receiver.optional(),
};

/** What a group or portal is made of. */
export const entrySettings: z.ZodType<EntrySettings> = exactly(entry);

/** What a service is made of. */
export const serviceSettings: z.ZodType<ServiceSettings> = exactly({
  ...entry,
  group: described(ruled(keyProblem).nullish(), {
    form: "the key of a group",
    description: "The group that it belongs to",
    otherwise: "none",
  }),
});
