/** Rules for usernames that people choose themselves. Imports and the library may set others. */
import { normaliseName, usernameProblem } from "./text-rules.ts";

/** A problem with a chosen username. `reserved`: nobody may choose it. */
type ChosenUsernameProblem = "invalid" | "reserved";

/** The scripts in common modern use (Unicode UAX 31, Table 5). */
const SCRIPTS = [
  "Arab Armn Beng Bopo Cyrl Deva Ethi Geor Grek Gujr Guru Hang Hani Hebr Hira Kana Khmr Knda Laoo Latn Mlym Mymr Orya",
  "Sinh Taml Telu Thaa Thai Tibt",
].flatMap((line) => line.split(" ").map((script) => [script]));

/** Scripts that are written together and count as one (Unicode TS 39, section 5.1). */
const SETS = [...SCRIPTS, ["Hani", "Bopo"], ["Hani", "Hira", "Kana"], ["Hani", "Hang"]];

/** Letters, marks and digits of one script, and the characters that all scripts share. */
const ONE_SCRIPT = SETS.map((scripts) => {
  const own = scripts.map((script) => `\\p{scx=${script}}`).join("");
  return new RegExp(`^(?:(?=[\\p{L}\\p{M}\\p{Nd}])[${own}]|[-._0-9])+$`, "u");
});

/**
 * What is wrong with a username that a person chooses. Its letters are of one script, so that none is a look-alike of
 * another script's (Unicode TS 39, single script). It has a letter, does not look like a `sub`, and is not reserved.
 * @param reserved compared as sign-in names are.
 */
export function chosenUsernameProblem(
  username: string,
  reserved: readonly string[],
): ChosenUsernameProblem | undefined {
  if (usernameProblem(username) !== undefined) return "invalid";
  const name = normaliseName(username);
  for (const form of [username.normalize("NFC"), name])
    if (!/\p{L}/u.test(form) || !ONE_SCRIPT.some((script) => script.test(form))) return "invalid";
  if (/^[0-9a-f]{32}$/u.test(name.replaceAll("-", ""))) return "invalid";
  return reserved.some((each) => normaliseName(each) === name) ? "reserved" : undefined;
}
