import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { Db } from "mongodb";
import type { ArtifactWrite } from "../../../adapters/artifacts.ts";
import { Abandoned } from "../../../adapters/mongodb/abandoned.ts";
import { openMongo } from "../../../adapters/mongodb/open.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import {
  account,
  artifact,
  change,
  creation,
  delivery,
  entry,
  outcomes,
} from "../../../lib/testing/contract/stage.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../../servers/mongodb.ts";

type Opened = Awaited<ReturnType<typeof openMongo>>;

const clock = createSystemClock();

const put = (key: string, grantKey: string): ArtifactWrite => ({
  kind: "put",
  artifact: artifact(clock, "AccessToken", key, { grantKey }),
});

async function all(lines: AsyncIterable<string>): Promise<string[]> {
  const said: string[] = [];
  for await (const line of lines) said.push(line);
  return said;
}

/** The `_id` of all documents of a collection. */
async function ids(database: Db, collection: string): Promise<Set<unknown>> {
  const found = await database
    .collection(collection)
    .find({}, { projection: { _id: 1 } })
    .toArray();
  return new Set(found.map(({ _id }) => _id));
}

/** Looks until two looks in a row agree: the server may still be at the last command of a process that is gone. */
async function settled(look: () => Promise<Set<unknown>[]>): Promise<Set<unknown>[]> {
  for (let before = await look(); ;) {
    await pause(300);
    const now = await look();
    if (now.every((each, index) => each.size === before[index]?.size)) return now;
    before = now;
  }
}

describeMongo("a MongoDB of several processes", () => {
  let server: MongoServer;
  let url: string;
  let one: Opened;
  let two: Opened;
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    server = await openMongoServer();
  });
  afterAll(() => server.close());
  beforeEach(async () => {
    url = server.nextUrl();
    [one, two] = await Promise.all([openMongo({ url, clock }), openMongo({ url, clock })]);
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await Promise.all([one.close(), two.close()]);
  });

  const both = (index: number): Opened => (index % 2 === 0 ? one : two);
  const database = () => server.client.db(new URL(url).pathname.slice(1));
  const commit = (opened: Opened, ...writes: ArtifactWrite[]) =>
    opened.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 20_000, writes });

  function start(task: string): { child: ChildProcess; lines: AsyncIterable<string> } {
    const script = join(import.meta.dirname, "child.ts");
    const child = spawn(process.execPath, [script, task, url], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    return { child, lines: createInterface({ input: child.stdout }) };
  }

  it("lets one of 50 consumptions in two processes win, with what it gives", async () => {
    await commit(one, { kind: "put", artifact: artifact(clock, "AuthorizationCode", "code") });
    const codes = await outcomes(
      Array.from({ length: 50 }, (_, index) =>
        commit(
          both(index),
          { kind: "consume", model: "AuthorizationCode", key: "code", at: index },
          put(`token ${index}`, "g"),
        ),
      ),
    );
    expect(codes.filter((code) => code === undefined)).toHaveLength(1);
    expect(codes.filter((code) => code === "condition_failed")).toHaveLength(49);
    const found = await Promise.all(
      codes.map((_, index) => two.artifacts.find("AccessToken", `token ${index}`)),
    );
    expect(found.map((token) => token !== undefined)).toEqual(codes.map((code) => code === undefined));
  });

  it("gives a name, an account and a number to one of those that want it at the same time", async () => {
    const named = await outcomes(
      Array.from({ length: 20 }, (_, index) =>
        both(index).directory.commitAccount(creation(account(index + 1), { claimNames: ["wanted"] })),
      ),
    );
    expect(named.filter((code) => code === undefined)).toHaveLength(1);
    expect(named.filter((code) => code === "name_taken")).toHaveLength(19);
    const ada = account(100);
    await one.directory.commitAccount(creation(ada));
    const changed = await outcomes(
      Array.from({ length: 20 }, (_, index) =>
        both(index).directory.commitAccount(change(ada, { name: `n${index}` })),
      ),
    );
    expect(changed.filter((code) => code === undefined)).toHaveLength(1);
    expect(changed.filter((code) => code === "version_conflict")).toHaveLength(19);
    const numbers = await Promise.all(
      Array.from({ length: 40 }, (_, index) => both(index).directory.nextUserId()),
    );
    expect(new Set(numbers).size).toBe(40);
  });

  it("counts one lane without a gap when changes of many accounts write to it at the same time", async () => {
    const changes = Array.from({ length: 20 }, (_, index) =>
      both(index).directory.commitAccount(
        creation(account(index + 1), { deliveries: [delivery(`d${index}`, "one sub")] }),
      ),
    );
    await expect(outcomes(changes)).resolves.toEqual(changes.map(() => undefined));
    const stored = await database().collection("deliveries").find().toArray();
    const sequences = stored.map(({ sequence }) => Number(sequence)).toSorted((a, b) => a - b);
    expect(sequences).toEqual(changes.map((_, index) => index + 1));
  });

  it("never removes a service while somebody is assigned to it", async () => {
    for (let round = 0; round < 10; round += 1) {
      const key = `s${round}`;
      await one.directory.putEntry("service", entry(key));
      const people = [1, 2, 3].map((number) => account(round * 10 + number, { services: { [key]: null } }));
      const [removed, ...assigned] = await outcomes([
        two.directory.removeEntry("service", key),
        ...people.map((person, index) =>
          both(index).directory.commitAccount(creation(person, { requireServices: [key] })),
        ),
      ]);
      const isThere = (await one.directory.findEntry("service", key)) !== undefined;
      expect(isThere).toBe(removed === "still_referenced");
      if (!isThere) expect(assigned).toEqual(people.map(() => "unknown_reference"));
    }
  });

  it("lets many be assigned to one service at the same time", async () => {
    await one.directory.putEntry("service", entry("1"));
    const assigned = Array.from({ length: 60 }, (_, index) =>
      both(index).directory.commitAccount(
        creation(account(index + 1, { services: { "1": null } }), { requireServices: ["1"] }),
      ),
    );
    await expect(outcomes(assigned)).resolves.toEqual(assigned.map(() => undefined));
  });

  it("shares the points of its rate limits", async () => {
    const limiters = [one, two].map(({ rateLimits }) => rateLimits("name", { points: 10, seconds: 60 }));
    const taken = await Promise.all(
      Array.from({ length: 40 }, (_, index) => limiters[index % 2]!.take("key")),
    );
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  it("is prepared once by processes that start at the same time", async () => {
    url = server.nextUrl();
    const starting = Array.from({ length: 3 }, () => start("count"));
    const numbers = await Promise.all(starting.map(({ lines }) => all(lines)));
    expect(
      numbers
        .flat()
        .map(Number)
        .toSorted((a, b) => a - b),
    ).toEqual(Array.from({ length: 75 }, (_, index) => index + 1));
  });

  it("keeps everything that was acknowledged when the process is killed", async () => {
    const { child, lines } = start("commit");
    const acknowledged: string[] = [];
    for await (const line of lines) {
      acknowledged.push(line);
      if (acknowledged.length === 1000) child.kill("SIGKILL");
    }
    expect(acknowledged.length).toBeGreaterThanOrEqual(1000);
    const [accounts, names, deliveries, artifacts] = await settled(() =>
      Promise.all(["accounts", "names", "deliveries", "artifacts"].map((name) => ids(database(), name))),
    );
    for (const number of acknowledged) {
      const { sub, email } = account(Number(number));
      expect([accounts!.has(sub), names!.has(email), deliveries!.has(number)]).toEqual([true, true, true]);
    }
    // What was not acknowledged is there as a whole or not at all: two tokens and the mark of their batch.
    expect(artifacts!.size % 3).toBe(0);
    expect(accounts!.size).toBe(deliveries!.size);
    expect(accounts!.size).toBe(names!.size);
    for (const number of acknowledged) {
      await expect(one.artifacts.find("AccessToken", `${number} one`)).resolves.toBeDefined();
    }
  });

  it("ends a transaction that nobody goes on with, so that others get what it holds", async () => {
    const ada = account(1);
    await one.directory.commitAccount(creation(ada));
    const session = server.client.startSession();
    session.startTransaction();
    await database()
      .collection<{ _id: string }>("accounts")
      .updateOne({ _id: ada.sub }, { $set: { held: 1 } }, { session });
    const rename = () => two.directory.commitAccount(change(ada, { name: "Augusta" }));
    await expect(rename()).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    const abandoned = new Abandoned(server.client);
    abandoned.add(session);
    const end = performance.now() + 30_000;
    while ((await outcomes([rename()]))[0] !== undefined) {
      if (performance.now() > end) throw new Error("it is held for ever");
    }
    abandoned.stop();
    await session.endSession();
  });
});
