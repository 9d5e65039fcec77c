/** The keys of `accounts`: attributes that a service has besides the fields of every account, and the rules between their keys. */
import { z } from "zod";
import { isObjectName } from "../core/untrusted-keys.ts";
import { described, flag, list, section, text, whole } from "./documented-schema.ts";
import { checkLabel, type Found, LABEL_FORM, localLabel } from "./labels.ts";
import type { Problem } from "./problems.ts";
import {
  ACCOUNT_NAMES,
  isRightOrIdentity,
  isTakenClaim,
  RESERVED_SCOPES,
  STANDARD_CLAIMS,
} from "./reserved-names.ts";

const MAX_ATTRIBUTES = 30;
const MAX_OPTIONS = 100;
/** Of the text of an attribute. */
const MAX_TEXT_LENGTH = 1_000;

const TYPES = ["text", "integer", "boolean", "date", "choice", "phone", "url"] as const;

/** The keys that only some types have. */
const KEYS_OF_TYPES = {
  maxLength: ["text"],
  min: ["integer"],
  max: ["integer"],
  options: ["choice"],
} as const satisfies Partial<Record<string, readonly (typeof TYPES)[number][]>>;

/** OpenID Connect Core 1.0 section 5.1: attributes that are switched on by name, and what they bring. */
const STANDARD = {
  phone_number: { type: "phone", scope: "phone", section: "contact" },
  address: { type: "address", scope: "address", section: "address" },
  nickname: { type: "text", scope: "profile", section: undefined },
  website: { type: "url", scope: "profile", section: "contact" },
  zoneinfo: { type: "zone", scope: "profile", section: undefined },
} as const satisfies Readonly<Record<string, StandardRow>>;

interface StandardRow {
  readonly type: string;
  readonly scope: string;
  /** The section of the profile page. Default: that about the person. */
  readonly section: string | undefined;
}

const STANDARD_NAMES = Object.keys(STANDARD)
  .map((name) => `\`${name}\``)
  .join(", ");

const number = described(z.int().exactOptional(), { form: "a whole number", otherwise: "no limit" });

const TYPE_FORM = TYPES.map((type) => `\`${type}\``)
  .join(", ")
  .replace(/,(?=[^,]*$)/u, " or");

const attribute = section({
  /** What its values are. Default: required, except for a standard attribute, which has its own. */
  type: described(z.enum(TYPES).exactOptional(), {
    form: TYPE_FORM,
    otherwise: "required, except for a standard attribute, which has its own",
  }),
  /** What people call it. Default: required, except for a standard attribute, which has its own. */
  label: described(localLabel.exactOptional(), {
    form: LABEL_FORM,
    otherwise: "required, except for a standard attribute, which has its own",
  }),
  /** `text`: characters of the longest value. Default: 256. */
  maxLength: described(whole(1, MAX_TEXT_LENGTH).exactOptional(), { otherwise: "256" }),
  /** `integer`: the least value. Default: no limit. */
  min: number,
  /** `integer`: the greatest value. Default: no limit. */
  max: number,
  /** `choice`: the values to choose from, each with what people call it. Default: none: required for a `choice`. */
  options: described(z.record(z.string(), localLabel).readonly().exactOptional(), {
    form: `an object of 1 to ${MAX_OPTIONS} values, each with ${LABEL_FORM}`,
    otherwise: "none: required for a `choice`",
  }),
  /**
   * Who changes it: the `person`, on the profile page, or only an `operator`, by library, command line and console. What a person can
   * type must never decide what the person may do: use roles for that. Default: `operator`; `person` for a standard attribute.
   */
  edit: described(z.enum(["person", "operator"]).exactOptional(), {
    form: "`person` or `operator`",
    otherwise: "`operator`; `person` for a standard attribute",
  }),
  /** Whether the registration form asks for it, if the person changes it. Default: not asked for. */
  registration: described(z.enum(["required", "optional"]).exactOptional(), {
    form: "`required` or `optional`",
    otherwise: "not asked for",
  }),
  /** Whether the person sees it. Default: `true`. */
  visible: described(flag().exactOptional(), { otherwise: "`true`" }),
  /** The scope that asks for it at `openid`. A standard attribute has its own. Default: none, so no client reads it. */
  scope: described(
    text(
      64,
      (name) => /^[a-z][a-z0-9._:-]*$/u.test(name),
      "1 to 64 of `a-z 0-9 . _ : -`, a letter first",
    ).exactOptional(),
    { otherwise: "none, so no client reads it" },
  ),
  /** The claim that has its value. Default: its name. */
  claim: described(
    text(
      64,
      (name) => /^[A-Za-z0-9_:/.-]+$/u.test(name),
      "1 to 64 of `A-Z a-z 0-9 _ : / . -`",
    ).exactOptional(),
    { otherwise: "its name" },
  ),
  /** The keys of the services whose clients may read it. Default: all services. */
  readers: described(
    list(
      text(64, (key) => /^[A-Za-z0-9_-]+$/u.test(key) && !isObjectName(key), "the key of a service"),
      1,
    ).exactOptional(),
    { otherwise: "all services" },
  ),
  /** Whether a change is a `PROFILE_CHANGED` for those who may read it. Default: `false`. */
  notify: described(flag().exactOptional(), { otherwise: "`false`" }),
});

/** One attribute of the configuration. */
export interface AttributeSettings extends z.output<typeof attribute> {}

/** Its type has a name, because only so the comments of its keys reach the declarations of other files. */
export const attributeSchema: z.ZodType<AttributeSettings, z.input<typeof attribute>> = attribute;

const ATTRIBUTE_FORM = "an object that describes an attribute; `true` switches a standard one on";

const keys = section({
  /**
   * What an account has besides the fields of every account, at most 30: name → [description](#an-attribute). The standard ones
   * `phone_number`, `address`, `nickname`, `website` and `zoneinfo` are switched on with `true`. Default `{}`.
   */
  attributes: described(
    z
      .record(z.string(), described(z.union([z.literal(true), attribute]), { form: ATTRIBUTE_FORM }))
      .readonly()
      .default({}),
    { form: `an object: name → ${ATTRIBUTE_FORM}` },
  ),
});

/** The accounts. */
export interface AccountSettings extends z.output<typeof keys> {}
export interface AccountsInput extends z.input<typeof keys> {}

export const accountSettings: z.ZodType<AccountSettings, AccountsInput> = keys;

/** The names of attributes that OpenID Connect defines. */
export type StandardAttribute = keyof typeof STANDARD;

/** An attribute with its defaults. */
export interface Attribute extends Omit<AttributeSettings, "type"> {
  readonly name: string;
  readonly type: (typeof TYPES)[number] | (typeof STANDARD)[StandardAttribute]["type"];
  readonly edit: "person" | "operator";
  readonly visible: boolean;
  readonly notify: boolean;
  /** The claim. Missing: no client reads it. */
  readonly claim?: string;
  /** Where the profile page has it. Default: with what is about the person. */
  readonly section: "contact" | "address" | "more" | undefined;
}

const isStandard = (name: string): name is StandardAttribute => Object.hasOwn(STANDARD, name);

/** The attributes of a configuration without problems, each with its defaults. */
export function attributesOf({ attributes }: AccountSettings): readonly Attribute[] {
  return Object.entries(attributes).map(([name, given]) => withDefaults(name, given === true ? {} : given));
}

function withDefaults(name: string, given: AttributeSettings): Attribute {
  const standard = isStandard(name) ? STANDARD[name] : undefined;
  const scope = standard?.scope ?? given.scope;
  return {
    visible: true,
    notify: false,
    edit: standard === undefined ? "operator" : "person",
    ...given,
    name,
    type: standard?.type ?? given.type ?? "text",
    section: standard === undefined ? "more" : standard.section,
    ...(scope !== undefined && { scope, claim: given.claim ?? name }),
  };
}

function checkName(name: string, found: Found): void {
  if (isStandard(name)) return;
  if (!/^[a-z][a-z0-9_]{0,39}$/u.test(name))
    found("is not a name for an attribute: it has 1 to 40 of a-z 0-9 _, a letter first");
  else if (isObjectName(name)) found("must not have a name that every object has");
  else if (ACCOUNT_NAMES.has(name)) found("must have another name: accounts have this one already");
  else if (STANDARD_CLAIMS.has(name))
    found(
      `must have another name: this is a standard claim, and of those only ${STANDARD_NAMES} can be switched on`,
    );
}

const ownKeys = ["type", "maxLength", "min", "max", "options", "scope", "claim"] as const;

/** What a standard attribute brings can't be set, and what one of your own needs must be. */
function checkType(name: string, settings: AttributeSettings, found: Found): void {
  if (isStandard(name)) {
    for (const key of ownKeys)
      if (settings[key] !== undefined) found("must be left out: the standard attribute has its own", key);
    if (name === "address" && settings.registration !== undefined)
      found("must be left out: registration does not ask for an address", "registration");
    return;
  }
  const { type, min, max, options } = settings;
  if (settings.label === undefined) found("is required: what people call the attribute", "label");
  if (type === undefined) return found(`is required and must be ${TYPE_FORM}`, "type");
  for (const [key, types] of Object.entries(KEYS_OF_TYPES))
    if (Object.hasOwn(settings, key) && !types.some((each) => each === type))
      found(`is only for the type ${types.join(", ")}`, key);
  if (type === "integer" && min !== undefined && max !== undefined && min > max)
    found("must be at least its `min`", "max");
  if (type === "choice" && options === undefined) found("is required for a choice", "options");
}

function checkOptions({ options }: AttributeSettings, locales: readonly string[], found: Found): void {
  if (options === undefined) return;
  const entries = Object.entries(options);
  if (entries.length === 0 || entries.length > MAX_OPTIONS)
    found(`must have 1 to ${MAX_OPTIONS} options`, "options");
  for (const [option, given] of entries.slice(0, MAX_OPTIONS)) {
    if (!/^[A-Za-z0-9_-]{1,64}$/u.test(option) || isObjectName(option))
      found("is not a value for an option: it has 1 to 64 of A-Z a-z 0-9 _ -", "options", option);
    checkLabel(given, locales, ["options", option], found);
  }
}

/** Who changes it, sees it and reads it. */
function checkAccess(name: string, settings: AttributeSettings, found: Found): void {
  const { edit, registration, visible, scope, claim, readers } = settings;
  const byPerson = edit === undefined ? isStandard(name) : edit === "person";
  if (registration !== undefined && !byPerson)
    found('needs `edit: "person"`: people can\'t set what only operators change', "registration");
  if (visible === false && byPerson)
    found('must be left out with `edit: "person"`: people see what they change', "visible");
  const isRead = isStandard(name) || scope !== undefined;
  if (visible === false && isRead && readers === undefined)
    found(
      "is required with `visible: false`: the services that may read what the person does not see",
      "readers",
    );
  if (!isRead)
    for (const key of ["claim", "readers"] as const)
      if (settings[key] !== undefined)
        found("needs a `scope`: without one, no client reads the attribute", key);
  if (isStandard(name)) return;
  if (scope !== undefined && RESERVED_SCOPES.has(scope))
    found("must not be a scope that the service uses itself", "scope");
  if (!isRead) return;
  const named = claim ?? name;
  if (isTakenClaim(named))
    found("must be another claim: tokens and answers of the service have this one", "claim");
  else if (byPerson && isRightOrIdentity(named))
    found(
      "must be another claim: relying parties take this one for a right or an identity, and people could set their own",
      "claim",
    );
}

/** What is wrong with attributes, beyond the form of each key. */
export function attributeProblems(
  { attributes }: AccountSettings,
  locales: readonly string[],
): readonly Problem[] {
  const problems: Problem[] = [];
  const path = ["accounts", "attributes"];
  const names = Object.keys(attributes);
  if (names.length > MAX_ATTRIBUTES)
    problems.push({ path, text: `must have at most ${MAX_ATTRIBUTES} attributes` });
  /** Claim → the attribute that has it. */
  const claims = new Map<string, string>();
  for (const [name, given] of Object.entries(attributes).slice(0, MAX_ATTRIBUTES)) {
    const found: Found = (problem, ...key) =>
      void problems.push({ path: [...path, name, ...key], text: problem });
    checkName(name, found);
    if (given === true) {
      if (!isStandard(name)) found(`must be an object: only ${STANDARD_NAMES} can be \`true\``);
      continue;
    }
    checkType(name, given, found);
    checkLabel(given.label, locales, ["label"], found);
    checkOptions(given, locales, found);
    checkAccess(name, given, found);
    if (given.scope === undefined) continue;
    const claim = given.claim ?? name;
    const other = claims.get(claim);
    if (other === undefined) claims.set(claim, name);
    else found(`must not be the claim of config.accounts.attributes.${other}`, "claim");
  }
  return problems;
}
