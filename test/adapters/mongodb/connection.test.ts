import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { createServer } from "node:tls";
import type { MongoClient } from "mongodb";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { openMongo } from "../../../adapters/mongodb/record-store.ts";
import {
  connect,
  type Connection,
  openClient,
  refuseDirect,
  requireTransactions,
} from "../../../adapters/mongodb/connection.ts";
import { prepareCollections } from "../../../adapters/mongodb/record-reads.ts";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { ConditionFailed } from "../../../core/errors.ts";
import { freePorts } from "../../examples/processes.ts";
import { selfSigned } from "../../notifier/peers.ts";
import { type MongoServer, openMongoServer, startOwnMongo } from "../../servers/mongodb.ts";
import { outcomes } from "../../../testing/storage/stage.ts";
import { closing } from "../../closing.ts";

const clock = createSystemClock();

describe("a connection to MongoDB", () => {
  let server: MongoServer;
  let connection: Connection;
  const counters = () => connection.db.collection<{ _id: string; n: number }>("counters");

  beforeAll(async () => {
    server = closing(await openMongoServer());
  });
  beforeEach(async () => {
    connection = closing(await connect(server.nextUrl(), clock));
    await prepareCollections(connection.db);
  });

  it("creates collections and indexes once, whichever process is first", async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => connect(server.nextUrl(), clock)));
    const [first, ...others] = all;
    await Promise.all(all.map(() => prepareCollections(first!.db)));
    await prepareCollections(first!.db);
    const indexes = await first!.db.collection("records").indexes();
    expect(new Set(indexes.map(({ key }) => Object.keys(key).join()))).toEqual(
      new Set(["_id", "kind,key", "expires_at", "parent._id"]),
    );
    await Promise.all([first!, ...others].map((each) => each.close()));
  });

  it("runs 40 transactions on one document, one after the other", async () => {
    const codes = await outcomes(
      Array.from({ length: 40 }, () =>
        connection.inTransaction(async (session) => {
          const before = await counters().findOne({ _id: "a" }, { session });
          await counters().updateOne(
            { _id: "a" },
            { $set: { n: (before?.n ?? 0) + 1 } },
            { upsert: true, session },
          );
        }, 30_000),
      ),
    );
    expect(codes.every((code) => code === "done")).toBe(true);
    await expect(counters().findOne({ _id: "a" })).resolves.toMatchObject({ n: 40 });
  });

  it("undoes a transaction that throws, and keeps the error", async () => {
    const work = connection.inTransaction(async (session) => {
      await counters().insertOne({ _id: "a", n: 1 }, { session });
      throw new ConditionFailed("somebody was first");
    });
    await expect(work).rejects.toMatchObject({ code: "condition_failed" });
    await expect(counters().findOne({ _id: "a" })).resolves.toBeNull();
  });

  it("does not commit after its deadline was reported to the caller", async () => {
    const gate = Promise.withResolvers<void>();
    const work = connection.inTransaction(async (session) => {
      await counters().insertOne({ _id: "a", n: 1 }, { session });
      await gate.promise;
    }, 100);
    await expect(work).rejects.toMatchObject({ code: "storage_unavailable" });
    gate.resolve();
    await pause(100);
    await connection.close();
    connection = closing(await connect(server.nextUrl(), clock));
    await expect(counters().findOne({ _id: "a" })).resolves.toBeNull();
  });

  it("gives errors of the server without what was sent", async () => {
    await counters().insertOne({ _id: "secret", n: 1 });
    const insert = connection.run(() => counters().insertOne({ _id: "secret", n: 1 }));
    const error: unknown = await insert.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "storage_unavailable", message: expect.stringContaining("11000") });
    expect(String(error) + JSON.stringify(error)).not.toContain("secret");
  });

  it("reads from the primary and writes to the journals of a majority, whatever the address says [D-ADDR-2]", async () => {
    const url = server.nextUrl();
    for (const options of [
      "w=1",
      "w=0&readConcernLevel=local",
      "readPreference=secondaryPreferred&readPreferenceTags=dc:a",
      "retryWrites=false&retryReads=false&socketTimeoutMS=1",
    ]) {
      const other = await connect(`${url}${url.includes("?") ? "&" : "?"}${options}`, clock);
      const { writeConcern, readConcern, readPreference } = other.db;
      expect([options, writeConcern]).toEqual([options, expect.objectContaining({ w: "majority", j: true })]);
      expect([readConcern?.level, readPreference?.mode]).toEqual(["majority", "primary"]);
      // A transaction inherits them, and the server takes it.
      await other.inTransaction(async (session) => {
        expect(Reflect.get(session, "transaction")).toMatchObject({
          options: {
            readConcern: { level: "snapshot" },
            writeConcern: { w: "majority", j: true },
            readPreference: { mode: "primary" },
          },
        });
        await other.db.collection("counters").insertOne({ n: 1 }, { session });
      });
      await other.close();
    }
  });

  it.each(["j=false", "journal=false", "wtimeoutMS=5", "fsync=false", "maxStalenessSeconds=100"])(
    "refuses an address whose %s would get through, without repeating it [D-ADDR-2]",
    async (options) => {
      const refused = await connect(`mongodb://user:secret@127.0.0.1:1/?${options}`, clock).catch(
        (error: unknown) => error,
      );
      expect(refused).toMatchObject({ code: "invalid_configuration" });
      expect(String(refused)).not.toContain("secret");
    },
  );

  it("refuses to stay with one member of several, which may stop being the primary [D-ADDR-2]", () => {
    const direct = { options: { directConnection: true } } as MongoClient;
    const found = { options: { directConnection: false } } as MongoClient;
    const [one, three] = [1, 3].map((number) => ({ hosts: Array.from({ length: number }, () => "h:1") }));
    expect(() => refuseDirect(three!, direct, "h:1")).toThrow(/directConnection would keep .* h:1 after an/);
    for (const [answer, client] of [
      [one!, direct],
      [three!, found],
      [{}, direct],
    ] as const)
      expect(() => refuseDirect(answer, client, "h:1")).not.toThrow();
  });

  it("refuses an address with an unknown option without repeating it", async () => {
    const refused = await connect("mongodb://user:secret@127.0.0.1:1/?secretOption=1", clock).catch(
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ code: "invalid_configuration" });
    expect(String(refused)).not.toContain("secret");
  });
});

describe("a connection that is lost at the moment when something is written to it", () => {
  let server: MongoServer;
  let connection: Connection;
  const sockets: Socket[] = [];
  const onSocket = (message: unknown): void => void sockets.push((message as { socket: Socket }).socket);
  const ping = (): Promise<unknown> => connection.run(() => connection.db.command({ ping: 1 }));

  /** Node reports closed sockets to the driver at the end of the turn of the event loop. */
  function loseConnections(): void {
    for (const socket of sockets.splice(0)) socket.destroy();
  }

  beforeAll(async () => {
    server = closing(await openMongoServer());
  });
  beforeEach(async () => {
    subscribe("net.client.socket", onSocket);
    const url = new URL(server.nextUrl());
    url.searchParams.set("maxPoolSize", "1");
    connection = closing(await connect(url.href, clock));
    await ping();
  });
  afterEach(() => {
    unsubscribe("net.client.socket", onSocket);
    sockets.length = 0;
  });

  it("fails what was being written, and soon works again with its only connection", async () => {
    loseConnections();
    await expect(ping()).rejects.toMatchObject({ code: "storage_unavailable" });
    const end = performance.now() + 20_000;
    for (;;) {
      const [code] = await outcomes([ping()]);
      if (code === "done") break;
      expect(code).toBe("storage_unavailable");
      if (performance.now() > end) throw new Error("it does not work again");
    }
    await connection.close();
  });

  it("can be closed", async () => {
    loseConnections();
    await expect(connection.close()).resolves.toBeUndefined();
  });
});

describe("a MongoDB that can't be used", () => {
  it("is a standalone: it says what to do", async () => {
    const server = await startOwnMongo({ standalone: true });
    const refused = await connect(server.url("x"), clock).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "invalid_configuration" });
    expect(String(refused)).toMatch(/127\.0\.0\.1:\d+ runs standalone .* --replSet rs0 .* rs\.initiate\(\)/);
    await server.close();
  });

  it("is one of a sharded cluster or a replica set: these have transactions", () => {
    expect(() => requireTransactions({ msg: "isdbgrid" }, "host")).not.toThrow();
    expect(() => requireTransactions({ setName: "rs0" }, "host")).not.toThrow();
    expect(() => requireTransactions({ isWritablePrimary: true }, "host")).toThrow(/host runs standalone/);
  });

  it("is unreachable: within five seconds, a message names the host and nothing else of the address", async () => {
    const port = await freePorts();
    const refused = await openClient(`mongodb://user:secret@127.0.0.1:${port}/?authSource=x`).catch(
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ code: "storage_unavailable" });
    expect(String(refused)).toContain(`127.0.0.1:${port} does not answer (ECONNREFUSED, waited 3 seconds)`);
    expect(String(refused)).not.toContain("secret");
  });

  it("has a certificate that nobody trusts: the message says so", async () => {
    const server = createServer(selfSigned("localhost"));
    server.on("tlsClientError", () => undefined);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await expect(openClient(`mongodb://localhost:${port}/?tls=true`)).rejects.toMatchObject({
      message: `MongoDB at localhost:${port} does not answer (DEPTH_ZERO_SELF_SIGNED_CERT, waited 3 seconds)`,
    });
    await new Promise((resolve) => void server.close(resolve));
  });

  it("accepts nobody, or a user without rights: the message says which role is needed", async () => {
    const server = await startOwnMongo({ durable: true });
    const make = (user: string, role: string) =>
      server.client.db("admin").command({ createUser: user, pwd: "secret", roles: [{ role, db: "own" }] });
    await make("writer", "readWrite");
    await make("reader", "read");
    await server.kill();
    await server.start({ auth: true });
    const opening = (user: string): Promise<unknown> => {
      const url = server.url("own").replace("//", `//${user}`);
      return openMongo({ url: `${url}&authSource=admin`, clock }).catch((error: unknown) => error);
    };
    for (const user of ["", "reader:secret@"]) {
      expect(await opening(user)).toMatchObject({
        code: "invalid_configuration",
        problems: [expect.stringMatching(/database own; .* role readWrite/)],
      });
    }
    expect(await opening("writer:wrong@")).toMatchObject({
      code: "invalid_configuration",
      problems: [expect.stringMatching(/refuses the user or the password$/)],
    });
    const store = (await opening("writer:secret@")) as RecordStore;
    expect(await store.next("people")).toBe(1);
    await store.close();
    await server.close();
  });

  it("is waited for while it starts", async () => {
    const server = await startOwnMongo();
    await server.kill();
    const opening = openClient(server.url("x"), { startTimeoutMs: 60_000 });
    await pause(1500);
    await server.start();
    const { client } = await opening;
    await client.close();
    await server.close();
  });
});
