/** Clients. */
import { AlreadyExists, IdentifierTaken, UnknownReference, VersionConflict } from "../../lib/errors.ts";
import type { ClientRecord, DirectoryStore } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { createAuditPlanner } from "./directory-audit.ts";
import { RecordCache } from "./record-cache.ts";
import { type Row, textAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";

type Clients = Pick<DirectoryStore, "findClient" | "listClients" | "commitClient">;

function toRecord(row: Row): ClientRecord {
  return JSON.parse(textAt(row, 0));
}

function createCommit(
  connection: Connection,
  cache: RecordCache<ClientRecord>,
): DirectoryStore["commitClient"] {
  const current = connection.first("SELECT version FROM clients WHERE client_id = ?");
  const account = connection.first("SELECT 1 FROM accounts WHERE sub = ?");
  const remove = connection.change("DELETE FROM clients WHERE client_id = ?");
  const put = connection.change(`
    INSERT INTO clients (client_id, version, service, record) VALUES (?, ?, ?, ?)
    ON CONFLICT (client_id) DO UPDATE
    SET version = excluded.version, service = excluded.service, record = excluded.record`);
  const service = connection.first("SELECT 1 FROM entries WHERE kind = 'service' AND key = ?");
  const planAudit = createAuditPlanner(connection);

  return async ({ client_id, expectedVersion, record, audit }) => {
    const id = toText(client_id);
    const row =
      record && ([id, record.version, toOptionalText(record.service), JSON.stringify(record)] as const);
    const storeAudit = planAudit(audit);
    await connection.write(() => {
      cache.forget(client_id);
      const version = current(id)?.[0];
      if (version !== expectedVersion) {
        if (expectedVersion === undefined) throw new AlreadyExists(`client ${client_id}`);
        throw new VersionConflict("the client was changed in between");
      }
      if (version === undefined && account(id) !== undefined) {
        throw new IdentifierTaken("an account with this sub");
      }
      if (row === undefined) remove(id);
      else {
        const key = row[2];
        if (key !== null && service(key) === undefined) throw new UnknownReference("the client's service");
        put(...row);
      }
      storeAudit();
    });
  };
}

/** The clients of the directory. */
export function createClients(connection: Connection): Clients {
  const byId = connection.first("SELECT record FROM clients WHERE client_id = ?");
  const all = connection.all("SELECT record FROM clients ORDER BY client_id");
  const cache = new RecordCache(connection, (clientId) => {
    const row = byId(toText(clientId));
    return row && toRecord(row);
  });
  return {
    findClient: (clientId) => connection.read(() => cache.find(clientId)),
    listClients: () => connection.read(() => all().map(toRecord)),
    commitClient: createCommit(connection, cache),
  };
}
