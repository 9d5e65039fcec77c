/** The types of attributes, a row each: what a value is, how a form asks for it, and how a text becomes one. */
import type { Attribute } from "../config/attributes.ts";
import type { Clock } from "../core/clock.ts";
import type { AttributeValue } from "../records/directory/directory.ts";
import { isObject } from "../core/untrusted-json.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { dateProblem, type Problem, textProblem } from "./text-rules.ts";
import { urlProblem } from "../config/value-forms.ts";

/** How a form asks for a field. */
export interface FieldInput {
  readonly type: "text" | "tel" | "url" | "date" | "select";
  /** A value of the HTML attribute `autocomplete`. */
  readonly autocomplete?: string;
  /** What people choose from. The library may take other values, too. */
  readonly options?: readonly string[];
  /** What the keys of the texts of the options begin with. Default: the name of the field. */
  readonly optionTexts?: string;
  /** What the options are codes of, if people read the names of ICU. Default: they read texts. */
  readonly optionNames?: "language" | "region";
  /** The code of the problem with a value. Default: that of its type. */
  readonly reason?: "line" | "number" | "zone";
  /** The field that stands beside it, on the same line, if it comes next. */
  readonly beside?: string;
}

/** A part of a value, with an input of its own. */
interface ValuePart extends FieldInput {
  problem(text: string): Problem;
}

/** What the type of a field decides. */
export interface ValueRule {
  /** What is wrong with a value, completing "must …". Some values are wrong only at a certain time. */
  problem(value: unknown, clock?: Clock): Problem;
  /** What its rule takes, in words. */
  readonly form: string;
  /** A value as it is stored. Default: as it was given. */
  stored?(value: AttributeValue): AttributeValue;
  /** The value that a text of a form or a command stands for; `undefined` if it stands for none. Default: the text. */
  read?(text: string): AttributeValue | undefined;
  /** How a form asks for it. Default: no form does. */
  readonly input?: FieldInput;
  /** How a form asks for a value by its parts, by their names. Such a value has at least one. */
  readonly parts?: Readonly<Record<string, ValuePart>>;
}

const DEFAULT_MAX_LENGTH = 256;

/** A rule for texts. */
const ofText =
  (rule: (text: string) => Problem): ValueRule["problem"] =>
  (value) =>
    typeof value === "string" ? rule(value) : "must be a text";

/** How people write a number for others to read: E.164 has only its digits. */
const PUNCTUATION = /[\s().\u{2010}-\u{2015}/-]/gu;

const isTimeZone = (name: string): boolean => {
  // Offsets such as `+01:00` are none of the IANA database.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/u.test(name)) return false;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
};

/** ISO 3166-1 alpha-2. What ICU knows as a region is more: `EU`, `UN`, and codes that were withdrawn. */
const COUNTRIES: ReadonlySet<string> = new Set(
  [
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD",
    "CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF",
    "GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN",
    "KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA",
    "NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI",
    "SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI",
    "VN VU WF WS YE YT ZA ZM ZW",
  ].flatMap((line) => line.split(" ")),
);

const line = (autocomplete: string): ValuePart => ({
  type: "text",
  reason: "line",
  autocomplete,
  problem: (text) => textProblem(text),
});

/** The parts of a postal address (OpenID Connect Core 1.0 section 5.1.1). Countries differ in what they need: none is required. */
const ADDRESS: Readonly<Record<string, ValuePart>> = {
  street_address: line("street-address"),
  locality: line("address-level2"),
  region: line("address-level1"),
  postal_code: line("postal-code"),
  country: {
    type: "select",
    autocomplete: "country",
    options: [...COUNTRIES],
    optionNames: "region",
    problem: (code) => (COUNTRIES.has(code) ? undefined : "is none of ISO 3166: two letters, such as PL"),
  },
};
const ADDRESS_PARTS = Object.keys(ADDRESS);

function addressProblem(value: unknown): Problem {
  if (!isObject(value)) return `must be an object with ${ADDRESS_PARTS.join(", ")}`;
  const names = Object.keys(value);
  if (names.length === 0) return "must have at least one part";
  if (!names.every((name) => ADDRESS_PARTS.includes(name)))
    return `must have no other parts than ${ADDRESS_PARTS.join(", ")}`;
  for (const [name, part] of Object.entries(value)) {
    if (typeof part !== "string") return `must have texts as parts, unlike ${name}`;
    const problem = ADDRESS[name]?.problem(part);
    if (problem !== undefined) return `has a ${name} that ${problem}`;
  }
  return undefined;
}

export const ATTRIBUTE_TYPES: Readonly<Record<Attribute["type"], (settings: Attribute) => ValueRule>> = {
  text: ({ maxLength = DEFAULT_MAX_LENGTH }) => ({
    problem: ofText((text) => textProblem(text, maxLength)),
    form: `a text of 1 to ${maxLength} characters`,
    input: { type: "text", reason: "line" },
  }),
  integer: ({ min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }) => ({
    problem: (value) =>
      typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max
        ? undefined
        : `must be a whole number from ${min} to ${max}`,
    form: `a whole number from ${min} to ${max}`,
    // Not -0.
    stored: (value) => Number(value) + 0,
    read: (text) => (/^[+-]?\d{1,16}$/u.test(text) ? Number(text) : undefined),
    input: { type: "text", reason: "number" },
  }),
  boolean: () => ({
    problem: (value) => (typeof value === "boolean" ? undefined : "must be true or false"),
    form: "`true` or `false`",
    read: (text) => (["false", "true"].includes(text) ? text === "true" : undefined),
    input: { type: "select", options: ["true", "false"], optionTexts: "boolean" },
  }),
  date: () => ({
    problem: ofText(dateProblem),
    form: "a real date, `YYYY-MM-DD`",
    input: { type: "date" },
  }),
  choice: ({ name, options = {} }) => ({
    problem: ofText((text) =>
      Object.hasOwn(options, text) ? undefined : "must be one of the options of the attribute",
    ),
    form: "one of its options",
    input: { type: "select", options: Object.keys(options), optionTexts: `attribute.${name}` },
  }),
  phone: () => ({
    problem: ofText((text) =>
      /^\+[1-9]\d{6,14}$/u.test(text)
        ? undefined
        : "must be a number in the form of E.164, such as +48123456789",
    ),
    form: "a phone number in the form of E.164, such as `+48123456789`",
    read: (text) => text.replaceAll(PUNCTUATION, "").replace(/^00/u, "+"),
    input: { type: "tel", autocomplete: "tel" },
  }),
  url: () => ({
    problem: ofText((text) =>
      text.startsWith("https://") ? urlProblem(text) : "must be an address that begins with https://",
    ),
    form: "an https address",
    input: { type: "url", autocomplete: "url" },
  }),
  zone: () => ({
    problem: ofText((text) => (isTimeZone(text) ? undefined : "must be a time zone, such as Europe/Warsaw")),
    form: "a time zone of the IANA database, such as `Europe/Warsaw`",
    input: { type: "text", reason: "zone" },
  }),
  address: () => ({
    problem: addressProblem,
    form: `an object with ${ADDRESS_PARTS.map((part) => `\`${part}\``).join(", ")}`,
    stored: (value) =>
      Object.fromEntries(
        ADDRESS_PARTS.flatMap((part) => {
          const text = ownValue(value as Readonly<Record<string, string>>, part);
          return text === undefined ? [] : [[part, text]];
        }),
      ),
    parts: ADDRESS,
  }),
};
