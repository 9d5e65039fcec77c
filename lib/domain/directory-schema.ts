/** What the calls about services, groups and portals accept. */
import { z } from "zod";
import { NOTIFICATION_TYPES } from "../../notifier/plan.ts";
import { receiverAddressProblem } from "./addresses.ts";
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
  url: ruled(receiverAddressProblem),
  client_id: ruled((text) => textProblem(text) ?? (text.includes(":") ? "must not have a colon" : undefined)),
  client_secret: credential,
  types,
  signing_secret: ruled(signingSecretProblem).optional(),
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

const entry = { name: ruled(textProblem), receiver: receiver.optional() };

/** What a group or portal is made of. */
export const entrySettings: z.ZodType<EntrySettings> = exactly(entry);

/** What a service is made of. */
export const serviceSettings: z.ZodType<ServiceSettings> = exactly({
  ...entry,
  group: ruled(keyProblem).nullish(),
});
