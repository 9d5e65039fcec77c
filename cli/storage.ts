/** `backup`, `restore` and `storage`: commands on a storage itself. */
import { usualAddress } from "../config/storage-address.ts";
import type { Command } from "./program/command.ts";
import { SERVICE_OPTIONS, YES } from "./program/on-service.ts";

const ADDRESSES = `Addresses are those of the configuration: ${usualAddress("storage")}.
env:NAME reads an address from an environment variable, so that it does not appear in the list of processes.`;

const KEY = "a file with the key, which only its owner may read";

export const storageCommands: readonly Command[] = [
  {
    words: ["backup"],
    summary: "writes an encrypted copy of an SQLite database to a file",
    about: `Services can keep using the database: the backup is a snapshot of one moment. Codes, tokens, sessions and running sign-ins
are left out. On a terminal and without --key-file, a key is created for the backup and printed once. FILE must not exist.

To restore the backup, you need its key and the keys.secrets of the service. Other databases have tools of their own:
pg_dump and mongodump --oplog.`,
    operands: [{ form: "FILE", about: "the file to write" }],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--key-file FILE", about: `${KEY}; it is created if it does not exist` },
    ],
    examples: ["backup backup.sign-in", "backup nightly.sign-in --key-file backup.key"],
    load: async () => (await import("./backup.ts")).runBackup,
  },
  {
    words: ["restore"],
    summary: "fills an empty SQLite database with a backup",
    about: `The database of the configuration must not exist, or be empty, and its keys.secrets must be those of the service that was
backed up. The whole backup is checked before anything is written, and it is written completely or not at all.

Afterwards all sessions and tokens have ended, and notifications are held until deliveries resume. Without --key-file, the
command asks for the key, or reads it from the first line of standard input.`,
    operands: [{ form: "FILE", about: "the backup" }],
    options: [...SERVICE_OPTIONS, { form: "--key-file FILE", about: KEY }],
    examples: ["restore nightly.sign-in --key-file backup.key --config restored.json"],
    load: async () => (await import("./restore.ts")).runRestore,
  },
  {
    words: ["storage", "restored"],
    summary: "ends all sessions, tokens and codes after a restore with the tools of the database",
    about: `Run it after pg_restore, mongorestore, or copying a database file back, before any server starts: the restored storage holds
sessions, tokens, codes and links again that have ended since. All of them become void, recovery codes too; the next user_id is a
million higher; new keys sign; notifications and mail are held until deliveries resume. It prints what operators have to do again.
After an interruption, run it again; until it has finished, no server starts. After restore it is not needed.`,
    options: [...SERVICE_OPTIONS, YES],
    examples: ["storage restored"],
    load: async () => (await import("./renewal.ts")).runRestored,
  },
  {
    words: ["storage", "promoted"],
    summary: "ends all sessions, tokens and codes after a standby of the database was promoted",
    about: `A standby that takes over without synchronous replication lacks the last commits: what had ended in them is valid again. Run it soon
after the promotion; servers can keep running. It does what storage restored does. With --nothing-lost it only notes that this copy of
the storage is complete: after a promotion with synchronous replication, a move or an upgrade of the database.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--nothing-lost", about: "no commit is missing: nothing ends" },
      YES,
    ],
    examples: ["storage promoted", "storage promoted --nothing-lost"],
    load: async () => (await import("./renewal.ts")).runPromoted,
  },
  {
    words: ["storage", "migrate"],
    summary: "changes a storage of the version before to the format of this version",
    about: `Run it after an upgrade, when no server or worker of the version before is left: until then this version uses the storage in the
format before, and you can go back. It says first how many records it will rewrite, and whether servers have to be stopped. It refuses while
processes that are in its way have been seen in the last three minutes. After an interruption, such as Ctrl+C or a crash, run it
again: it continues where it stopped. It also drops what a database has for other versions only, such as their functions in PostgreSQL,
unless one of their processes has been seen. With --check it changes nothing, and exits with 1 if there is something to migrate.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--check", about: "says what it would do, and changes nothing" },
      YES,
    ],
    examples: ["storage migrate --check", "storage migrate"],
    load: async () => (await import("./storage/storage-migrate.ts")).runMigrate,
  },
  {
    words: ["storage", "copy"],
    summary: "copies one storage to another",
    about: `Copies the storage FROM to the empty storage TO, and compares the two: accounts, clients, the directory, audit records,
notifications in their order, codes, tokens, sessions and keys. Stop the service first. After an interruption, such as
Ctrl+C or a crash, run the same command again: it continues where it stopped.

${ADDRESSES}`,
    operands: [
      { form: "[FROM]", about: "the address of the storage to copy" },
      { form: "[TO]", about: "the address of an empty storage" },
    ],
    options: [
      {
        form: "--from-artifacts ADDRESS",
        about: `the artifacts of FROM: ${usualAddress("artifacts")}; default: in FROM`,
      },
      { form: "--to-artifacts ADDRESS", about: "the artifacts of TO; default: in TO" },
      {
        form: "--config-from FILE",
        about: 'a JSON configuration whose "storage" and "artifacts" are used instead of FROM',
      },
      { form: "--config-to FILE", about: "the same for TO" },
    ],
    examples: ["storage copy sqlite:sign-in.db postgresql://localhost/sign_in"],
    load: async () => (await import("./storage/storage-copy.ts")).runCopy,
  },
  {
    words: ["storage", "reindex"],
    summary: "builds the index of the search for people",
    about: `Until the index has every account, servers say so at their start, doctor warns, and the search finds whole names only: after keys reset
--lost, whose index can't be read any more, and in a storage of an earlier version. Services can keep using the storage, and change
accounts meanwhile. After an interruption, such as Ctrl+C or a crash, run it again: it continues where it stopped.`,
    options: SERVICE_OPTIONS,
    examples: ["storage reindex"],
    load: async () => (await import("./reindex.ts")).runReindex,
  },
  {
    words: ["storage", "check"],
    summary: "reports problems of a storage, and repairs what it can",
    about: `Reports damage, records missing from their indexes, sign-in names that lead to the wrong account, lanes of
notifications that don't match their deliveries, and other problems. With the keys.secrets of the configuration, or the key file next to an
SQLite database, it opens every sealed value, and reports those that were changed or moved, and accounts that the search for people does not
find by their names. Services can keep using the storage. With
20,000 records or more, it says first how long it will take. Exits with 1 if problems remain.

${ADDRESSES}`,
    operands: [{ form: "[ADDRESS]", about: "the address of the storage" }],
    options: [
      {
        form: "--artifacts ADDRESS",
        about: `the artifacts: ${usualAddress("artifacts")}; default: in the storage`,
      },
      {
        form: "--config FILE",
        about:
          'the JSON configuration whose "storage" and "artifacts" are used without ADDRESS; default: SIGN_IN_CONFIG, then sign-in.json in this folder',
      },
      { form: "--repair", about: "repairs what needs no decision by a person" },
    ],
    examples: ["storage check sqlite:sign-in.db --repair"],
    load: async () => (await import("./storage/storage-check.ts")).runCheck,
  },
];
