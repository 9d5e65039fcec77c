/** Databases to back up, and the command in this process. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordData } from "../../adapters/record-store.ts";
import { MAIL } from "../../records/people/mail-kinds.ts";
import { CONFIRMATION } from "../../records/people/confirmation-kinds.ts";
import type { Workshop } from "./stage.ts";

export const DEPLOYMENTS = { oauth2: { url: "http://127.0.0.1:39997" } } as const;

/** Where a service has its database. */
export interface Place {
  readonly folder: string;
  readonly database: string;
  readonly storage: string;
}

/** A place for the database of a service, in a folder of its own. */
export function newPlace(workshop: Workshop): Place {
  const folder = `${workshop.path()}.folder`;
  mkdirSync(folder);
  const database = join(folder, "sign-in.db");
  return { folder, database, storage: `sqlite:${database}` };
}

export function configFile(folder: string, config: object): string {
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify({ deployments: DEPLOYMENTS, ...config }), { mode: 0o600 });
  return path;
}

/** A code that was sent, the mail with it, and another mail. */
export const MAILED: readonly RecordData[] = [
  ...(["password-reset", "address-undo"] as const).map((purpose) =>
    CONFIRMATION.record({
      purpose,
      subject: "somebody",
      interaction: null,
      code: "c",
      link: purpose,
      triesLeft: 5,
      confirmed: false,
      sealed: "s",
      createdAt: 1,
      expiresAt: Date.now() + 3_600_000,
    }),
  ),
  ...(["reset-password", "password-changed"] as const).map((kind) =>
    MAIL.record({
      id: kind,
      kind,
      sealed: "s",
      createdAt: 1,
      due: 1,
      attempts: 0,
      expiresAt: Date.now() + 3_600_000,
    }),
  ),
];

/** The header has 64 bytes, a chunk 65,552. */
const chunk = (bytes: Buffer, number: number): Buffer =>
  bytes.subarray(64 + number * 65_552, 64 + (number + 1) * 65_552);
const around = (bytes: Buffer, ...chunks: Buffer[]): Buffer =>
  Buffer.concat([bytes.subarray(0, 64), ...chunks, bytes.subarray(64 + chunks.length * 65_552)]);
const flipped = (bytes: Buffer, at: number): Buffer => {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
};

/** Ways to change a file. Each gets a backup, and another one with the same key. */
export const CHANGES: readonly (readonly [what: string, change: (bytes: Buffer, other: Buffer) => Buffer])[] =
  [
    ["is empty", () => Buffer.alloc(0)],
    ["is another file", () => Buffer.from("SQLite format 3\u0000".repeat(10_000))],
    ["is cut in its header", (bytes) => bytes.subarray(0, 40)],
    ["is cut after its header", (bytes) => bytes.subarray(0, 64)],
    ["is cut in a chunk", (bytes) => bytes.subarray(0, 64 + 1_000)],
    ["is cut between two chunks", (bytes) => bytes.subarray(0, 64 + 2 * 65_552)],
    ["is cut at its last byte", (bytes) => bytes.subarray(0, -1)],
    ["has a byte more", (bytes) => Buffer.concat([bytes, Buffer.alloc(1)])],
    ["has a chunk more", (bytes) => Buffer.concat([bytes, chunk(bytes, 0)])],
    ["has two chunks swapped", (bytes) => around(bytes, chunk(bytes, 1), chunk(bytes, 0))],
    ["lacks a chunk", (bytes) => Buffer.concat([bytes.subarray(0, 64), bytes.subarray(64 + 65_552)])],
    ["has a chunk of another backup with the same key", (bytes, other) => around(bytes, chunk(other, 0))],
    [
      "has the header of another backup",
      (bytes, other) => Buffer.concat([other.subarray(0, 64), bytes.subarray(64)]),
    ],
    ...[3, 20, 60, 70, 65_600, 200_000].map(
      (at) => [`has one bit changed at ${at}`, (bytes: Buffer) => flipped(bytes, at)] as const,
    ),
    ["has one bit changed at its end", (bytes) => flipped(bytes, bytes.length - 1)],
  ];
