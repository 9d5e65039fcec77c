/** The rules for a new password: its length, and that it is not easy to guess. There are no rules about its composition. */
import { createRequire } from "node:module";
import type { PasswordRules } from "../../config/configuration.ts";
import { normalName } from "../names.ts";
import { characters } from "../text-rules.ts";

/**
 * The rule that a new password breaks. `characters`: it has characters that a form can't send. `common`: it is among the
 * most used ones. `name`: it is a name of the account or of the service. `breached`: it is known from a data breach.
 * Its text is `problem.password.<problem>`, with `min` and `max`.
 */
export type PasswordProblem = "too-short" | "too-long" | "characters" | "common" | "name" | "breached";

/** How many characters a password has, after normalising. */
export interface PasswordLength {
  readonly min: number;
  readonly max: number;
}

/** UTF-16 units of a character before NFKC: a decomposed character has four code points at most, of two units each. */
const UNITS = 8;

/**
 * The form in which a password is hashed (NFKC), so that it is the same password on every keyboard and system.
 * `undefined` if it is longer than any password that can be set.
 */
export function normalPassword(password: string, max: number): string | undefined {
  if (password.length > UNITS * max) return undefined;
  const normal = password.normalize("NFKC");
  return characters(normal) > max ? undefined : normal;
}

/** What is wrong with the form of a password, whoever sets it. */
export function formProblem(password: string, { min, max }: PasswordLength): PasswordProblem | undefined {
  const normal = normalPassword(password, max);
  if (normal === undefined) return "too-long";
  // A form can't send these characters, so the password could never be entered.
  if (!password.isWellFormed() || password.includes("\0")) return "characters";
  return characters(normal) < min ? "too-short" : undefined;
}

/**
 * Loads the list when it is first needed. It has about 49,000 passwords, in lower case; those of fewer than eight
 * characters are too short anyway. Only this file of the package is loaded: its index unpacks dictionaries as well.
 */
const load = createRequire(import.meta.url);
function commonPasswords(): readonly string[] {
  return load("@zxcvbn-ts/language-common/dist/passwords.json.cjs") as readonly string[];
}

/**
 * The rules for a password that someone chooses, which this process checks alone.
 * @param rules.length how many characters it has.
 * @param rules.service the names of the service: a password must not be one of them.
 */
export function createPasswordRules({
  length,
  service,
}: {
  readonly length: PasswordLength;
  readonly service: readonly string[];
}): (password: string, names: readonly (string | null | undefined)[]) => PasswordProblem | undefined {
  let common: ReadonlySet<string> | undefined;
  return (password, names) => {
    const problem = formProblem(password, length);
    if (problem !== undefined) return problem;
    const folded = normalName(password);
    if (namesIn([...names, ...service]).has(folded)) return "name";
    common ??= new Set(commonPasswords().filter((each) => each.length >= length.min));
    return common.has(folded) ? "common" : undefined;
  };
}

/** The names in their normal form: whole, an e-mail address also without its domain, and all of them without spaces. */
function namesIn(names: readonly (string | null | undefined)[]): ReadonlySet<string> {
  const normal = names
    .filter((name) => typeof name === "string" && name !== "")
    .map((name) => normalName(String(name)));
  const local = normal.flatMap((name) => (name.includes("@") ? [name.slice(0, name.indexOf("@"))] : []));
  return new Set([...normal, ...local].flatMap((name) => [name, name.replaceAll(/\s+/gu, "")]));
}

/**
 * The length of a new password. `profile: strict` asks for at least 15 characters, as for a single factor (NIST SP
 * 800-63B).
 */
export function passwordLength(
  { minLength, maxLength }: Pick<PasswordRules, "minLength" | "maxLength">,
  profile: "documented" | "strict",
): PasswordLength {
  return { min: profile === "strict" ? Math.max(minLength, STRICT_LENGTH) : minLength, max: maxLength };
}

const STRICT_LENGTH = 15;
