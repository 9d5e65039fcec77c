/** Which fields a third-party client would get: what the consent page lists, exactly. */
import { isPersonal, scopeClaims } from "../lib/provider/claims.ts";
import { ALL_FIELDS } from "../lib/provider/claims.ts";

/** What a request without a scope asks for: the whole documented profile. */
const DOCUMENTED: readonly string[] = ["sub", "email", "name", "surname", "date_of_birth", "gender"];

/** The documented fields that a standard claim gives away. The documented `name` is the given name alone. */
const documentedFields: ReadonlyMap<string, readonly string[]> = new Map([
  ["name", ["name", "surname"]],
  ["given_name", ["name"]],
  ["family_name", ["surname"]],
  ["birthdate", ["date_of_birth"]],
]);

const claimsOfScope: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(scopeClaims));

/** The fields that these scopes and claims open, each once, in the order of the documented profile. */
export function consentFields(scopes: readonly string[], claims: readonly string[]): string[] {
  const opened = new Set<string>(["sub"]);
  if (scopes.includes(ALL_FIELDS)) for (const field of DOCUMENTED) opened.add(field);
  const named = scopes.flatMap((scope) => claimsOfScope.get(scope) ?? []);
  for (const claim of [...named, ...claims].filter(isPersonal)) {
    for (const field of documentedFields.get(claim) ?? [claim]) opened.add(field);
  }
  return [
    ...DOCUMENTED.filter((field) => opened.has(field)),
    ...[...opened].filter((field) => !DOCUMENTED.includes(field)),
  ];
}
