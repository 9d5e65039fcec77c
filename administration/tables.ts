/** Every operation, by the noun that commands and paths begin with. Loads no service. */
import { type Accounts, accounts } from "../accounts/operations/accounts.ts";
import { apis } from "../accounts/operations/apis.ts";
import { type AuditLog, audit } from "../accounts/operations/audit.ts";
import { type Clients, clients } from "../accounts/operations/clients.ts";
import { type DocumentClients, documents } from "../accounts/operations/documents.ts";
import { groups, portals, services } from "../accounts/operations/directory.ts";
import { health, shownHealth } from "../accounts/operations/health.ts";
import { type Invitations, type Invites, invitations } from "../accounts/operations/invitations.ts";
import { type Keys, keys } from "../accounts/operations/keys.ts";
import { type Operators, operators } from "../accounts/operations/operators.ts";
import { type Tokens, tokens } from "../accounts/operations/tokens.ts";
import { deliveries, deliveriesOf, type Notifications, receiversOf } from "../notifier/operations.ts";
import { receivers } from "../notifier/receiver-operations.ts";
import type { Directory } from "../accounts/directory.ts";
import type { Health } from "../records/health.ts";
import {
  type AnyRow,
  type AnyTable,
  membersOf,
  type PositionName,
} from "../accounts/operations/operation.ts";
import { textsOf } from "../config/documented-schema.ts";

/** The tables. Their comments are the texts of the commands: see `build/operations.ts`. */
export const TABLES = {
  accounts,
  invitations,
  clients,
  services,
  groups,
  portals,
  apis,
  documents,
  receivers,
  deliveries,
  audit,
  keys,
  tokens,
  operators,
  health,
};
export type Noun = keyof typeof TABLES;

/** The parts of a service that have the calls. */
export interface Calls {
  readonly accounts: Accounts & Invites;
  readonly invitations: Invitations;
  readonly clients: Clients;
  readonly directory: Directory;
  readonly documents: DocumentClients;
  readonly notifications: Notifications;
  readonly audit: AuditLog;
  readonly keys: Keys;
  readonly tokens: Tokens;
  readonly operators: Operators;
  readonly health: () => Promise<Health>;
}

/** The object of a service that has the calls of a table. */
export const CALLS: { readonly [N in Noun]: (service: Calls) => object } = {
  accounts: (service) => service.accounts,
  invitations: ({ accounts: { invite: create }, invitations: others }) => ({ ...others, create }),
  clients: (service) => service.clients,
  services: ({ directory }) => directory.services,
  groups: ({ directory }) => directory.groups,
  portals: ({ directory }) => directory.portals,
  apis: ({ directory }) => directory.apis,
  documents: (service) => service.documents,
  receivers: ({ notifications }) => receiversOf(notifications),
  deliveries: ({ notifications }) => deliveriesOf(notifications),
  audit: (service) => service.audit,
  keys: (service) => service.keys,
  tokens: (service) => service.tokens,
  operators: (service) => service.operators,
  health: (service) => ({ check: async () => shownHealth(await service.health()) }),
};

const METHODS = {
  read: "GET",
  list: "GET",
  create: "POST",
  change: "PATCH",
  put: "PUT",
  verb: "POST",
  remove: "DELETE",
} as const;

/** Where an operation is over HTTP. */
export interface Route {
  readonly method: (typeof METHODS)[keyof typeof METHODS];
  /** Such as `/v1/accounts/{sub}/factors/{factor}`: a segment for each name. */
  readonly path: string;
  /** What it is about and is no segment, but a member of the body: the name of what is made. */
  readonly named: readonly PositionName[];
  /** Whether the input is the query: a body of GET and DELETE means nothing, and proxies drop it. */
  readonly isQuery: boolean;
}

/** `setRoles` → `set-roles`. */
export function kebab(name: string): string {
  return name.replaceAll("_", "-").replaceAll(/[A-Z]/gu, (letter) => `-${letter.toLowerCase()}`);
}

/** The route of an operation. */
export function routeOf(noun: string, verb: string, { effect, target, path }: AnyRow): Route {
  const method = METHODS[effect];
  const isQuery = method === "GET" || method === "DELETE";
  if (path?.startsWith("/") === true) return { method, path: `/v1${path}`, named: [], isQuery };
  const named = effect === "create" && path === undefined ? target : [];
  const [first, ...others] = (named.length > 0 ? [] : target).map((name) => `{${name}}`);
  const segments = ["/v1", noun, first, path ?? (effect === "verb" ? kebab(verb) : undefined), ...others];
  return { method, path: segments.filter((each) => each !== undefined).join("/"), named, isQuery };
}

/** Whether the operation makes what the noun is about, and not something that belongs to it. */
export function makesRecord(noun: string, row: AnyRow): boolean {
  return row.effect === "create" && routeOf(noun, "", row).path === `/v1/${noun}`;
}

/** Whether the operation is a POST, which a repeat with the same `Idempotency-Key` does not carry out again. */
export const isRepeatable = ({ effect }: AnyRow): boolean => effect === "create" || effect === "verb";

/** Whether a repeat can only say that it was done: what the operation has answered is no record that can be read. */
export function isForgotten(noun: string, row: AnyRow, find: AnyRow | undefined): boolean {
  const isRead = row.output === find?.output || makesRecord(noun, row);
  return isRepeatable(row) && row.store !== "elsewhere" && row.secret === undefined && !isRead;
}

/** Where a list can be asked for by POST: what somebody looks for must not stand in an address. */
export function searchPathOf(noun: string, row: AnyRow): string | undefined {
  return row.effect === "list" && "search" in membersOf(row) ? `/v1/${noun}/search` : undefined;
}

/** A segment that names something, as links have it. */
export function segmentOf(text: string): string {
  return /^[\w~-][\w.~-]*$/u.test(text) ? text : `b64:${Buffer.from(text, "utf8").toString("base64url")}`;
}

/** A body as the call takes it: bytes travel as Base64. What is none stays a text, which the schema refuses. */
export function fromJson(row: AnyRow, body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const members = membersOf(row);
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const isBytes = Object.hasOwn(members, name) && textsOf(members[name]).option === "bytes";
      return [name, isBytes && typeof value === "string" ? (bytesIn(value) ?? value) : value];
    }),
  );
}

function bytesIn(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}

/** The rows of a noun. */
export function rowsOf(noun: Noun): AnyTable["rows"] {
  return (TABLES[noun] as AnyTable).rows;
}
