/** The services, groups and portals of a campaign, and who receives what: facts that the oracle reads too. */
import { createHash } from "node:crypto";
import type { SignInService } from "../../../lib/index.ts";

export type NotificationType = "DELETE_ACCOUNT" | "UNASSINGED_FROM_SERVICE" | "PROFILE_CHANGED";

/**
 * What a receiver does until it recovers. `answers`: 200. `fails`: 500 at random. `closes`: cuts the connection at
 * random. `hangs`: does not answer, with short breaks.
 */
export type Manner = "answers" | "fails" | "closes" | "hangs";

export interface Receiver {
  readonly name: string;
  readonly manner: Manner;
  readonly types: readonly NotificationType[];
  /** It gets one notification about these services, or about all services of the accounts of a portal. */
  readonly notifiedOf: { readonly services: readonly string[] } | { readonly portal: string };
  /** Whether its notifications are signed. */
  readonly signed: boolean;
}

const ALL: readonly NotificationType[] = ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE", "PROFILE_CHANGED"];

/** Six receivers that get notifications, and one that never does, because the group of its service has a receiver. */
export const RECEIVERS: readonly Receiver[] = [
  { name: "group:media", manner: "fails", types: ALL, notifiedOf: { services: ["1", "2"] }, signed: true },
  { name: "service:2", manner: "answers", types: ALL, notifiedOf: { services: [] }, signed: false },
  { name: "service:3", manner: "closes", types: ALL, notifiedOf: { services: ["3"] }, signed: true },
  { name: "service:4", manner: "hangs", types: ALL, notifiedOf: { services: ["4"] }, signed: true },
  {
    name: "service:5",
    manner: "answers",
    types: ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE"],
    notifiedOf: { services: ["5"] },
    signed: false,
  },
  { name: "portal:north", manner: "answers", types: ALL, notifiedOf: { portal: "north" }, signed: true },
  {
    name: "portal:south",
    manner: "answers",
    types: ["DELETE_ACCOUNT", "PROFILE_CHANGED"],
    notifiedOf: { portal: "south" },
    signed: true,
  },
];

/** Service → its group. The group `plain` has no receiver; only portals get notifications about service 6. */
const SERVICES: Readonly<Record<string, string | undefined>> = {
  "1": "media",
  "2": "media",
  "3": undefined,
  "4": undefined,
  "5": "plain",
  "6": undefined,
};
const GROUPS = ["media", "plain"] as const;

export const SERVICE_KEYS: readonly string[] = Object.keys(SERVICES);
/** The portal `east` has no receiver. */
export const PORTALS: readonly string[] = ["north", "south", "east"];

/** The credentials for a receiver. */
export interface Credentials {
  readonly client_id: string;
  readonly client_secret: string;
  readonly signing_secret?: string;
}

export function credentialsOf({ name, signed }: Receiver): Credentials {
  const key = createHash("sha256").update(name).digest("base64");
  const credentials = { client_id: name.replace(":", "-"), client_secret: `the secret of ${name}` };
  return signed ? { ...credentials, signing_secret: `whsec_${key}` } : credentials;
}

/** Writes the directory. */
export async function putDirectory(
  { directory }: Pick<SignInService, "directory">,
  urlOf: (receiver: string) => string,
): Promise<void> {
  const receiverOf = (name: string): object => {
    const receiver = RECEIVERS.find((each) => each.name === name);
    if (receiver === undefined) return {};
    return { receiver: { url: urlOf(name), types: receiver.types, ...credentialsOf(receiver) } };
  };
  for (const key of GROUPS) await directory.groups.put(key, { name: key, ...receiverOf(`group:${key}`) });
  for (const key of PORTALS) await directory.portals.put(key, { name: key, ...receiverOf(`portal:${key}`) });
  for (const [key, group] of Object.entries(SERVICES)) {
    const grouped = group === undefined ? {} : { group };
    await directory.services.put(key, { name: key, ...grouped, ...receiverOf(`service:${key}`) });
  }
}
