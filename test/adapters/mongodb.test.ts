import * as runner from "@jest/globals";
import { openMongo } from "../../adapters/mongodb/open.ts";
import { describeStorage, type StorageBackend } from "../../lib/testing.ts";
import { openTap, type Tap } from "../servers/mongodb-tap.ts";
import { describeOwnMongo, type MongoServer, startOwnMongo } from "../servers/mongodb.ts";
import { isFoundByIndex, questions, shapeOf } from "./mongodb/plans.ts";

const { afterAll, beforeAll, expect, it } = runner;

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
});
