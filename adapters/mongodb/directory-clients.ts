/** Clients. */
import type { ClientSession, Collection } from "mongodb";
import { AlreadyExists, VersionConflict } from "../../lib/errors.ts";
import type { ClientRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { createAuditPlanner } from "./directory-audit.ts";
import { createGuards, createRequireFree, type Reference } from "./directory-references.ts";
import { isDuplicate } from "./faults.ts";
import { toKey } from "./keys.ts";

type Clients = Pick<DirectoryStore, "findClient" | "listClients" | "commitClient">;

export interface StoredClient {
  readonly _id: string;
  readonly version: number;
  /** Left out when there is none. */
  readonly service?: string;
  /** The {@link ClientRecord} as JSON. */
  readonly json: string;
}

function toRecord({ json }: StoredClient): ClientRecord {
  return JSON.parse(json);
}

export function toClientDocument(record: ClientRecord): StoredClient {
  return {
    _id: toKey(record.client_id),
    version: record.version,
    ...(record.service === null ? {} : { service: toKey(record.service) }),
    json: JSON.stringify(record),
  };
}

/** Writes the record under the condition of its version. */
async function writeRecord(
  clients: Collection<StoredClient>,
  expected: { readonly _id: string; readonly version: number | undefined },
  document: StoredClient | undefined,
  session: ClientSession,
): Promise<void> {
  const { _id, version } = expected;
  if (version === undefined) {
    if (document !== undefined) await clients.insertOne(document, { session });
    return;
  }
  const written =
    document === undefined
      ? (await clients.deleteOne({ _id, version }, { session })).deletedCount
      : (await clients.replaceOne({ _id, version }, document, { session })).matchedCount;
  if (written === 0) throw new VersionConflict("the client was changed in between");
}

function createCommit(connection: Connection): DirectoryStore["commitClient"] {
  const clients = connection.collection<StoredClient>("clients");
  const guards = createGuards(connection);
  const requireFree = createRequireFree(connection, "accounts", "an account with this sub");
  const planAudit = createAuditPlanner(connection);

  return async ({ client_id, expectedVersion, record, audit }) => {
    const expected = { _id: toKey(client_id), version: expectedVersion };
    const document = record && toClientDocument(record);
    const storeAudit = planAudit(audit);
    const service = record?.service ?? null;
    const references: Reference[] =
      service === null ? [] : [{ kind: "service", key: service, label: "the client's service" }];
    await connection.inTransaction(async (session) => {
      try {
        await writeRecord(clients, expected, document, session);
      } catch (error) {
        throw isDuplicate(error) ? new AlreadyExists(`client ${client_id}`) : error;
      }
      await storeAudit(session);
      await guards.require(references, session);
      if (expectedVersion === undefined) await requireFree(toKey(client_id), session);
    });
  };
}

/** The clients of the directory. */
export function createClients(connection: Connection): Clients {
  const clients = connection.collection<StoredClient>("clients");
  return {
    async findClient(clientId) {
      const found = await connection.run(() => clients.findOne({ _id: toKey(clientId) }));
      return found === null ? undefined : toRecord(found);
    },
    async listClients() {
      const all = await connection.run(() => clients.find().sort({ _id: 1 }).hint({ _id: 1 }).toArray());
      return all.map(toRecord);
    },
    commitClient: createCommit(connection),
  };
}
