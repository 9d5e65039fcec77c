/** Fields of a person that a service of the tests adds. */
import type { FieldRow } from "../../accounts/profile-fields.ts";
import { keyProblem, textProblem } from "../../accounts/text-rules.ts";

/** The person edits it, a client needs its own scope to read it, and a change sends a notification. */
export const DEPARTMENT: FieldRow = {
  name: "department",
  isAttribute: true,
  problem: textProblem,
  form: "a text",
  edit: "person",
  registration: "required",
  input: { type: "text" },
  claim: { name: "dept", scope: "org" },
  isDocumented: false,
  notifies: true,
  texts: { label: { en: "Department", de: "Abteilung", pl: "Dział", uk: "Відділ" } },
};

/** The person chooses it. It joins a scope that exists. */
export const FLOOR: FieldRow = {
  name: "floor",
  isAttribute: true,
  problem: textProblem,
  form: "a text",
  edit: "person",
  registration: "optional",
  input: { type: "select", options: ["first", "second"] },
  claim: { name: "floor", scope: "profile" },
  isDocumented: false,
  notifies: false,
  texts: { label: "Floor", options: { first: "Ground floor", second: "Upper floor" } },
};

/** Only operators set it, and no client reads it. */
export const CUSTOMER_NUMBER: FieldRow = {
  name: "customer_number",
  isAttribute: true,
  problem: keyProblem,
  form: "a key",
  edit: "operator",
  input: { type: "text" },
  isDocumented: false,
  notifies: false,
  texts: { label: "Customer number" },
};

export const ADDED: readonly FieldRow[] = [DEPARTMENT, FLOOR, CUSTOMER_NUMBER];
