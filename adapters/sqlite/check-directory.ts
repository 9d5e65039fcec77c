/** Whether what is looked up by says the same as the records: names, assignments, columns, the counter, references. */
import type { Check, NamesOf } from "../check.ts";
import type { AccountRecord, ClientRecord, EntryRecord } from "../directory.ts";
import { createQueryCheck, createRowCheck, type QueryCheck, type RowLook } from "./check-queries.ts";
import type { Connection } from "./connection.ts";
import { numberAt, type Row, textAt } from "./rows.ts";
import type { Table } from "./table-pages.ts";
import { fromText, toOptionalText, toText } from "./text.ts";

/** A row with its record, and the columns that must say the same. */
interface Recorded<Stored> {
  readonly record: Stored;
  /** The key as it is stored. */
  readonly key: string;
  /** The other columns, as they are stored. */
  readonly stored: Row;
}

const ACCOUNTS: Table<Recorded<AccountRecord>> = {
  from: "accounts",
  columns: ["record", "sub", "user_id", "version", "portal"],
  key: ["user_id"],
  toItem: (row) => ({ record: JSON.parse(textAt(row, 0)), key: textAt(row, 1), stored: row }),
};
const CLIENTS: Table<Recorded<ClientRecord>> = {
  from: "clients",
  columns: ["record", "client_id", "version", "service"],
  key: ["client_id"],
  toItem: (row) => ({ record: JSON.parse(textAt(row, 0)), key: textAt(row, 1), stored: row }),
};
const ENTRIES: Table<Recorded<EntryRecord>> = {
  from: "entries",
  columns: ["record", "key", "kind", "group_key"],
  key: ["kind", "key"],
  toItem: (row) => ({ record: JSON.parse(textAt(row, 0)), key: textAt(row, 1), stored: row }),
};

const nameAccount = ({ key }: Recorded<unknown>): string => `account ${fromText(key)}`;

/** Names by which an account must be found, and is not. Names of others are left to them. */
function missingNames(connection: Connection, namesOf: NamesOf): RowLook<Recorded<AccountRecord>> {
  const owner = connection.first("SELECT sub FROM names WHERE name = ?");
  const claim = connection.change("INSERT INTO names (name, sub) VALUES (?, ?) ON CONFLICT DO NOTHING");
  return {
    table: ACCOUNTS,
    isWrong: ({ record, key }) => namesOf(record).some((name) => owner(toText(name))?.[0] !== key),
    shown: nameAccount,
    fix({ record, key }) {
      for (const name of namesOf(record)) claim(toText(name), key);
    },
  };
}

/** Names by which an account is found, and must not be. */
function formerNames(connection: Connection, namesOf: NamesOf): RowLook<Recorded<AccountRecord>> {
  const names = connection.all("SELECT name FROM names WHERE sub = ?");
  const release = connection.change("DELETE FROM names WHERE name = ? AND sub = ?");
  function former({ record, key }: Recorded<AccountRecord>): string[] {
    const own = new Set(namesOf(record).map(toText));
    return names(key)
      .map((row) => textAt(row, 0))
      .filter((name) => !own.has(name));
  }
  return {
    table: ACCOUNTS,
    isWrong: (account) => former(account).length > 0,
    shown: nameAccount,
    fix(account) {
      for (const name of former(account)) release(name, account.key);
    },
  };
}

function assignments(connection: Connection): RowLook<Recorded<AccountRecord>> {
  const assigned = connection.all("SELECT service FROM assignments WHERE sub = ? ORDER BY service");
  const remove = connection.change("DELETE FROM assignments WHERE sub = ?");
  const add = connection.change("INSERT INTO assignments (sub, service) VALUES (?, ?)");
  return {
    table: ACCOUNTS,
    isWrong({ record, key }) {
      const wanted = new Set(Object.keys(record.services).map(toText));
      const found = assigned(key).map((row) => textAt(row, 0));
      return found.length !== wanted.size || found.some((service) => !wanted.has(service));
    },
    shown: nameAccount,
    fix({ record, key }) {
      remove(key);
      for (const service of Object.keys(record.services)) add(key, toText(service));
    },
  };
}

function accountColumns(connection: Connection): RowLook<Recorded<AccountRecord>> {
  const write = connection.change("UPDATE accounts SET version = ?, portal = ? WHERE sub = ?");
  return {
    table: ACCOUNTS,
    isWrong: ({ record, stored }) =>
      numberAt(stored, 3) !== record.version || stored[4] !== toOptionalText(record.portal),
    shown: nameAccount,
    fix: ({ record, key }) => void write(record.version, toOptionalText(record.portal), key),
  };
}

function clientColumns(connection: Connection): RowLook<Recorded<ClientRecord>> {
  const write = connection.change("UPDATE clients SET version = ?, service = ? WHERE client_id = ?");
  return {
    table: CLIENTS,
    isWrong: ({ record, stored }) =>
      numberAt(stored, 2) !== record.version || stored[3] !== toOptionalText(record.service),
    shown: ({ key }) => `client ${fromText(key)}`,
    fix: ({ record, key }) => void write(record.version, toOptionalText(record.service), key),
  };
}

function entryColumns(connection: Connection): RowLook<Recorded<EntryRecord>> {
  const write = connection.change("UPDATE entries SET group_key = ? WHERE kind = ? AND key = ?");
  return {
    table: ENTRIES,
    isWrong: ({ record, stored }) => stored[3] !== toOptionalText(record.group),
    shown: ({ key, stored }) => `${textAt(stored, 2)} ${fromText(key)}`,
    fix({ record, key, stored }) {
      write(toOptionalText(record.group), textAt(stored, 2), key);
    },
  };
}

const HAS_ACCOUNT = "EXISTS (SELECT 1 FROM accounts WHERE accounts.sub = names.sub)";
const missing = (kind: string, column: string): string =>
  `${column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.kind = '${kind}' AND e.key = ${column})`;

const QUERIES: readonly QueryCheck[] = [
  {
    part: "accounts",
    problem: "sign-in names that lead to no account",
    shows: "account ",
    select: `SELECT sub, name FROM names WHERE NOT ${HAS_ACCOUNT}`,
    repair: `DELETE FROM names WHERE name = ? AND NOT ${HAS_ACCOUNT}`,
  },
  {
    part: "counters",
    problem: "counters below a number that was given out",
    shows: "",
    select: `SELECT 'user_id', 'user_id' FROM (SELECT max(user_id) AS last FROM accounts)
      WHERE last > coalesce((SELECT value FROM counters WHERE name = 'user_id'), 0)`,
    repair: `INSERT INTO counters (name, value) SELECT ?, max(user_id) FROM accounts WHERE true
      ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)`,
  },
  {
    part: "directory",
    problem: "services with accounts that are not in the directory",
    shows: "service ",
    select: `SELECT DISTINCT service FROM assignments WHERE ${missing("service", "service")}`,
  },
  {
    part: "directory",
    problem: "services with clients that are not in the directory",
    shows: "service ",
    select: `SELECT DISTINCT service FROM clients WHERE ${missing("service", "service")}`,
  },
  {
    part: "directory",
    problem: "groups with services that are not in the directory",
    shows: "group ",
    select: `SELECT DISTINCT group_key FROM entries WHERE ${missing("group", "entries.group_key")}`,
  },
  {
    part: "directory",
    problem: "portals with accounts that are not in the directory",
    shows: "portal ",
    select: `SELECT DISTINCT portal FROM accounts WHERE ${missing("portal", "portal")}`,
  },
];

export function createDirectoryChecks(connection: Connection, namesOf: NamesOf): Check[] {
  const rows = <Item>(part: string, problem: string, prepare: () => RowLook<Item>): Check =>
    createRowCheck(connection, { part, problem, prepare });
  const [lostNames, ...queries] = QUERIES.map((query) => createQueryCheck(connection, query));
  return [
    rows("accounts", "accounts whose version or portal is kept wrongly", () => accountColumns(connection)),
    ...(lostNames === undefined ? [] : [lostNames]),
    rows("accounts", "accounts with a sign-in name that is not theirs any more", () =>
      formerNames(connection, namesOf),
    ),
    rows("accounts", "accounts that one of their sign-in names does not lead to", () =>
      missingNames(connection, namesOf),
    ),
    rows("accounts", "accounts whose assignments are kept wrongly", () => assignments(connection)),
    rows("clients", "clients whose version or service is kept wrongly", () => clientColumns(connection)),
    rows("directory", "entries whose group is kept wrongly", () => entryColumns(connection)),
    ...queries,
  ];
}
