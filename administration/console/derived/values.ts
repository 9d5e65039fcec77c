/** How the console shows the members of a record: as a time, a state, an identifier, a link or a text. */
import { ACCOUNT_CLIENT, ADMINISTRATION_CLIENT, CONSOLE_CLIENT } from "../../../accounts/clients/client.ts";
import type { Translator } from "../../../core/texts.ts";
import type { Moments } from "../../../interactions/look/moments.ts";
import { segmentOf } from "../request.ts";

/** A value as `console-value.ejs` prints it. */
export type ShownValue =
  | { readonly kind: "text" | "quiet" | "id" | "short" | "clip"; readonly text: string }
  | { readonly kind: "time"; readonly iso: string; readonly relative: string; readonly text: string }
  | { readonly kind: "badge"; readonly text: string; readonly tone: string }
  | { readonly kind: "link"; readonly text: string; readonly href: string }
  | { readonly kind: "lines"; readonly lines: readonly string[] }
  /** What a search was about stands out. */
  | {
      readonly kind: "marked";
      readonly parts: readonly { readonly text: string; readonly isMatch: boolean }[];
    };

/** What showing a value needs of the request. */
export interface Showing {
  readonly t: Translator;
  readonly moments: Moments;
  /** Whether the operator can open the pages of this entry. */
  readonly opens: (entry: string) => boolean;
}

/** Members that hold the identifier of another record, and the entry of its page. */
const REFERENCES: ReadonlyMap<string, string> = new Map([
  ["service", "services"],
  ["group", "groups"],
  ["portal", "portals"],
  ["client", "clients"],
  ["receiver", "receivers"],
  ["sub", "people"],
  ["account", "people"],
]);

/** Identifiers, which one click selects. */
const IDENTIFIERS: ReadonlySet<string> = new Set([
  "sub",
  "client_id",
  "key",
  "identifier",
  "kid",
  "id",
  "user_id",
]);

/** The beginning of these is enough to tell one from the others. */
const RANDOM = /^[\w-]{30,}$/u;

const TIME = /(?:^|_)(?:at|from|until|since)$/;

/** Code points of a text of people. */
const MAX_TEXT = 100;
/** Entries of a list. */
const MAX_LINES = 20;

/** The name of a member in the language, or the member itself with blanks. */
export function memberLabel(t: Translator, name: string): string {
  const key = `admin.member.${name}`;
  if (t.has(key)) return t(key);
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** One of the words of a choice in the language, or the word itself. */
export function choiceLabel(t: Translator, member: string, choice: string): string {
  for (const key of [`admin.choice.${member}.${choice}`, `admin.choice.${choice}`])
    if (t.has(key)) return t(key);
  return choice;
}

/** @param inTable names are cut to one line there. */
export function shownValue(
  { t, moments, opens }: Showing,
  name: string,
  value: unknown,
  { inTable = false }: { readonly inTable?: boolean } = {},
): ShownValue {
  if (value === null || value === undefined || value === "")
    return { kind: "quiet", text: inTable ? "" : t("admin.none") };
  if (typeof value === "boolean") return shownFlag(t, name, value, inTable);
  if (typeof value === "number") {
    if (!TIME.test(name)) return { kind: IDENTIFIERS.has(name) ? "id" : "text", text: String(value) };
    const { iso, relative, text } = moments(value * 1000);
    return { kind: "time", iso, relative, text };
  }
  if (Array.isArray(value)) return shownList(t, value as unknown[], inTable);
  if (typeof value === "object") return shownList(t, linesOf(t, value), inTable);
  const whole = typeof value === "string" ? value : JSON.stringify(value);
  const text = shortened(whole);
  const entry = REFERENCES.get(name);
  const href = entry === undefined ? "" : recordHref(opens, entry, whole);
  if (href !== "") return { kind: "link", text, href };
  if (IDENTIFIERS.has(name)) return { kind: inTable && RANDOM.test(text) ? "short" : "id", text };
  if (STATES.has(name)) return { kind: "badge", text: choiceLabel(t, name, text), tone: toneOf(text) };
  if (t.has(`admin.choice.${name}.${text}`) || t.has(`admin.choice.${text}`))
    return { kind: "text", text: choiceLabel(t, name, text) };
  return { kind: inTable ? "clip" : "text", text };
}

const STATES: ReadonlySet<string> = new Set(["state"]);
const TONES: Readonly<Record<string, string>> = {
  signing: "good",
  delivered: "good",
  accepted: "good",
  waiting: "busy",
  published: "busy",
  parked: "bad",
};

const toneOf = (state: string): string => (Object.hasOwn(TONES, state) ? (TONES[state] ?? "") : "");

function shownFlag(t: Translator, name: string, value: boolean, inTable: boolean): ShownValue {
  if (name === "disabled" || name === "paused")
    return value
      ? { kind: "badge", text: t(`admin.flag.${name}`), tone: "bad" }
      : { kind: "quiet", text: t("admin.flag.active") };
  if (inTable && !value) return { kind: "quiet", text: "" };
  return { kind: "text", text: t(value ? "admin.yes" : "admin.no") };
}

function shownList(t: Translator, values: readonly unknown[], inTable: boolean): ShownValue {
  if (values.length === 0) return { kind: "quiet", text: inTable ? "" : t("admin.none") };
  const texts = values.map((each) => shortened(typeof each === "string" ? each : JSON.stringify(each)));
  if (inTable) {
    const [first = "", second, third, ...more] = texts;
    const some = [first, second, third].filter((each) => each !== undefined).join(", ");
    return { kind: "clip", text: more.length === 0 ? some : `${some}, +${more.length}` };
  }
  const shown = texts.slice(0, MAX_LINES);
  const rest = texts.length - shown.length;
  return { kind: "lines", lines: rest === 0 ? shown : [...shown, `+${rest}`] };
}

/** The members of an object inside a record. */
function linesOf(t: Translator, value: object): string[] {
  return Object.entries(value).map(([name, each]) => {
    const text = Array.isArray(each)
      ? each.join(", ")
      : typeof each === "string"
        ? each
        : JSON.stringify(each);
    // A name may be an identifier of somebody.
    return `${t.has(`admin.member.${name}`) ? memberLabel(t, name) : name}: ${text}`;
  });
}

/** The clients of the service itself, which have no pages. */
const INTERNAL: ReadonlySet<string> = new Set([ACCOUNT_CLIENT, CONSOLE_CLIENT, ADMINISTRATION_CLIENT]);

/** The address of the page of a record; `""` where there is none for this operator. */
export function recordHref(opens: Showing["opens"], entry: string, identifier: string): string {
  if (!opens(entry) || (entry === "clients" && INTERNAL.has(identifier))) return "";
  return `/${entry}/${segmentOf(identifier)}`;
}

/** Text from outside, without its end if it is long. */
export function shortened(text: string): string {
  const points = Array.from(text);
  return points.length > MAX_TEXT ? `${points.slice(0, MAX_TEXT - 1).join("")}…` : text;
}
