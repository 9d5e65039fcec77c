/** Roles: names that a service gives to what people may do there. They belong to the assignment and end with it. */
import { z } from "zod";
import { described } from "../config/documented-schema.ts";
import { NotFound, UnknownReference } from "../core/errors.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import type { Clock } from "../core/clock.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { ENTRIES, isOpen } from "../records/directory/directory-kinds.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { Transaction } from "../records/records.ts";
import { ruled } from "./arguments.ts";

/** How many roles a service has at most. */
const MAX_ROLES = 100;

const ROLE = /^[a-z][a-z0-9_-]{0,39}$/u;

const roleName = ruled((name) =>
  ROLE.test(name) ? undefined : "must be 1 to 40 of a-z 0-9 _ -, beginning with a letter",
);

/** Names of roles, each once. */
export const roleNames = z
  .array(roleName, { error: "must be a list of roles" })
  .max(MAX_ROLES, { error: `must have at most ${MAX_ROLES} roles` })
  .refine((names) => new Set(names).size === names.length, { error: "must not have a role twice" })
  .readonly();

/** The setting `roles` of a service. */
export const serviceRoles = described(roleNames.optional(), {
  form: `a list of at most ${MAX_ROLES} different names, each 1 to 40 of \`a-z 0-9 _ -\`, beginning with a letter`,
});

/**
 * Requires that an account with these assignments can have the roles in the service. The service is a condition of the
 * transaction.
 * @throws UnknownReference when the service is not in the directory, or has no such role.
 * @throws NotFound when the account is not assigned to the service.
 */
export async function requireRoles(
  tx: Transaction,
  { services }: Pick<AccountRecord, "services">,
  {
    service,
    names,
    clock,
  }: { readonly service: string; readonly names: readonly string[]; readonly clock: Clock },
): Promise<void> {
  const entry = await tx.get(ENTRIES.service.ref(service));
  if (!isOpen(entry, clock)) throw new UnknownReference(`service ${service}`);
  if (!Object.hasOwn(services, service)) throw new NotFound(`the assignment to the service ${service}`);
  const unknown = names.find((name) => !(entry.roles ?? []).includes(name));
  if (unknown !== undefined) throw new UnknownReference(`role ${unknown} of the service ${service}`);
}

/** The roles of the assignments that the account has. */
export function rolesOfAssignments({
  roles = {},
  services,
}: Pick<AccountRecord, "roles" | "services">): Readonly<Record<string, readonly string[]>> {
  const kept = Object.entries(roles).filter(
    ([key, names]) => Object.hasOwn(services, key) && names.length > 0,
  );
  return Object.fromEntries(kept);
}

/** The roles of an account in a service, as they are now: one that the service no longer has is left out. */
export async function findRoles(
  directory: Pick<DirectoryRecords, "findEntry">,
  account: Pick<AccountRecord, "roles" | "services">,
  service: string | null,
): Promise<readonly string[]> {
  const names = service === null ? [] : (ownValue(rolesOfAssignments(account), service) ?? []);
  if (service === null || names.length === 0) return [];
  const known = (await directory.findEntry("service", service))?.roles ?? [];
  return names.filter((name) => known.includes(name));
}
