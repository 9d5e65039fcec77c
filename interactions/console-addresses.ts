/** Addresses of the delivery console, and the filter that stands in them. */
import type { DeliveryFilter, DeliveryState } from "../lib/deliveries/delivery.ts";
import { NOTIFICATION_TYPES } from "../notifier/plan.ts";

/** Below each base URL: the list. One delivery is below it, by its id. */
export const CONSOLE_PATH = "/account/deliveries";
/** Below each base URL. No delivery has this id. */
export const RECEIVERS_PATH = "/account/deliveries/receivers";

/** Every state of a delivery, in the order in which the filter shows them. */
export const STATES: readonly DeliveryState[] = ["waiting", "parked", "delivered", "discarded"];

/** What the list shows, or what is wrong with the question. */
export interface ConsoleQuestion {
  readonly filter: DeliveryFilter;
  /** Those after this delivery. */
  readonly after?: string;
  /** `sub`: what was typed is not one. `other`: no page of ours asks so. */
  readonly problem?: "sub" | "other";
}

const RECEIVER = /^(?:service|group|portal):[A-Za-z0-9_-]{1,64}$/;
const SUB = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const ID = /^[A-Za-z0-9_-]{1,255}$/;
const IS_STATE: ReadonlySet<string> = new Set(STATES);
const IS_TYPE: ReadonlySet<string> = new Set(NOTIFICATION_TYPES);

/** Whether this is the name of a receiver. */
export function isReceiver(name: string): boolean {
  return RECEIVER.test(name);
}

/** Reads the filter of an address or a form. An empty value is none. */
export function readQuestion(fields: ReadonlyMap<string, string>): ConsoleQuestion {
  const value = (name: string): string | undefined => fields.get(name) || undefined;
  const [state, receiver, type, after] = [value("state"), value("receiver"), value("type"), value("after")];
  const sub = value("sub")?.trim().toLowerCase() || undefined;
  const isOther =
    (state !== undefined && !IS_STATE.has(state)) ||
    (receiver !== undefined && !isReceiver(receiver)) ||
    (type !== undefined && !IS_TYPE.has(type)) ||
    (after !== undefined && !ID.test(after));
  if (isOther) return { filter: {}, problem: "other" };
  const filter: DeliveryFilter = {
    ...(state !== undefined && { state: state as DeliveryState }),
    ...(receiver !== undefined && { receiver }),
    ...(type !== undefined && { type }),
  };
  if (sub !== undefined && !SUB.test(sub)) return { filter, problem: "sub" };
  return { filter: { ...filter, ...(sub !== undefined && { sub }) }, ...(after !== undefined && { after }) };
}

/** The list with a filter. @param path of the console, as the browser sees it. */
export function listAddress(path: string, filter: DeliveryFilter, after?: string): string {
  const pairs = Object.entries({ ...filter, after }).filter(([, value]) => value !== undefined);
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs as [string, string][])}`;
}

/** One delivery. @param path of the console, as the browser sees it. */
export function deliveryAddress(path: string, id: string): string {
  return `${path}/${encodeURIComponent(id)}`;
}
