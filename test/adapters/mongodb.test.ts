import * as runner from "@jest/globals";
import { openMongo } from "../../adapters/mongodb/open.ts";
import { describeStorage, type StorageBackend } from "../../lib/testing.ts";
import { openTap, type Tap } from "../servers/mongodb-tap.ts";
import { describeOwnMongo, type MongoServer, startOwnMongo } from "../servers/mongodb.ts";
import { isFoundByIndex, isSortedByIndex, questions, shapeOf } from "./mongodb/plans.ts";

const { afterAll, beforeAll, expect, it } = runner;

/** What the server may sort in its memory, for there are only a few, and why. */
const FEW: Readonly<Record<string, string>> = {
  'artifacts {"uid":"string","expires_at":{"$gt":"number"}} [{},{"order":-1}]':
    "a session, and what it was before its key changed",
};

describeOwnMongo("with a server", () => {
  let server: MongoServer;
  let tap: Tap;
  let url = "";

  beforeAll(async () => {
    server = await startOwnMongo();
    tap = await openTap(server.url("x"));
  });
  afterAll(async () => {
    await tap.close();
    await server.close();
  });

  const backend: StorageBackend = {
    open(clock) {
      url = tap.url(server.nextUrl());
      return openMongo({ url, clock });
    },
    restart: { reopen: (clock) => openMongo({ url, clock }) },
  };
  describeStorage("MongoDB", backend, runner);

  it("finds everything by an index", async () => {
    const asked = new Map(tap.commands.flatMap(questions).map((question) => [shapeOf(question), question]));
    expect(asked.size).toBeGreaterThan(60);
    const db = server.client.db(tap.commands.findLast(({ name }) => name === "find")!.database);
    const searched: string[] = [];
    for (const [shape, question] of asked) {
      if (!(await isFoundByIndex(db, question))) searched.push(shape);
    }
    expect(searched).toEqual([]);
    await expect(isFoundByIndex(db, { collection: "accounts", filter: { version: 1 } })).resolves.toBe(false);
  });

  it("has the order of everything from an index, but where there are only a few to sort", async () => {
    const ordered = tap.commands.flatMap(questions).filter(({ sort }) => sort !== undefined);
    const asked = new Map(ordered.map((question) => [shapeOf(question), question]));
    expect(asked.size).toBeGreaterThan(25);
    const db = server.client.db(tap.commands.findLast(({ name }) => name === "find")!.database);
    const sorted: string[] = [];
    for (const question of asked.values()) {
      if (!(await isSortedByIndex(db, question))) sorted.push(shapeOf(question));
    }
    expect(sorted).toEqual(Object.keys(FEW));
    const account = { collection: "artifacts", filter: { account: "a" } };
    await expect(isSortedByIndex(db, { ...account, sort: { expires_at: 1 } })).resolves.toBe(false);
    const ranged = { collection: "deliveries", filter: { state: { $gt: "a" } }, sort: { order: 1 } };
    await expect(isSortedByIndex(db, { ...ranged, hint: { state: 1, order: 1 } })).resolves.toBe(false);
  });
});
