/** Accounts with their names and assignments, clients, entries, audit records, counters and what is kept. */
import type { AccountRecord, AuditRecord, ClientRecord, EntryKind, EntryRecord } from "../directory.ts";
import { type TransferParts, UNFINISHED_COPY } from "../transfer.ts";
import type { Connection } from "./connection.ts";
import { numberAt, stringAt, textAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";
import { createTablePart } from "./transfer-tables.ts";

const KINDS: Readonly<Record<string, EntryKind>> = { service: "service", group: "group", portal: "portal" };

function toKind(text: string): EntryKind {
  const kind = KINDS[text];
  if (kind === undefined) throw new TypeError("an entry has no kind");
  return kind;
}

function createAccounts(connection: Connection): TransferParts["accounts"] {
  const names = connection.all("SELECT name FROM names WHERE sub = ?");
  const put = connection.change(
    "INSERT OR REPLACE INTO accounts (user_id, sub, version, portal, record) VALUES (?, ?, ?, ?, ?)",
  );
  const releaseNames = connection.change("DELETE FROM names WHERE sub = ?");
  const claim = connection.change("INSERT INTO names (name, sub) VALUES (?, ?)");
  const unassign = connection.change("DELETE FROM assignments WHERE sub = ?");
  const assign = connection.change("INSERT INTO assignments (sub, service) VALUES (?, ?)");
  return createTablePart(connection, {
    from: "accounts",
    columns: ["record", "sub"],
    key: ["user_id"],
    toItem: (row) => ({
      record: JSON.parse(textAt(row, 0)) as AccountRecord,
      names: names(textAt(row, 1))
        .map((name) => stringAt(name, 0))
        .toSorted(),
    }),
    write({ record, names: own }) {
      const sub = toText(record.sub);
      put(record.user_id, sub, record.version, toOptionalText(record.portal), JSON.stringify(record));
      releaseNames(sub);
      for (const name of own) claim(toText(name), sub);
      unassign(sub);
      for (const service of Object.keys(record.services)) assign(sub, toText(service));
    },
  });
}

function createClients(connection: Connection): TransferParts["clients"] {
  const put = connection.change(
    "INSERT OR REPLACE INTO clients (client_id, version, service, record) VALUES (?, ?, ?, ?)",
  );
  return createTablePart(connection, {
    from: "clients",
    columns: ["record"],
    key: ["client_id"],
    toItem: (row) => JSON.parse(textAt(row, 0)) as ClientRecord,
    write(record) {
      const { client_id, version, service } = record;
      put(toText(client_id), version, toOptionalText(service), JSON.stringify(record));
    },
  });
}

function createEntries(connection: Connection): TransferParts["entries"] {
  const put = connection.change(
    "INSERT OR REPLACE INTO entries (kind, key, group_key, record) VALUES (?, ?, ?, ?)",
  );
  return createTablePart(connection, {
    from: "entries",
    columns: ["record"],
    key: ["kind", "key"],
    toItem: (row) => ({
      kind: toKind(textAt(row, 1)),
      record: JSON.parse(textAt(row, 0)) as EntryRecord,
    }),
    write({ kind, record }) {
      put(kind, toText(record.key), toOptionalText(record.group), JSON.stringify(record));
    },
  });
}

function createAudit(connection: Connection): TransferParts["audit"] {
  const put = connection.change("INSERT OR REPLACE INTO audit (id, record) VALUES (?, ?)");
  return createTablePart(connection, {
    from: "audit",
    columns: ["record"],
    key: ["id"],
    toItem: (row) => JSON.parse(textAt(row, 0)) as AuditRecord,
    write: (record, position) => void put(position, JSON.stringify(record)),
  });
}

function createCounters(connection: Connection): TransferParts["counters"] {
  const put = connection.change("INSERT OR REPLACE INTO counters (name, value) VALUES (?, ?)");
  return createTablePart(connection, {
    from: "counters",
    columns: ["name", "value"],
    key: ["name"],
    where: "value > 0",
    toItem: (row) => ({ name: stringAt(row, 0), value: numberAt(row, 1) }),
    write: ({ name, value }) => void put(toText(name), value),
  });
}

function createKept(connection: Connection): TransferParts["kept"] {
  const put = connection.change("INSERT OR REPLACE INTO kept (name, value) VALUES (?, ?)");
  return createTablePart(connection, {
    from: "kept",
    columns: ["name", "value"],
    key: ["name"],
    where: `name <> '${UNFINISHED_COPY}'`,
    toItem: (row) => ({ name: stringAt(row, 0), value: stringAt(row, 1) }),
    write: ({ name, value }) => void put(toText(name), toText(value)),
  });
}

type DirectoryParts = Pick<TransferParts, "accounts" | "clients" | "entries" | "audit" | "counters" | "kept">;

export function createDirectoryParts(connection: Connection): DirectoryParts {
  return {
    accounts: createAccounts(connection),
    clients: createClients(connection),
    entries: createEntries(connection),
    audit: createAudit(connection),
    counters: createCounters(connection),
    kept: createKept(connection),
  };
}
