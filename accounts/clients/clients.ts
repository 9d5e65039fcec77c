/** Registering, changing and removing clients. */
import { randomBytes } from "node:crypto";
import { type AuditDetail, type Caller, clientNow, SYSTEM } from "../../records/audit/audit-event.ts";
import { seconds } from "../../core/clock.ts";
import type { ClientRecord, ClientSecret, StoredLogo } from "../../records/directory/directory.ts";
import {
  CLIENT,
  CLIENT_LOGO,
  ENTRIES,
  IDENTIFIER,
  isOpen,
  newTokensEpoch,
  REMOVED_CLIENT,
} from "../../records/directory/directory-kinds.ts";
import {
  AlreadyExists,
  IdentifierTaken,
  InvalidArgument,
  NotApplicable,
  NotFound,
  UnknownReference,
} from "../../core/errors.ts";
import { withoutFailing } from "../../core/events.ts";
import { hmac } from "../../core/sealing.ts";
import { putRemoval } from "../access-cleanup.ts";
import { forgetInApis, requireApis } from "../apis.ts";
import { checked, invalid } from "../arguments.ts";
import { type Client, type Clients, type ClientTable, clientOperations } from "../operations/clients.ts";
import { type Call, facade, type Handlers, pageOf } from "../operations/operation.ts";
import { type ClientInternals, isPublic, profileRules, type SeededClient } from "./client.ts";
import { addressProblems, DEFAULT_KIND, originsOf, type SettingProblem } from "./client-kinds.ts";
import { logoOf } from "./client-logo.ts";
import {
  changedMembers,
  refuseFixed,
  seededChanges,
  toClient,
  unsetSettings,
  withSettings,
} from "./client-record.ts";
import { clientChanges, newClient, type ClientChanges, type CheckedClient } from "./client-schema.ts";
import { addedSecret, generateSecret, secretMatches } from "./client-secrets.ts";
import { configuredProblems, kindProblems, withoutAbsent } from "./client-settings.ts";
import { putMarks, readMark, type SeedMark } from "../seed-marks.ts";
import { clientIdProblem } from "../text-rules.ts";
import type { AccountServices } from "../services.ts";

/** A change to make. `updated_at` is set with it. */
interface ClientDecision {
  /** The name of the change in events and in the audit. */
  readonly action:
    | "client.registered"
    | "client.updated"
    | "client.secret_rotated"
    | "client.tokens_revoked"
    | "client.disabled"
    | "client.enabled"
    | "client.removed";
  /** The record afterwards; `undefined` removes the client. */
  readonly record: ClientRecord | undefined;
  /** The logo afterwards; `null` removes it. Default: it stays as it is. */
  readonly logo?: StoredLogo | null | undefined;
}

const noClient = (): NotFound => new NotFound("this client");

type ProfileRules = Awaited<ReturnType<typeof profileRules>>;

/** The clients of one storage. */
export function createClients({
  configuration,
  storage,
  clock,
  events,
  keys,
  accounts,
  cleanup,
  clientRows: rows,
  documents,
}: Omit<AccountServices, "clients" | "directory">): Clients & ClientInternals {
  const { production, deployments } = configuration;
  const { clientSecrets: secretKey } = keys;
  const { directory } = storage;
  const { kinds } = rows;
  const changesSchema = clientChanges(rows, configuration);
  const newSchema = newClient(rows, configuration);

  /** The client after a change. @throws NotFound if there is none. */
  function shown(record: ClientRecord | undefined): Client {
    const client = record && toClient(rows, record);
    if (client === undefined) throw noClient();
    return client;
  }

  /**
   * The one way to change a client.
   * @param decide decides on the current record; `undefined` changes nothing. It is called again after a conflict.
   * @throws UnknownReference when the client's service does not exist.
   * @throws IdentifierTaken when the id of a new client is the `sub` of an account, also of a deleted one.
   * @throws StorageUnavailable when the storage fails or there are too many concurrent changes.
   */
  function change(
    client_id: string,
    caller: Caller,
    decide: (before: ClientRecord | undefined, isMarked: boolean) => ClientDecision | undefined,
    mark?: SeedMark,
  ): Promise<{
    readonly before: ClientRecord | undefined;
    readonly record: ClientRecord | undefined;
    readonly changed: boolean;
  }> {
    return storage.records.transact(async (tx) => {
      const isMarked = mark !== undefined && (await readMark(tx, mark));
      const [before, owner] = await tx.peekAll([CLIENT.ref(client_id), IDENTIFIER.ref(client_id)]);
      const decision = decide(before, isMarked);
      if (mark !== undefined && !isMarked) putMarks(tx, [mark]);
      if (decision === undefined) return { before, record: before, changed: false };
      const { action, logo } = decision;
      const record = decision.record && { ...decision.record, updated_at: seconds(clock) };
      if (record === undefined) {
        tx.remove(CLIENT.ref(client_id));
        tx.overwrite(REMOVED_CLIENT.record({ client_id }));
        if (owner !== undefined && "client_id" in owner) tx.remove(IDENTIFIER.ref(client_id));
      } else {
        if (before === undefined && owner !== undefined && "sub" in owner)
          throw new IdentifierTaken("an account that has, or had, this sub");
        const service = record.service === null ? undefined : ENTRIES.service.ref(record.service);
        if (service !== undefined && !isOpen(await tx.get(service), clock))
          throw new UnknownReference("the client's service");
        await requireApis(tx, before?.apis, record.apis, clock);
        tx.put(CLIENT.record(record));
        if (before === undefined) tx.put(IDENTIFIER.record({ client_id }));
        if (logo === null) tx.remove(CLIENT_LOGO.ref(client_id));
        else if (logo !== undefined) tx.overwrite(CLIENT_LOGO.record(logo));
      }
      if (before !== undefined && before.tokens_epoch !== record?.tokens_epoch) {
        putRemoval(tx, "client", client_id, clock);
        tx.afterCommit(() => cleanup.clientEnded(client_id));
      }
      const detail = record && auditDetail(action, before, record);
      const services = [before?.service, record?.service].filter((each) => typeof each === "string");
      const client = { client_id, services: [...new Set(services)] };
      tx.create(
        storage.audit.recordOf({ ...caller, client, action, subject: client_id, ...(detail && { detail }) }),
      );
      tx.afterCommit(() => void events.emit("client.changed", { client_id, action }));
      return { before, record, changed: true };
    });
  }

  /** A new client must not inherit tokens, consents and rights of a removed one with the same id. */
  async function forgetRemoved(client_id: string, caller: Caller): Promise<void> {
    if (!(await directory.wasRemoved(client_id))) return;
    if ((await directory.findClient(client_id)) !== undefined) return;
    await cleanup.clientEnded(client_id);
    await accounts.forgetConsents({ client_id, services: [] }, caller);
    await forgetInApis(storage, client_id, caller);
  }

  /** @throws InvalidArgument for an address that would never get a logout token that it can verify. */
  function requireIssuer({ backchannel_logout_uri }: Partial<ClientRecord>): void {
    if (deployments.openid !== undefined || (backchannel_logout_uri ?? null) === null) return;
    throw new InvalidArgument({
      path: "client.backchannel_logout_uri",
      message: "needs the openid deployment, whose issuer and keys verify logout tokens",
    });
  }

  /** Ends the tokens of a `machine` client. Those of people don't depend on the secret. */
  function withoutMachineTokens(record: ClientRecord): ClientRecord {
    return kinds[record.kind].people ? record : withoutTokens(record);
  }

  function withSecret(before: ClientRecord, secret: string | undefined): ClientRecord {
    if (secret === undefined) return before;
    const { jwks: _keys, ...record } = before;
    const digest: ClientSecret = { hash: hmac(secretKey, secret) };
    const isKnown = record.secrets.some(
      ({ hash, expires_at }) => hash === digest.hash && expires_at === undefined,
    );
    return isKnown ? record : withoutMachineTokens({ ...record, secrets: [digest] });
  }

  async function setDisabled(
    { target: [client_id], caller }: Call<ClientTable["rows"]["disable"]>,
    action: "client.disabled" | "client.enabled",
  ): Promise<Client> {
    const disabled = action === "client.disabled";
    const { record } = await change(client_id, caller, (before) =>
      !isPublic(before) || before.disabled === disabled
        ? undefined
        : { action, record: withoutTokens({ ...before, disabled }) },
    );
    return shown(record);
  }

  function newRecord(
    client: CheckedClient,
    client_id: string,
    secret: ClientSecret,
    rules: ProfileRules,
  ): ClientRecord {
    const { kind, jwks, id_token_signed_response_alg: algorithm } = client;
    const hasSecret = kinds[kind].confidential && jwks === undefined;
    const algorithms = keys.signing.inForce().map(({ alg }) => alg);
    if (algorithm !== undefined && !algorithms.includes(algorithm)) {
      throw new InvalidArgument({
        path: "client.id_token_signed_response_alg",
        message: `no key in keys.signing signs with ${algorithm}`,
      });
    }
    const now = seconds(clock);
    const record = withSettings(
      rows,
      {
        ...unsetSettings(rows, kind),
        client_id,
        kind,
        name: client.name,
        service: client.service,
        secrets: hasSecret ? [secret] : [],
        tokens_epoch: newTokensEpoch(),
        disabled: false,
        created_at: now,
        updated_at: now,
      },
      { ...rules?.fapiDefaults(kinds[kind], algorithms), ...withoutAbsent(client) },
    );
    requireIssuer(record);
    refuse(rules?.fapiProblems(record, kinds[kind], algorithms) ?? []);
    return record;
  }

  /** Whether a client has the secret, or the keys, that a seed names. */
  function hasCredentials(record: ClientRecord, { jwks, client_secret }: CheckedClient): boolean {
    if (jwks !== undefined) return JSON.stringify(record.jwks) === JSON.stringify(jwks);
    if (client_secret === undefined) return true;
    return secretMatches(secretKey, record, client_secret, clock.now() / 1000) !== undefined;
  }

  /** The client with other settings. Its codes and tokens belong to the service that people were asked about. */
  function withChanges(before: ClientRecord, changes: ClientChanges, rules: ProfileRules): ClientRecord {
    refuse(kindProblems(rows, { ...changes, kind: before.kind }));
    refuse(configuredProblems(rows, { ...changes }, configuration));
    const updated = withSecret(withSettings(rows, before, changes), changes.client_secret);
    const after = updated.service === before.service ? updated : withoutTokens(updated);
    refuse(addressProblems(kinds[after.kind], after, production));
    refuse(rules?.fapiProblems(after, kinds[after.kind]) ?? []);
    if (after.backchannel_logout_uri !== before.backchannel_logout_uri) requireIssuer(after);
    return after;
  }

  const table = clientOperations(rows);
  const operations: Handlers<typeof table.rows> = {
    async register({ input, caller }) {
      const client = checked("client", newSchema, input);
      const { client_id = generateId(), client_secret = generateSecret() } = client;
      const secret: ClientSecret = {
        hash: hmac(secretKey, client_secret),
        ...(client.client_secret === undefined && { generated: true }),
      };
      const record = newRecord(client, client_id, secret, await profileRules(client));
      if (client.client_id !== undefined) await forgetRemoved(client_id, caller);
      await change(client_id, caller, (before) => {
        if (before !== undefined) throw new AlreadyExists("a client with this client_id");
        return { action: "client.registered", record, logo: logoOf(client_id, client) };
      });
      return { client_id, ...(record.secrets.length > 0 && { client_secret }) };
    },

    async find({ target: [client_id] }) {
      const record = await directory.findClient(client_id);
      return record && toClient(rows, record);
    },

    async list({ input }) {
      const { kind, service, disabled } = input;
      const all = (await directory.listClients()).flatMap((record) => toClient(rows, record) ?? []);
      const fitting = all.filter(
        (client) =>
          (kind === undefined || client.kind === kind) &&
          (service === undefined || client.service === service) &&
          (disabled === undefined || client.disabled === disabled),
      );
      return pageOf(fitting, ({ client_id }) => client_id, input);
    },

    async update({ target: [client_id], input, caller }) {
      const changes = checked("client", changesSchema, input);
      const rules = await profileRules(await directory.findClient(client_id));
      const { record } = await change(client_id, caller, (before) => {
        if (!isPublic(before)) throw noClient();
        const after = withChanges(before, changes, rules);
        // Both come from JSON and keep the order of their members, so equal text is an equal record.
        if (JSON.stringify(after) === JSON.stringify(before)) return undefined;
        return { action: "client.updated", record: after, logo: logoOf(client_id, changes) };
      });
      return shown(record);
    },

    async rotateSecret({ target: [client_id], input: { keepOldFor = 0 }, caller }) {
      const client_secret = generateSecret();
      const digest: ClientSecret = { hash: hmac(secretKey, client_secret), generated: true };
      await change(client_id, caller, (before) => {
        if (!isPublic(before)) throw noClient();
        if (!kinds[before.kind].confidential)
          throw new NotApplicable(`a ${before.kind} client has no secret`);
        if (before.jwks !== undefined) throw new NotApplicable("the client has keys in place of a secret");
        const secrets = addedSecret(before.secrets, digest, clock.now() / 1000, keepOldFor);
        const record = { ...before, secrets };
        return {
          action: "client.secret_rotated",
          // Whoever knows the old secret may have tokens, too.
          record: keepOldFor === 0 ? withoutMachineTokens(record) : record,
        };
      });
      return { client_id, client_secret };
    },

    async revokeTokens({ target: [client_id], caller }) {
      await change(client_id, caller, (before) => {
        if (!isPublic(before)) throw noClient();
        if (kinds[before.kind].people)
          throw new NotApplicable("the tokens of this client belong to people: use accounts.revokeTokens");
        return { action: "client.tokens_revoked", record: withoutTokens(before) };
      });
    },

    disable: (call) => setDisabled(call, "client.disabled"),
    enable: (call) => setDisabled(call, "client.enabled"),

    async remove({ target: [client_id], caller }) {
      const known = await directory.findClient(client_id);
      if (known === undefined || known.service === null) return false;
      const { changed } = await change(
        client_id,
        caller,
        (before) => before && { action: "client.removed", record: undefined },
      );
      if (!changed) return false;
      // Consents are dead without their client. What can't be removed now goes at the account's next consent, or before
      // another client gets this id.
      await withoutFailing(events, "forget the client in APIs", () =>
        forgetInApis(storage, client_id, caller),
      );
      await withoutFailing(events, "forget consents", () =>
        accounts.forgetConsents(clientNow(known), caller),
      );
      return true;
    },
  };

  return {
    // The type of what `register` returns depends on the kind of client.
    ...(facade(table, operations) as unknown as Clients),

    async seed(client, { nameOfNew, mark }) {
      const { client_id, name = nameOfNew } = client;
      const client_secret = client.client_secret ?? undefined;
      const fresh = checked("client", newSchema, { ...client, name, client_secret });
      const lacksCredentials = client.client_secret === null && kinds[fresh.kind].confidential;
      const changes = seededChanges(rows, client);
      const rules = await profileRules(fresh);
      let done: SeededClient = { kind: "same", keepsCredentials: false, lacksCredentials: false };
      if ((await directory.findClient(client_id)) === undefined) await forgetRemoved(client_id, SYSTEM);
      await change(
        client_id,
        SYSTEM,
        (before, isMarked) => {
          if (before === undefined && isMarked) {
            done = { kind: "removed", keepsCredentials: false, lacksCredentials: false };
            return undefined;
          }
          if (before === undefined) {
            done = { kind: "created", keepsCredentials: false, lacksCredentials };
            const secret: ClientSecret = {
              hash: hmac(secretKey, client_secret ?? generateSecret()),
              ...(lacksCredentials && { generated: true }),
            };
            const record = newRecord(fresh, client_id, secret, rules);
            return { action: "client.registered", record, logo: logoOf(client_id, fresh) };
          }
          if (!isPublic(before))
            throw new InvalidArgument({ path: "client.client_id", message: "belongs to the service" });
          refuseFixed(rows, before, fresh);
          const { refresh_tokens: refresh } = changes;
          const merged = refresh && { refresh_tokens: { ...before.refresh_tokens, ...refresh } };
          const after = withChanges(before, { ...changes, ...merged }, rules);
          const fields = changedMembers(before, after);
          const keepsCredentials = !hasCredentials(before, fresh);
          if (fields.length === 0) {
            done = { kind: "same", keepsCredentials, lacksCredentials: false };
            return undefined;
          }
          done = { kind: "updated", fields, keepsCredentials, lacksCredentials: false };
          return { action: "client.updated", record: after, logo: logoOf(client_id, changes) };
        },
        mark,
      );
      return done;
    },

    async record(client_id) {
      // No registered client has a colon in its name.
      return client_id.includes(":") ? documents?.client(client_id) : directory.findClient(client_id);
    },

    kindOf: ({ kind, document, jwks }) =>
      document === undefined || jwks === undefined ? kinds[kind] : { ...kinds[kind], confidential: true },

    allRecords: () => directory.listClients(),

    async allOrigins() {
      const records = await directory.listClients();
      const enabled = records.filter((record) => isPublic(record) && !record.disabled);
      return new Set(enabled.flatMap((record) => originsOf(kinds[record.kind], record)));
    },

    async logo(client_id) {
      if (clientIdProblem(client_id) !== undefined) return undefined;
      const record = await directory.findClient(client_id);
      if (!isPublic(record) || record.disabled || record.logo === undefined) return undefined;
      return directory.findLogo(client_id);
    },

    secretMatches: (record, presented) => secretMatches(secretKey, record, presented, clock.now() / 1000),

    async putInternal(client) {
      const now = seconds(clock);
      const {
        before: replaced,
        record,
        changed,
      } = await change(client.client_id, SYSTEM, (before) => {
        if (before !== undefined && before.service !== null) {
          throw new InvalidArgument({ path: "client_id", message: "belongs to a registered client" });
        }
        const blank: Omit<ClientRecord, keyof typeof client> = {
          ...unsetSettings(rows, DEFAULT_KIND),
          kind: DEFAULT_KIND,
          disabled: false,
          service: null,
          secrets: [],
          grant_types: ["authorization_code"],
          tokens_epoch: newTokensEpoch(),
          created_at: now,
          updated_at: now,
        };
        const after = { ...(before ?? blank), ...client };
        if (before !== undefined && JSON.stringify(after) === JSON.stringify(before)) return undefined;
        return { action: before === undefined ? "client.registered" : "client.updated", record: after };
      });
      if (record === undefined) throw new TypeError("client_id: could not be stored");
      return { record, replaced: changed ? replaced : undefined };
    },
  };
}

/** The record with a new epoch, which ends all codes and tokens of the client for good. */
function withoutTokens(record: ClientRecord): ClientRecord {
  return { ...record, tokens_epoch: newTokensEpoch() };
}

function auditDetail(
  action: ClientDecision["action"],
  before: ClientRecord | undefined,
  after: ClientRecord,
): AuditDetail | undefined {
  if (action === "client.registered") return { kind: after.kind };
  if (action !== "client.updated" || before === undefined) return undefined;
  return { fields: changedMembers(before, after).join(" ") };
}

function refuse(problems: readonly SettingProblem[]): void {
  if (problems.length > 0) throw invalid("client", problems);
}

/** A 128-bit identifier that can't be mistaken for a UUID. */
function generateId(): string {
  return `client_${randomBytes(16).toString("hex")}`;
}
