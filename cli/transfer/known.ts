/** What this service has of what files of other systems name: attributes, providers, services and their roles. */
import { createPersonFields, enteredValue, type FieldRow } from "../../accounts/profile-fields.ts";
import type { InternalService } from "../../lib/service.ts";
import { isObject } from "../../core/untrusted-json.ts";
import type { AttributeValue } from "../../records/directory/directory.ts";

/** Why an account of another system can't be imported. The message has no values. */
export class UnusableAccount extends Error {}

/** What an import of another system's file needs to know. */
export interface Known {
  readonly attributes: ReadonlyMap<string, FieldRow>;
  readonly providers: ReadonlySet<string>;
  /** Service key → the names of its roles. */
  readonly services: ReadonlyMap<string, readonly string[]>;
  /** Names that the file has and this service has not: said once, at the end. */
  readonly leftOut: Set<string>;
}

/** Names that are said at most. */
const MAX_LEFT_OUT = 100;

export async function readKnown({ configuration, directory }: InternalService): Promise<Known> {
  const { rows } = createPersonFields(configuration);
  const services = new Map<string, readonly string[]>();
  for (let after: string | undefined; ;) {
    const { items, next } = await directory.services.list({
      limit: 1_000,
      ...(after !== undefined && { after }),
    });
    for (const { key, roles } of items) services.set(key, roles);
    if (next === null) break;
    after = next;
  }
  return {
    attributes: new Map(rows.filter(({ isAttribute }) => isAttribute).map((row) => [row.name, row])),
    providers: new Set(configuration.providers.map(({ key }) => key)),
    services,
    leftOut: new Set(),
  };
}

/** Notes that something of the file has no place here. @param what such as `attribute phone`. */
export function leaveOut({ leftOut }: Known, what: string): void {
  if (leftOut.size < MAX_LEFT_OUT && /^[\w .:|@/-]{1,100}$/u.test(what)) leftOut.add(what);
}

/** Converts texts to the configured attributes. Attributes that this service does not have are left out. */
export function attributesFrom(
  known: Known,
  texts: Iterable<readonly [name: string, text: string]>,
): Readonly<Record<string, AttributeValue>> | undefined {
  const values = [...texts].flatMap(([name, text]) => {
    const row = known.attributes.get(name);
    if (row === undefined) leaveOut(known, `attribute ${name}`);
    return row === undefined || text === "" ? [] : [[name, enteredValue(row, text)] as const];
  });
  return values.length === 0 ? undefined : Object.fromEntries(values);
}

/** The member of an object from outside; `undefined` if it has none of its own. */
export function member(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** The elements of a list from outside; none if it is no list. */
export const elementsIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** A text that is not empty. */
export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined;

/** The object without members that have no value, so that an import leaves them alone. */
export function withoutNothing<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Partial<T>;
}
