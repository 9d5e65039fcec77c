/** What the service tells a receiver, and the check of its form. Specification: "Notification" of the interface document. */
import { isObject } from "../core/untrusted-json.ts";

/** All notification types, spelled exactly as documented. A receiver lists those that it takes. */
export const NOTIFICATION_TYPES = ["DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE", "PROFILE_CHANGED"] as const;

/** The documented `notification_type`. */
export type NotificationType = (typeof NOTIFICATION_TYPES)[number];

/** The documented body; its members come in this order. */
export interface NotificationBody {
  readonly notification_type: NotificationType;
  readonly data: {
    readonly user_id: number;
    readonly user_uuid: string;
    readonly user_email: string;
    /** When it happened, in seconds since the epoch. */
    readonly timestamp: number;
    /** Service key → `user_id_in_service`. */
    readonly services: Readonly<Record<string, number | null>>;
  };
}

const UUID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;

const isServices = (value: unknown): value is NotificationBody["data"]["services"] =>
  isObject(value) && Object.values(value).every((id) => id === null || Number.isSafeInteger(id));

/** What each member of `data` must be. */
const MEMBERS: Readonly<Record<keyof NotificationBody["data"], (value: unknown) => boolean>> = {
  user_id: Number.isSafeInteger,
  user_uuid: (value) => typeof value === "string" && UUID.test(value),
  user_email: (value) => typeof value === "string",
  timestamp: Number.isSafeInteger,
  services: isServices,
};

/**
 * Reads the parsed body of a notification. Undocumented members are dropped, so that a later version may add some.
 * @returns the name of the first member that is wrong, if one is.
 */
export function readBody(value: unknown): NotificationBody | string {
  if (!isObject(value)) return "no object";
  const type = NOTIFICATION_TYPES.find((each) => each === value["notification_type"]);
  if (type === undefined) return "notification_type";
  const { data } = value;
  if (!isObject(data)) return "data";
  const wrong = Object.entries(MEMBERS).find(([name, isRight]) => !isRight(data[name]));
  if (wrong !== undefined) return `data.${wrong[0]}`;
  const { user_id, user_uuid, user_email, timestamp, services } = data as unknown as NotificationBody["data"];
  return { notification_type: type, data: { user_id, user_uuid, user_email, timestamp, services } };
}
