/** The seed: portals, groups, services, APIs, clients and first accounts that every start writes to the storage. */
import { z } from "zod";
import type { Configuration } from "../config/configuration.ts";
import { described } from "../config/documented-schema.ts";
import { apiIdentifier, type ApiSettings, apiSettings } from "../accounts/apis.ts";
import { importedAccount } from "../accounts/account-schema.ts";
import type { Accounts } from "../accounts/account.ts";
import type { ImportedAccount } from "../accounts/account.ts";
import { exactly, isObject, mapOf, pathIn } from "../accounts/arguments.ts";
import type { AnyNewClient, ClientChanges, NewClient } from "../accounts/clients/client.ts";
import { hasSetting } from "../accounts/clients/client-kinds.ts";
import {
  type ClientInput,
  type IdentifiedClient,
  identifiedClient,
} from "../accounts/clients/client-schema.ts";
import type { Clients } from "../accounts/clients/client.ts";
import {
  type Directory,
  entryKey,
  type EntrySettings,
  entrySettings,
  type ServiceSettings,
  serviceSettings,
} from "../accounts/directory.ts";
import { textProblem } from "../accounts/text-rules.ts";
import {
  AlreadyExists,
  ConfigurationError,
  IdentifierTaken,
  InvalidPassword,
  NameTaken,
  UnknownReference,
} from "../core/errors.ts";
import { createLogger } from "../core/logger.ts";

/** A client in a seed. The id and secret are required, because generated ones would be unknown. */
export interface SeedClient extends Omit<NewClient, "name"> {
  readonly client_id: string;
  readonly client_secret: string;
  /** Default: the name of its service in the seed, otherwise its `client_id`. */
  readonly name?: string | undefined;
}

/** A client in a seed that has keys instead of a secret, or is not `web`. Its kind decides which settings it has. */
type OtherSeedClient = Omit<ClientInput, "name"> & Pick<SeedClient, "client_id" | "name">;

/** A seed. All parts are optional. */
export interface Seed {
  /** Key → portal. Created, or updated to these values. */
  readonly portals?: Readonly<Record<string, EntrySettings>> | undefined;
  /** Key → group. Created, or updated to these values. */
  readonly groups?: Readonly<Record<string, EntrySettings>> | undefined;
  /** Key → service. Created, or updated to these values. */
  readonly services?: Readonly<Record<string, ServiceSettings>> | undefined;
  /** Identifier → API. Created, or updated to these values. */
  readonly apis?: Readonly<Record<string, ApiSettings>> | undefined;
  /** Registered, or updated to these values; a setting that is left out gets its default. */
  readonly clients?: readonly (SeedClient | OtherSeedClient)[] | undefined;
  /** Created unless the e-mail address or username is taken. Existing accounts are not changed. */
  readonly accounts?: readonly ImportedAccount[] | undefined;
}

/** The running service that a seed is applied to. */
export interface SeededService {
  readonly accounts: Pick<Accounts, "findByLogin" | "import">;
  readonly clients: Pick<Clients, "register" | "update" | "find" | "list">;
  readonly directory: Directory;
  readonly configuration?: Pick<Configuration, "logger">;
}

/** How many of the clients that are missing in the seed the log names. */
const MAX_NAMED = 20;

/** A client of a seed, by the rules of a service on loopback. Others require longer secrets and refuse its addresses. */
export const seedClient: z.ZodType<IdentifiedClient> = identifiedClient({ production: false });

type CheckedSeed = Omit<Seed, "clients"> & {
  readonly clients?: readonly IdentifiedClient[] | undefined;
};

/** The whole seed. */
export const seedSchema: z.ZodType<CheckedSeed> = exactly({
  portals: described(mapOf(entryKey, entrySettings).optional(), {
    form: "an object: key → portal",
    description: "Created, or updated to these values",
    otherwise: "none",
  }),
  groups: described(mapOf(entryKey, entrySettings).optional(), {
    form: "an object: key → group",
    description: "Created, or updated to these values",
    otherwise: "none",
  }),
  services: described(mapOf(entryKey, serviceSettings).optional(), {
    form: "an object: key → service",
    description: "Created, or updated to these values",
    otherwise: "none",
  }),
  apis: described(mapOf(apiIdentifier, apiSettings).optional(), {
    form: "an object: identifier → API",
    description: "Created, or updated to these values",
    otherwise: "none",
  }),
  clients: described(z.array(seedClient, { error: "must be a list" }).optional(), {
    form: "a list of clients",
    description: "Registered, or updated to these values; a setting that is left out gets its default",
    otherwise: "none",
  }),
  accounts: described(z.array(importedAccount, { error: "must be a list" }).optional(), {
    form: "a list of accounts",
    description: "Created unless the e-mail address or username is taken; existing accounts are not changed",
    otherwise: "none",
  }),
});

/** See `start-service.ts`. */
export async function applySeed(service: SeededService, seed: Seed | undefined): Promise<void> {
  if (seed === undefined) return;
  const result = seedSchema.safeParse(named(seed));
  if (!result.success) {
    throw new ConfigurationError(result.error.issues.map((issue) => problem(issue.path, issue.message)));
  }
  const { portals = {}, groups = {}, services = {}, apis = {}, clients = [], accounts = [] } = result.data;
  const { directory } = service;
  // In this order, so that every reference leads to an entry that exists.
  for (const [key, entry] of Object.entries(portals)) {
    await located(["portals", key], () => directory.portals.put(key, entry));
  }
  for (const [key, entry] of Object.entries(groups)) {
    await located(["groups", key], () => directory.groups.put(key, entry));
  }
  for (const [key, entry] of Object.entries(services)) {
    await located(["services", key], () => directory.services.put(key, entry));
  }
  // Clients and APIs name each other, so an API is first put with the clients that it already names.
  for (const [identifier, api] of Object.entries(apis)) {
    await located(["apis", identifier], async () => {
      const { introspection = [] } = (await directory.apis.find(identifier)) ?? {};
      await directory.apis.put(identifier, { ...api, introspection });
    });
  }
  for (const [index, client] of clients.entries()) {
    await located(["clients", index], () => applyClient(service.clients, client));
  }
  for (const [identifier, api] of Object.entries(apis)) {
    await located(["apis", identifier], () => directory.apis.put(identifier, api));
  }
  for (const [index, account] of accounts.entries()) {
    await located(["accounts", index], () => applyAccount(service.accounts, account));
  }
  if (clients.length > 0) await logOthers(service, new Set(clients.map(({ client_id }) => client_id)));
}

/** Removing a client from the seed does not remove it from the service, so the log names those that are left. */
async function logOthers(
  { clients, configuration }: SeededService,
  inSeed: ReadonlySet<string>,
): Promise<void> {
  const others = (await clients.list()).map(({ client_id }) => client_id).filter((id) => !inSeed.has(id));
  if (others.length === 0) return;
  const more = others.length - MAX_NAMED;
  const list = others.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const logger = configuration?.logger ?? createLogger();
  logger.info(
    `registered, but not in the seed: ${list} (they stay registered; remove them with clients.remove)`,
  );
}

/** Names a client after its service. Other problems of the client are found later. */
function named(seed: unknown): unknown {
  if (!isObject(seed) || !Array.isArray(seed["clients"])) return seed;
  const services = isObject(seed["services"]) ? seed["services"] : {};
  const clients = seed["clients"].map((client: unknown) => {
    if (!isObject(client) || client["name"] !== undefined) return client;
    const key = String(client["service"]);
    const service: unknown = Object.hasOwn(services, key) ? services[key] : undefined;
    const candidates = [isObject(service) ? service["name"] : undefined, client["client_id"]];
    return { ...client, name: candidates.find((name) => isName(name)) ?? "Client" };
  });
  return { ...seed, clients };
}

function isName(name: unknown): boolean {
  return typeof name === "string" && textProblem(name) === undefined;
}

async function applyClient(clients: SeededService["clients"], client: IdentifiedClient): Promise<void> {
  const { client_id, kind = "web", id_token_signed_response_alg: alg, ...settings } = client;
  const known = await clients.find(client_id);
  if (known === undefined) {
    try {
      await clients.register(client as AnyNewClient);
      return;
    } catch (error) {
      if (!(error instanceof AlreadyExists) || error instanceof IdentifierTaken) throw error;
      // Another process registered it in the meantime.
    }
  }
  if (known !== undefined && (alg ?? "RS256") !== known.id_token_signed_response_alg) {
    throw new TypeError(
      `client.id_token_signed_response_alg: the client is registered with ${known.id_token_signed_response_alg}, and that can't be changed`,
    );
  }
  if (known !== undefined && kind !== known.kind) {
    throw new TypeError(`client.kind: the client is registered as ${known.kind}, and that can't be changed`);
  }
  const defaults: ClientChanges = {
    post_logout_redirect_uris: [],
    backchannel_logout_uri: null,
    grant_types: ["authorization_code", "refresh_token"],
    password_grant: settings.grant_types?.includes("password") ?? false,
    native: false,
    origins: null,
    first_party: true,
    second_factor: "optional",
    refresh_tokens: {},
    error_status: kind === "web" ? "documented" : "standard",
    client_uri: null,
    policy_uri: null,
    tos_uri: null,
    logo: null,
    apis: {},
  };
  await clients.update(client_id, {
    ...Object.fromEntries(Object.entries(defaults).filter(([name]) => hasSetting(kind, name))),
    ...Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)),
  });
}

async function applyAccount(accounts: SeededService["accounts"], account: ImportedAccount): Promise<void> {
  const logins = [account.email, ...(typeof account.username === "string" ? [account.username] : [])];
  for (const login of logins) {
    if ((await accounts.findByLogin(login)) !== undefined) return;
  }
  try {
    await accounts.import(account);
  } catch (error) {
    if (error instanceof IdentifierTaken) throw error;
    // Another process created it in the meantime.
    if (!(error instanceof NameTaken || error instanceof AlreadyExists)) throw error;
  }
}

/** Adds the path in the seed to problems that only the service can find. */
async function located(path: readonly PropertyKey[], work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const isProblem =
      error instanceof TypeError ||
      error instanceof UnknownReference ||
      error instanceof InvalidPassword ||
      error instanceof IdentifierTaken;
    throw isProblem ? new ConfigurationError([problem(path, error.message)]) : error;
  }
}

function problem(path: readonly PropertyKey[], text: string): string {
  return `${pathIn("config.seed", path)}: ${text}`;
}
