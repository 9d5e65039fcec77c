/** The commands that a store sends to MongoDB: how many, and which indexes they use. */
import { randomUUID } from "node:crypto";
import { type CommandStartedEvent, type Document, MongoClient } from "mongodb";
import { beforeAll, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { openMongo } from "../../../adapters/mongodb/record-store.ts";
import type { RecordStore } from "../../../adapters/record-store.ts";
import type { Commit } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { find, ref, thing } from "../../../testing/storage/stage.ts";
import { type OwnMongo, startOwnMongo } from "../../servers/mongodb.ts";
import { closing } from "../../closing.ts";

const clock = createSystemClock();
const PARENT = { parent: ref("grant") };
const INDEX = { index: [{ name: "all", at: "x", order: 1 }] };
const QUERY = { kind: "thing", index: "all", at: "x", limit: 9 };

/** The collection and the filters of a command. */
function questions({
  commandName: name,
  command: body,
}: CommandStartedEvent): readonly (readonly [string, Document])[] {
  const collection = String(body[name]);
  if (name === "find") return [[collection, body["filter"]]];
  if (name === "findAndModify") return [[collection, body["query"]]];
  if (name === "aggregate") return [[collection, body["pipeline"][0].$match]];
  const all: readonly { readonly q: Document }[] = body[`${name}s`] ?? [];
  return name === "update" || name === "delete" ? all.map(({ q }) => [collection, q] as const) : [];
}

describe("the commands to MongoDB", () => {
  let server: OwnMongo;
  /** The commands since the list was last emptied. */
  const commands: CommandStartedEvent[] = [];
  let opened: RecordStore;

  const commit = (change: Omit<Commit, "id" | "deadline">): Promise<void> =>
    opened.commit({ id: randomUUID(), deadline: clock.now() + 4_500, ...change });

  beforeAll(async () => {
    server = closing(await startOwnMongo());
    const connect = jest.spyOn(MongoClient.prototype, "connect");
    opened = closing(await openMongo({ url: `${server.url("wire")}&monitorCommands=true`, clock }));
    const client = connect.mock.contexts.at(-1) as MongoClient;
    client.on("commandStarted", (event) => void commands.push(event));
    connect.mockRestore();
  });
  beforeEach(async () => {
    await commit({
      put: [thing("grant"), thing("code", { ...PARENT, ...INDEX }), thing("alone", INDEX)],
      remove: [ref("token")],
    });
    commands.length = 0;
  });

  /** The largest number of round trips of each call. */
  const CALLS: Readonly<Record<string, readonly [call: () => Promise<unknown>, most: number]>> = {
    "read one record": [() => find(opened, "alone"), 1],
    "read many with their parents": [() => opened.get([ref("code"), ref("alone")], { withParents: true }), 2],
    "read a page": [() => opened.list([QUERY]), 3],
    "count a page": [() => opened.count([QUERY]), 1],
    "exchange a code": [
      () =>
        commit({
          expect: [{ ref: ref("grant"), version: "present" }],
          put: [thing("token", PARENT)],
          remove: [ref("code")],
        }),
      9,
    ],
    "take the next number": [() => opened.next("people"), 3],
  };

  it.each(Object.entries(CALLS))("are no more than necessary to %s", async (_what, [call, most]) => {
    await call();
    expect(commands.length).toBeGreaterThan(0);
    expect(commands.map(({ commandName }) => commandName).slice(most)).toEqual([]);
  });

  it("find everything by an index", async () => {
    for (const [call] of Object.values(CALLS)) await call();
    await opened.scan("thing", undefined, 9);
    await commit({ remove: [ref("grant"), ref("alone")] });
    await opened.sweep(9, clock.now());
    const asked = commands.flatMap(questions);
    expect(new Set(asked.map(([collection]) => collection)).size).toBeGreaterThan(3);
    const db = server.client.db("wire");
    const searched: string[] = [];
    for (const [collection, filter] of asked) {
      const isScanned = async (condition: Document): Promise<boolean> => {
        const explain = { find: collection, filter: condition };
        const { queryPlanner } = await db.command({ explain, verbosity: "queryPlanner" });
        return JSON.stringify(queryPlanner.winningPlan).includes("COLLSCAN");
      };
      // SecantusDB explains one condition, not several.
      const each = Object.entries(filter).filter(([field]) => !field.startsWith("$"));
      const scanned = await Promise.all(each.map(([field, condition]) => isScanned({ [field]: condition })));
      if (scanned.every(Boolean) && !isListOfIds(filter))
        searched.push(`${collection} ${JSON.stringify(filter)}`);
    }
    expect(searched).toEqual([]);
  });
});

/** Every condition of a list names documents by their `_id`. */
function isListOfIds({ $or }: Document): boolean {
  return Array.isArray($or) && $or.every((each: Document) => "_id" in each);
}
