import { type Logger, pino } from "pino";
import type { NewDelivery } from "../../records/deliveries/delivery.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { artifactRecord } from "../../records/artifacts/artifact-kinds.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { Changes, Records } from "../../records/records.ts";
import type { Commit } from "../../adapters/record-store.ts";
import { type AuditEvent, clientNow, SYSTEM } from "../../records/audit/audit-event.ts";
import { openStorage } from "../../records/storage.ts";
import type { Storage } from "../../records/storage.ts";
import type { OwnershipLimits, PasswordRules } from "../../config/configuration.ts";
import type { AccessCleanup } from "../../accounts/access-cleanup.ts";
import type { ServiceKeys } from "../../accounts/keys/service-keys.ts";
import type { AccountInternals } from "../../accounts/account.ts";
import type { Accounts } from "../../accounts/operations/accounts.ts";
import type { ClientRows } from "../../accounts/clients/client-settings.ts";
import type { ClientInternals } from "../../accounts/clients/client.ts";
import type { Clients } from "../../accounts/operations/clients.ts";
import type { Directory, DirectoryInternals } from "../../accounts/directory.ts";
import { createWebhooks, type Webhooks } from "../../accounts/events/webhooks.ts";
import type { EventsInput } from "../../config/events.ts";
import type { AccountsInput } from "../../config/attributes.ts";
import { createPasswords, type Passwords } from "../../accounts/passwords/passwords.ts";
import { openSearchIndex } from "../../accounts/search/search-index.ts";
import type { PersonFields } from "../../accounts/profile-fields.ts";
import type { Claims } from "../../provider/claims.ts";
import type { ReceiverSettings } from "../../accounts/receivers.ts";
import { createEvents, type ServiceEmitter, type ServiceEvents } from "../../core/events.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import { type NotificationBody, NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { readConfiguration } from "../../config/read.ts";
import { defaults } from "../../config/schema.ts";
import { createAccountServices } from "../../lib/account-services.ts";
import { createStorageServices } from "../../records/services.ts";
import { closing } from "../closing.ts";
import { fixedKeys, watchedAudit, watchedLogout } from "../watched-parts.ts";

export const RULES: PasswordRules = {
  memory: 19_456,
  passes: 2,
  lanes: 1,
  minLength: 8,
  maxLength: 128,
  parallel: 2,
};

/** Shared by all domains of a test file, so that threads start once. */
const PASSWORDS = createPasswords(RULES);

export const RECEIVER: ReceiverSettings = {
  url: "https://receiver.example/notify",
  client_id: "receiver",
  client_secret: "receiver secret",
  types: NOTIFICATION_TYPES,
};

/** The clients of the {@link seed} domain: of the services "1" and "2". */
export const CLIENTS: readonly string[] = ["one", "two"];

/** 2026-01-01T00:00:00Z */
export const START = 1_767_225_600;

/** The numbers of password computations. */
export interface Counts {
  hash: number;
  /** Comparisons with a hash. */
  verify: number;
  /** Comparisons without a hash, which must cost the same. */
  verifyNothing: number;
}

/** The domain over a real storage in memory, with a manual clock. */
export interface Domain {
  readonly storage: Storage;
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly directory: Directory & DirectoryInternals;
  readonly fields: PersonFields;
  readonly clientRows: ClientRows;
  readonly claims: Claims;
  readonly keys: ServiceKeys;
  readonly logger: Logger;
  readonly sealer: Sealer;
  readonly clock: { now(): number; seconds: number };
  readonly counts: Counts;
  readonly notified: NewDelivery[];
  readonly ended: ServiceEvents["session.ended"][];
  readonly cleanup: AccessCleanup;
  readonly webhooks: Webhooks;
  /** The same with another limit of waiting deliveries. */
  readonly webhooksWith: (mostWaiting: number) => Webhooks;
  readonly dropped: ServiceEvents["delivery.dropped"][];
  /** What was noted for the audit in the background. */
  readonly audited: readonly AuditEvent[];
  /** The `uid`s of sessions whose clients were told. */
  readonly signedOut: readonly string[];
  readonly changed: ServiceEvents["account.changed"][];
  readonly faults: ServiceEvents["fault"][];
  /** A second domain over the same storage, as in another process. */
  reopen(changes?: Partial<Options>): Domain;
  /** The bodies of all stored notifications, in order, with their receivers. */
  bodies(): Promise<{ readonly receiver: string; readonly body: NotificationBody }[]>;
}

export interface Options {
  readonly rules: PasswordRules;
  readonly production: boolean;
  /** Attributes of one's own. Default: none. */
  readonly accounts: AccountsInput;
  /** Receivers of events. Default: none. */
  readonly receivers: EventsInput["receivers"];
  readonly limits: OwnershipLimits;
  readonly sendsLogoutTokens: boolean;
  readonly notify: (deliveries: readonly NewDelivery[]) => void;
  readonly storage: (storage: Storage) => Storage;
}

export async function openDomain(options: Partial<Options> = {}): Promise<Domain> {
  const clock = { virtual: true, seconds: START, now: () => clock.seconds * 1000 };
  const storage = await openStorage({ storage: "sqlite::memory:", artifacts: "sqlite::memory:", clock });
  await openSearchIndex(storage.records);
  return build(closing(storage), clock, options);
}

function build(opened: Storage, clock: Domain["clock"], options: Partial<Options>): Domain {
  const storage = options.storage?.(opened) ?? opened;
  const { sendsLogoutTokens = true, production = false, limits = defaults.limits } = options;
  const deployment = { url: "http://127.0.0.1:1" };
  const deployments = sendsLogoutTokens ? { openid: deployment } : { oauth2: deployment };
  const configuration = {
    ...readConfiguration({
      deployments,
      storage: "sqlite::memory:",
      clock,
      ...(options.accounts && { accounts: options.accounts }),
      ...(options.receivers && { events: { receivers: options.receivers } }),
    }),
    production,
    limits,
  };
  const counts: Counts = { hash: 0, verify: 0, verifyNothing: 0 };
  const notified: NewDelivery[] = [];
  const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
  const keys = fixedKeys(sealer);
  const logger = pino({ level: "silent" });
  const [audit, backchannel] = [watchedAudit(), watchedLogout()];
  const events = createEvents((error) => {
    throw error;
  });
  const base = createStorageServices({ configuration, storage, sealer, logger }, { events, audit });
  const given = {
    ...base,
    keys,
    backchannel,
    onMail: () => undefined,
    onDeliveries: options.notify ?? ((deliveries: readonly NewDelivery[]) => notified.push(...deliveries)),
  };
  const { accounts, clients, clientRows, directory, fields, claims, cleanup, webhooks } =
    createAccountServices(
      given,
      {},
      {
        passwords: counted(options.rules === undefined ? PASSWORDS : createPasswords(options.rules), counts),
      },
    );
  return {
    storage,
    accounts,
    clients,
    directory,
    fields,
    clientRows,
    claims,
    keys,
    logger,
    sealer,
    clock,
    counts,
    notified,
    ended: recorded(events, "session.ended"),
    cleanup,
    webhooks,
    webhooksWith: (mostWaiting) => createWebhooks({ ...given, fields }, { mostWaiting }),
    dropped: recorded(events, "delivery.dropped"),
    audited: audit.noted,
    signedOut: backchannel.ended,
    changed: recorded(events, "account.changed"),
    faults: recorded(events, "fault"),
    reopen: (changes = {}) => build(opened, clock, { ...options, ...changes }),
    async bodies() {
      const deliveries = await storage.deliveries.list({ limit: 1000 });
      const found = await Promise.all(deliveries.map(({ id }) => storage.deliveries.find(id)));
      return found.map((delivery) => ({
        receiver: delivery?.receiver ?? "",
        body: JSON.parse(
          sealer.open(`delivery ${delivery?.id}`, delivery?.payload ?? ""),
        ) as NotificationBody,
      }));
    },
  };
}

function recorded<E extends "account.changed" | "session.ended" | "delivery.dropped" | "fault">(
  events: ServiceEmitter,
  name: E,
): ServiceEvents[E][] {
  const list: ServiceEvents[E][] = [];
  events.on(name, (argument) => void list.push(argument));
  return list;
}

function counted(passwords: Passwords, counts: Counts): Passwords {
  return {
    ...passwords,
    hash(password) {
      counts.hash += 1;
      return passwords.hash(password);
    },
    verify(hash, password) {
      counts[hash === null ? "verifyNothing" : "verify"] += 1;
      return passwords.verify(hash, password);
    },
  };
}

/** The storage with something before each commit that writes a record of this kind. */
export function withCommit(
  storage: Storage,
  beforehand: (change: Commit) => Promise<void>,
  { name }: { readonly name: string } = ACCOUNT,
): Storage {
  const { store, clock } = storage.records;
  const commit = async (change: Commit): Promise<void> => {
    const { put = [], remove = [] } = change;
    if ([...put, ...remove].some(({ kind }) => kind === name)) await beforehand(change);
    await store.commit(change);
  };
  const watched = new Proxy(store, {
    get(target, member) {
      const value: unknown = member === "commit" ? commit : Reflect.get(target, member, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { ...storage, records: new Records(watched, clock, KINDS) };
}

/** Stores artifacts of an account: a session, and tokens for each client. */
export async function addArtifacts(
  domain: Domain,
  accountId: string,
  clientIds: readonly string[],
): Promise<void> {
  const expiresAt = (domain.clock.seconds + 3600) * 1000;
  const session = { model: "Session", key: `s-${accountId}`, payload: {}, expiresAt, accountId, uid: "uid" };
  const tokens = clientIds.flatMap((clientId) => {
    const key = `${clientId}-${accountId}`;
    return ["Grant", "AccessToken", "RefreshToken", "AuthorizationCode"].map((model) => ({
      model,
      key,
      payload: {},
      expiresAt,
      accountId,
      clientId,
      grantKey: key,
    }));
  });
  const changes = new Changes();
  for (const artifact of [session, ...tokens]) changes.add(artifactRecord(artifact));
  await domain.storage.artifacts.commit(changes, domain.clock.now() + 60_000);
}

/** Stores a consent given in a current session. */
export async function consent(
  { accounts, clients }: Domain,
  sub: string,
  client_id: string,
  scopes: readonly string[],
  claims: readonly string[] = [],
): Promise<AccountRecord> {
  const { sessions_generation: sessionsGeneration = 0 } = (await accounts.record(sub)) ?? {};
  const client = clientNow({ client_id, service: (await clients.record(client_id))?.service });
  return accounts.rememberConsent(sub, client, { scopes, claims, sessionsGeneration }, SYSTEM);
}

/** Creates two services with a receiver and a client each, and an account with both, a session and tokens. */
export async function seed(domain: Domain): Promise<string> {
  const { directory, clients, accounts } = domain;
  for (const [index, client_id] of CLIENTS.entries()) {
    const service = String(index + 1);
    await directory.services.put(service, { name: client_id, receiver: RECEIVER });
    await clients.register({ client_id, name: client_id, service, redirect_uris: ["https://c.example/cb"] });
  }
  const account = await accounts.import({ email: "ada@example.com", services: { "1": 11, "2": null } });
  for (const client_id of CLIENTS) await consent(domain, account.sub, client_id, ["profile"]);
  await addArtifacts(domain, account.sub, CLIENTS);
  return account.sub;
}

/** The remaining artifacts of an account: `session`, and the clients with tokens. */
export async function remainingArtifacts(
  domain: Domain,
  accountId: string,
  clientIds: readonly string[],
): Promise<string[]> {
  const left: string[] = [];
  await domain.cleanup.settled(5_000);
  if ((await domain.storage.artifacts.find("Session", `s-${accountId}`)) !== undefined) left.push("session");
  for (const clientId of clientIds) {
    const found = await Promise.all(
      ["Grant", "AccessToken", "RefreshToken", "AuthorizationCode"].map((model) =>
        domain.storage.artifacts.find(model, `${clientId}-${accountId}`),
      ),
    );
    if (found.some((artifact) => artifact !== undefined)) left.push(clientId);
  }
  return left;
}

/** The code of the error with which the promise rejects. @throws when it does not reject. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof TypeError) return `TypeError ${error.message}`;
    return String((error as { readonly code?: unknown }).code);
  }
  throw new Error("it did not reject");
}
