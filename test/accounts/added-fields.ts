/** The attributes of a service of the tests. */
import type { AccountSettings } from "../../config/attributes.ts";
import { defaults } from "../../config/schema.ts";
import type { FieldSettings } from "../../accounts/profile-fields.ts";

/** One of each type, and the standard ones. */
export const ADDED: AccountSettings["attributes"] = {
  /** The person edits it, a client needs its own scope to read it, and a change sends a notification. */
  department: {
    type: "text",
    label: { en: "Department", pl: "Dział" },
    maxLength: 1000,
    edit: "person",
    registration: "required",
    scope: "org",
    claim: "dept",
    notify: true,
  },
  /** It joins a scope that exists. */
  floor: {
    type: "choice",
    label: "Floor",
    options: { first: "Ground floor", second: { en: "Upper floor", pl: "Piętro" } },
    edit: "person",
    registration: "optional",
    scope: "org",
  },
  /** Only operators set it, and no client reads it. */
  customer_number: { type: "text", label: "Customer number", maxLength: 5 },
  desk: { type: "integer", label: "Desk", min: -5, max: 500, edit: "person", scope: "org" },
  on_call: { type: "boolean", label: "On call", edit: "person", scope: "org" },
  since: { type: "date", label: "Since", edit: "person", registration: "optional" },
  /** Only the clients of two services read it. */
  cost_center: { type: "text", label: "Cost center", scope: "org", readers: ["1", "3"] },
  /** The person does not see it, and only clients of the organization itself read it. */
  badge: { type: "text", label: "Badge", visible: false, scope: "staff", readers: ["1", "3"] },
  second_phone: { type: "phone", label: "Second phone", scope: "org" },
  phone_number: true,
  address: true,
  nickname: true,
  website: { notify: true },
  zoneinfo: true,
};

/** What the fields of a service without attributes depend on. */
export const WITHOUT: FieldSettings = {
  accounts: { attributes: {} },
  interactions: { ...defaults.interactions, locales: ["en"], reservedUsernames: [], registration: false },
};
