/** Which fields a third-party client would get: what the consent page lists, exactly. */
import { scopeClaims } from "../lib/protocol/account.ts";
import { ALL_FIELDS } from "../lib/protocol/scopes.ts";

/** What a request without a scope asks for: the whole documented profile. */
const DOCUMENTED = ["sub", "email", "name", "surname", "date_of_birth", "gender"] as const;

/** Standard claims by the names that the documented profile has for them. */
const documentedName: Readonly<Record<string, string>> = {
  given_name: "name",
  family_name: "surname",
  birthdate: "date_of_birth",
};

/** Claims that say something about the sign-in and nothing about the person. */
const NOT_PERSONAL: ReadonlySet<string> = new Set(["acr", "amr", "auth_time", "iss", "sid", "locale"]);

/** The fields that these scopes and claims open, each once, in the order of the documented profile. */
export function consentFields(scopes: readonly string[], claims: readonly string[]): string[] {
  const opened = new Set<string>(["sub"]);
  if (scopes.includes(ALL_FIELDS)) for (const field of DOCUMENTED) opened.add(field);
  const named = scopes.flatMap((scope) => [
    ...((scopeClaims as Record<string, readonly string[]>)[scope] ?? []),
  ]);
  for (const claim of [...named, ...claims]) {
    if (!NOT_PERSONAL.has(claim)) opened.add(documentedName[claim] ?? claim);
  }
  const documented = DOCUMENTED.filter((field) => opened.has(field));
  return [
    ...documented,
    ...[...opened].filter((field) => !(DOCUMENTED as readonly string[]).includes(field)),
  ];
}
