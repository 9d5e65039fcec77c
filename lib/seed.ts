/** The seed: portals, groups, services, APIs, clients and first accounts that every start writes to the storage. */
import { z } from "zod";
import { described, leavesOf } from "../config/documented-schema.ts";
import { apiIdentifier, apiSettings } from "../accounts/operations/apis.ts";
import { importedAccount, type ImportedAccount } from "../accounts/account-schema.ts";
import { exactly, mapOf, pathIn } from "../accounts/arguments.ts";
import { CLIENT_ROWS, type ClientRows, type ClientRules } from "../accounts/clients/client-settings.ts";
import { identifiedClient } from "../accounts/clients/client-schema.ts";
import {
  entryKey,
  seededEntry,
  type SeededService,
  seededService,
} from "../accounts/operations/directory.ts";
import { pagesOf } from "../core/pages.ts";
import { normalName } from "../accounts/names.ts";
import { putMarks, readMark, type Seeded, seedMark, type SeedMark } from "../accounts/seed-marks.ts";
import {
  AlreadyExists,
  ConfigurationError,
  IdentifierTaken,
  InvalidArgument,
  InvalidPassword,
  NotApplicable,
  NameTaken,
  UnknownReference,
} from "../core/errors.ts";
import type { AccountServices } from "../accounts/services.ts";
import type { EntryKind } from "../records/directory/directory.ts";
import { SEEDED } from "../records/directory/directory-kinds.ts";

/** What a seed is applied to. */
export type SeededServices = Pick<
  AccountServices,
  "accounts" | "clients" | "clientRows" | "directory" | "storage" | "keys" | "logger"
>;

/** How many names one line of the log has. */
const MAX_NAMED = 20;

/** The rules of a service on loopback. Others refuse its addresses. */
const ON_LOOPBACK: ClientRules = { production: false };

/** A client of a seed. */
export const seedClient = (rows: ClientRows, rules = ON_LOOPBACK) => identifiedClient(rows, rules);

export function seedSchema(rows: ClientRows, rules = ON_LOOPBACK) {
  return exactly({
    /** Created, or updated to these values. Default: none. */
    portals: described(mapOf(entryKey, seededEntry).optional(), { form: "an object: key → portal" }),
    /** Created, or updated to these values. Default: none. */
    groups: described(mapOf(entryKey, seededEntry).optional(), { form: "an object: key → group" }),
    /** Created, or updated to these values. Default: none. */
    services: described(mapOf(entryKey, seededService).optional(), { form: "an object: key → service" }),
    /** Created, or updated to these values. Default: none. */
    apis: described(mapOf(apiIdentifier, apiSettings).optional(), { form: "an object: identifier → API" }),
    /** Registered; of a client that exists, the settings that are named are set, but not its secret or keys. Default: none. */
    clients: described(z.array(seedClient(rows, rules), { error: "must be a list" }).readonly().optional(), {
      form: "a list of clients",
    }),
    /** Created unless the e-mail address or username is taken; existing accounts are never changed. Default: none. */
    accounts: described(z.array(importedAccount, { error: "must be a list" }).readonly().optional(), {
      form: "a list of accounts",
    }),
  });
}

/** A seed. All parts are optional. */
export interface Seed extends Readonly<z.input<ReturnType<typeof seedSchema>>> {}

export interface CheckedSeed extends z.output<ReturnType<typeof seedSchema>> {}

/** The paths of its keys, for hints about keys in the wrong place. */
export function seedKeys(rows: ClientRows = CLIENT_ROWS): readonly string[] {
  const leaves = [
    ...leavesOf(seedSchema(rows), ["seed"]),
    ...leavesOf(seedClient(rows), ["seed", "clients[0]"]),
  ];
  return leaves.map(({ path }) => path.join("."));
}

/** @throws ConfigurationError with every problem that can be found without a storage. */
export function checkSeed(seed: unknown, rows: ClientRows = CLIENT_ROWS, rules?: ClientRules): CheckedSeed {
  const result = seedSchema(rows, rules).safeParse(seed);
  if (result.success) return result.data;
  throw new ConfigurationError(result.error.issues.map((issue) => problem(issue.path, issue.message)));
}

/** Something that a seed names, and how it is made or brought to the values of the seed. */
interface Item {
  readonly path: readonly PropertyKey[];
  /** Such as `client news`. */
  readonly name: string;
  readonly mark: SeedMark;
  /** The names of what it refers to. */
  readonly needs: readonly string[];
  exists(): Promise<boolean>;
  apply(): Promise<Seeded & { readonly keepsCredentials?: boolean; readonly lacksCredentials?: boolean }>;
}

/** See `start-service.ts`. */
export async function applySeed(services: SeededServices, seed: Seed | undefined): Promise<void> {
  if (seed === undefined) return;
  const checked = checkSeed(seed, services.clientRows);
  const { logger } = services;
  const items = itemsOf(services, checked);
  const gone = await removedItems(services, items);
  const updated = new Map<string, readonly string[]>();
  const left = new Map<string, string>();
  const rotated = new Set<string>();
  const lacking = new Set<string>();

  /** Why an item is skipped: something it refers to was removed. */
  function reasonToLeave(needs: readonly string[]): string | undefined {
    const missing = needs.filter((each) => gone.has(each));
    return missing.length === 0 ? undefined : `it needs ${missing.join(", ")}`;
  }

  for (const item of items) {
    const { path, name } = item;
    if (gone.has(name)) continue;
    const reason = reasonToLeave(item.needs);
    if (reason !== undefined) {
      left.set(name, reason);
      continue;
    }
    const done = await located(path, () => item.apply());
    if (done.kind === "removed") gone.add(name);
    if (done.kind === "updated") updated.set(name, done.fields);
    if (done.keepsCredentials === true) rotated.add(name);
    if (done.lacksCredentials === true) lacking.add(name);
  }
  for (const [index, account] of (checked.accounts ?? []).entries()) {
    const path = ["accounts", index];
    const name = pathIn("config.seed", path);
    const { portal, services: assigned = {} } = account;
    const needs = [
      ...(typeof portal === "string" ? [`portal ${portal}`] : []),
      ...Object.keys(assigned).map((key) => `service ${key}`),
    ];
    const outcome = await located(path, () => applyAccount(services, account, reasonToLeave(needs)));
    if (outcome === "removed") gone.add(name);
    else if (outcome !== undefined) left.set(name, outcome.reason);
  }

  for (const [name, fields] of updated)
    logger.info(
      `seed: ${name} is brought to its values${fields.length === 0 ? "" : `: ${fields.join(", ")}`}`,
    );
  for (const name of rotated)
    logger.warn(
      `seed: the secret or the keys of ${name} differ from the seed and stay as they are; if the seed is right, run sign-in-service clients rotate-secret ${name.slice("client ".length)} --from-seed`,
    );
  if (lacking.size > 0)
    logger.warn(
      `seed: without credentials: ${listed([...lacking])} (rotate the secrets of clients with clients rotate-secret; set those of receivers)`,
    );
  if (gone.size > 0)
    logger.warn(
      `seed: removed since, and not made again: ${listed([...gone])} (take it out of the seed, or make it with a command)`,
    );
  if (left.size > 0)
    logger.warn(`seed: not applied: ${listed([...left].map(([name, reason]) => `${name} (${reason})`))}`);
  const { clients = [] } = checked;
  if (clients.length > 0) await logOthers(services, new Set(clients.map(({ client_id }) => client_id)));
}

/** Everything that a seed names except accounts. What an item refers to comes before it. */
function itemsOf(
  { clients, directory, keys }: SeededServices,
  { portals = {}, groups = {}, services = {}, apis = {}, clients: seeded = [] }: CheckedSeed,
): Item[] {
  const entries = (kind: EntryKind, all: Readonly<Record<string, SeededService>>): Item[] =>
    Object.entries(all).map(([key, entry]) => {
      const mark = seedMark(keys.seeds, kind, key);
      return {
        path: [`${kind}s`, key],
        name: `${kind} ${key}`,
        mark,
        needs: typeof entry.group === "string" ? [`group ${entry.group}`] : [],
        exists: async () => (await directory[`${kind}s`].find(key)) !== undefined,
        apply: () => directory.seedEntry(kind, key, entry, mark),
      };
    });
  /** @param introspection the clients that may introspect its tokens, in place of those in the seed. */
  const apisWith = (introspection: (identifier: string) => Promise<readonly string[] | undefined>): Item[] =>
    Object.entries(apis).map(([identifier, api]) => {
      const mark = seedMark(keys.seeds, "api", identifier);
      return {
        path: ["apis", identifier],
        name: `api ${identifier}`,
        mark,
        needs: [`service ${api.service}`, ...(api.introspection ?? []).map((id) => `client ${id}`)],
        exists: async () => (await directory.apis.find(identifier)) !== undefined,
        apply: async () =>
          directory.seedApi(
            identifier,
            { ...api, introspection: (await introspection(identifier)) ?? api.introspection },
            mark,
          ),
      };
    });
  return [
    ...entries("portal", portals),
    ...entries("group", groups),
    ...entries("service", services),
    // Clients and APIs name each other, so an API is first put with the clients that it already names.
    ...apisWith(async (identifier) => (await directory.apis.find(identifier))?.introspection ?? []),
    ...seeded.map((client, index): Item => {
      const { client_id, service } = client;
      const mark = seedMark(keys.seeds, "client", client_id);
      const nameOfNew = Object.hasOwn(services, service) ? services[service]?.name : undefined;
      return {
        path: ["clients", index],
        name: `client ${client_id}`,
        mark,
        needs: [`service ${service}`, ...Object.keys(client.apis ?? {}).map((api) => `api ${api}`)],
        exists: async () => (await clients.find(client_id)) !== undefined,
        apply: () => clients.seed(client, { nameOfNew: nameOfNew ?? client_id, mark }),
      };
    }),
    ...apisWith(async () => undefined),
  ];
}

/** What a seed has made before, and somebody has removed since. */
async function removedItems(
  { storage: { records } }: SeededServices,
  items: readonly Item[],
): Promise<Set<string>> {
  // The marks first: whoever makes something writes its mark at the same moment.
  const marks = await records.get<unknown[]>(items.map(({ mark }) => SEEDED.ref(mark)));
  const gone = new Set<string>();
  for (const [index, item] of items.entries())
    if (marks[index] !== undefined && !(await item.exists())) gone.add(item.name);
  return gone;
}

/**
 * Creates the account unless somebody has it, or had it.
 * @param reasonToLeave why a new account is left out.
 */
async function applyAccount(
  { accounts, storage: { records }, keys }: SeededServices,
  account: ImportedAccount,
  reasonToLeave: string | undefined,
): Promise<"removed" | { readonly reason: string } | undefined> {
  const { email, username, sub } = account;
  const marks = [
    seedMark(keys.seeds, "account", normalName(email)),
    ...(sub === undefined ? [] : [seedMark(keys.seeds, "sub", sub)]),
  ];
  async function exists(): Promise<boolean> {
    for (const login of [email, username])
      if (typeof login === "string" && (await accounts.findByLogin(login)) !== undefined) return true;
    return sub !== undefined && (await accounts.find(sub)) !== undefined;
  }
  const remember = (): Promise<void> =>
    records.transact(async (tx) => {
      const missing: SeedMark[] = [];
      for (const mark of marks) if (!(await readMark(tx, mark))) missing.push(mark);
      putMarks(tx, missing);
    });

  // The marks first: whoever makes it writes them at the same moment.
  const found = await records.get<unknown[]>(marks.map((mark) => SEEDED.ref(mark)));
  if (await exists()) {
    if (found.includes(undefined)) await remember();
    return undefined;
  }
  if (found.some((mark) => mark !== undefined)) return "removed";
  if (reasonToLeave !== undefined) return { reason: reasonToLeave };
  try {
    await accounts.seed(account, marks);
    return undefined;
  } catch (error) {
    if (error instanceof IdentifierTaken) throw error;
    if (!(error instanceof NameTaken || error instanceof AlreadyExists)) throw error;
    // Another account has, or had, its identifiers; or another process has made it in the meantime.
    if (!(await exists())) return { reason: error.message };
    await remember();
    return undefined;
  }
}

/** Removing a client from the seed does not remove it from the service, so the log names those that are left. */
async function logOthers({ clients, logger }: SeededServices, inSeed: ReadonlySet<string>): Promise<void> {
  const others: string[] = [];
  for await (const { items } of pagesOf((after) => clients.list({ after, limit: 200 })))
    others.push(...items.map(({ client_id }) => client_id).filter((id) => !inSeed.has(id)));
  if (others.length === 0) return;
  logger.info(
    `registered, but not in the seed: ${listed(others)} (they stay registered; remove them with clients.remove)`,
  );
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Adds the path in the seed to problems that only the service can find. */
async function located<T>(path: readonly PropertyKey[], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isProblem =
      error instanceof InvalidArgument ||
      error instanceof NotApplicable ||
      error instanceof UnknownReference ||
      error instanceof InvalidPassword ||
      error instanceof IdentifierTaken;
    throw isProblem ? new ConfigurationError([problem(path, error.message)]) : error;
  }
}

function problem(path: readonly PropertyKey[], text: string): string {
  return `${pathIn("config.seed", path)}: ${text}`;
}
