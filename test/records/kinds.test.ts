import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { kindsPage } from "../../build/tables.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { ACCOUNT, IDENTIFIER } from "../../records/directory/directory-kinds.ts";
import { artifactKind, GRANT } from "../../records/artifacts/artifact-kinds.ts";
import { collectKinds, defineKind, type Kind, type KindDeclaration } from "../../records/kinds.ts";
import { Changes, Records } from "../../records/records.ts";
import { hostileKeys, ManualClock } from "./rules/stage.ts";
import { closing } from "../closing.ts";

interface Note {
  readonly of: string;
  readonly tags: readonly string[];
}

type Parts = Partial<KindDeclaration<Note, "tag">>;

const define = (name: string, parts: Parts = {}): Kind<Note, "tag"> =>
  defineKind<Note, "tag">({
    name,
    holds: "a note",
    key: "its name",
    store: "storage",
    exported: true,
    afterRestore: "kept",
    personal: undefined,
    ...parts,
  });

describe("a kind", () => {
  const note = define("note", {
    keyOf: ({ of }) => [of, "note"],
    index: { tag: ({ tags }) => tags.map((at, order) => ({ at, order })) },
    parent: { kind: ACCOUNT, key: ({ of }) => of },
    expiresAt: ({ tags }) => (tags.length === 0 ? undefined : 5),
  });

  it("derives a record's key, index entries, parent and expiry from the value", () => {
    const value = { of: "ada", tags: ["a", "b c"] };
    expect(note.record(value)).toEqual({
      kind: "note",
      key: "ada~note",
      value,
      index: [
        { name: "tag", at: "a", order: 0 },
        { name: "tag", at: expect.stringMatching(/^~[\w-]{43}$/), order: 1 },
      ],
      parent: ACCOUNT.ref("ada"),
      expiresAt: 5,
    });
    const other = note.record({ of: "b c", tags: [] }, { key: "~x", expiresAt: 7 });
    expect(other).toEqual({
      kind: "note",
      key: expect.stringMatching(/^~[\w-]{43}$/),
      value: { of: "b c", tags: [] },
      parent: ACCOUNT.ref("b c"),
      expiresAt: 7,
    });
    const { parent: _parent, ...found } = other;
    expect(note.restore({ ...found, version: "1" })).toEqual(other);
    expect(note.where("tag", "b c").at).toBe(note.record(value).index?.[1]?.at);
  });

  it("has a distinct key for each name, which every store accepts", () => {
    const keys = hostileKeys.flatMap((one) =>
      [one, ...hostileKeys.map((other) => [one, other])].map((key) => note.ref(key).key),
    );
    expect(new Set(keys).size).toBe(keys.length);
    for (const key of keys) expect(key).toMatch(/^[\x21-\x7e]{1,200}$/);
  });

  it("needs a key if the value does not contain it", () => {
    expect(() => define("bare").record({ of: "ada", tags: [] })).toThrow("a record of bare needs a key");
  });
});

describe("the kinds of a service", () => {
  it("have unique names and valid parents", () => {
    const [one, other] = [define("one"), define("other", { store: "artifacts" })];
    const child = (parent: Kind<Note, "tag">, name: string, parts: Parts = {}): Kind<Note, "tag"> =>
      define(name, { parent: { kind: parent, key: ({ of }) => of }, ...parts });
    const below = child(one, "below");
    expect(collectKinds([below, one]).all).toEqual([one, below]);
    expect(() => collectKinds([one, define("one")])).toThrow("two kinds have the name one");
    expect(() => collectKinds([below])).toThrow("the parent of below is not declared");
    expect(() => collectKinds([one, below, child(below, "third")])).toThrow(
      "the parent of third has a parent",
    );
    expect(() => collectKinds([other, child(other, "apart")])).toThrow(
      "the parent of apart is in another store",
    );
  });

  it("are documented as they are declared", async () => {
    const text = readFileSync(join(import.meta.dirname, "../..", kindsPage.file), "utf8");
    expect(text === (await kindsPage.generate()) ? "up to date" : "npm run docs").toBe("up to date");
  });

  it("name the call that needs each index", () => {
    for (const { name, declaration } of KINDS.all) {
      const { index = {}, indexFor = {} } = declaration;
      expect([name, Object.keys(indexFor)]).toEqual([name, Object.keys(index)]);
    }
  });

  it("have descriptions", () => {
    for (const { name, declaration } of KINDS.all) {
      expect([name, declaration.holds]).toEqual([name, expect.stringMatching(/^[a-z].*[^.]$/)]);
      expect(name).toMatch(/^[a-z][a-z0-9-]{0,39}$/);
    }
    expect(KINDS.get("access-token").declaration.parent?.kind).toBe(artifactKind(GRANT));
    expect(() => artifactKind("Constructor")).toThrow(TypeError);
    expect(() => KINDS.get("constructor")).toThrow(TypeError);
  });
});

describe("a commit", () => {
  const clock = new ManualClock();
  let store: RecordStore;

  beforeEach(async () => {
    store = closing(await openSqlite({ path: ":memory:", clock }));
  });

  it("concerns declared kinds of one store: written, removed or only expected", async () => {
    const records = new Records(store, clock, KINDS);
    const account = IDENTIFIER.record({ client_id: "x" });
    const token = artifactKind("Session").ref("x");
    const attempts: readonly ((changes: Changes) => void)[] = [
      (changes) => changes.drop(token),
      (changes) => changes.expect(token, { version: "v" }),
      (changes) => changes.add({ ...token, value: {} }),
    ];
    for (const attempt of attempts) {
      const changes = new Changes();
      changes.add(account);
      attempt(changes);
      await expect(records.commit(changes)).rejects.toThrow(
        expect.objectContaining({
          name: "TypeError",
          message: expect.stringMatching(/^a commit can.t write kinds of two stores: /),
        }),
      );
    }
    const unknown = new Changes();
    unknown.add(define("unheard-of").record({ of: "ada", tags: [] }, { key: "x" }));
    await expect(records.commit(unknown)).rejects.toThrow("the kind unheard-of is not declared");
    await expect(store.get([account])).resolves.toEqual([undefined]);
  });
});
