import { open } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { createRecordTables, findDamage, rebuildIndexes } from "../../../adapters/sqlite/database-file.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
let path: string;

function change(sql: string): void {
  const database = new DatabaseSync(path);
  database.enableDefensive(false);
  database.exec(sql);
  database.close();
}

beforeEach(() => {
  path = files.next();
  const database = new DatabaseSync(path);
  createRecordTables(database);
  const insert = database.prepare("INSERT INTO records (kind, key, value, version) VALUES ('a', ?, ?, '1')");
  for (let key = 0; key < 100; key += 1) insert.run(String(key), "x".repeat(1_000));
  database.close();
});

describe("a database file", () => {
  it("without damage is sound", () => {
    expect(findDamage(path, 10)).toEqual({ lines: [], indexes: [] });
  });

  it("with overwritten pages is damaged", async () => {
    const file = await open(path, "r+");
    for (let page = 10; page < 20; page += 1)
      await file.write(Buffer.alloc(4_096, 0xff), 0, 4_096, page * 4_096);
    await file.close();
    const { lines } = findDamage(path, 10);
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.length).toBeLessThanOrEqual(10);
  });

  it("with an index that does not match its table is sound after a rebuild", () => {
    // The index has no rows yet, but by its new definition it should have had all of them.
    change(`PRAGMA writable_schema = ON;
      UPDATE sqlite_schema SET sql = replace(sql, 'expires_at IS NOT NULL', 'kind IS NOT NULL')
      WHERE name = 'records_expiry'`);
    const { lines, indexes } = findDamage(path, 1_000);
    expect({ lines, indexes }).toEqual({ lines: expect.any(Array), indexes: ["records_expiry"] });
    rebuildIndexes(path, indexes);
    expect(findDamage(path, 10)).toEqual({ lines: [], indexes: [] });
  });
});
