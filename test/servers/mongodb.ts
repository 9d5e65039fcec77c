/**
 * A MongoDB for tests: `MONGODB_URL` where it is set; else one of the test's own, which can be stopped and paused:
 * mongod on the PATH as a replica set of one node, or SecantusDB, which speaks the same protocol.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { isExecutable, SECANTUS } from "../../examples/cluster/stores.ts";
import { freePorts } from "../examples/processes.ts";
import { standStill } from "./stand-still.ts";

const START_TIMEOUT_MS = 60_000;

/** How a server of the test's own is started. */
interface Options {
  /** Without a replica set, and so without transactions. Default `false`. */
  readonly standalone?: boolean;
  /** What was acknowledged is there after `kill`. Default `false`: that costs time, where it is not always so. */
  readonly durable?: boolean;
  /** Lets nobody in but the users that were made before. Default `false`. */
  readonly auth?: boolean;
}

/** A kind of server, and how to start it. */
interface Kind {
  readonly executable: string;
  readonly args: (port: number, folder: string, options: Options) => string[];
}

function findMongod(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.map((folder) => join(folder, "mongod")).find(isExecutable);
}

/** What the nodes of a replica set know each other by. */
function newKeyFile(folder: string): string {
  const path = join(folder, "key");
  writeFileSync(path, randomBytes(32).toString("base64"), { mode: 0o600 });
  return path;
}

function findKind(): Kind | undefined {
  const mongod = findMongod();
  if (mongod !== undefined) {
    return {
      executable: mongod,
      args: (port, folder, { standalone = false, auth = false }) => [
        `--port=${port}`,
        "--bind_ip=127.0.0.1",
        `--dbpath=${folder}`,
        "--quiet",
        ...(standalone ? [] : ["--replSet=rs0"]),
        ...(auth ? ["--auth", `--keyFile=${newKeyFile(folder)}`] : []),
      ],
    };
  }
  if (!isExecutable(SECANTUS)) return undefined;
  return {
    executable: SECANTUS,
    args: (port, folder, { standalone = false, durable = false, auth = false }) => [
      `--port=${port}`,
      `--storage-path=${join(folder, "data")}`,
      "--log-level=ERROR",
      ...(standalone ? ["--standalone"] : []),
      ...(durable ? ["--sync-on-commit"] : []),
      ...(auth ? ["--auth"] : []),
    ],
  };
}

const kind = findKind();
const given = process.env["MONGODB_URL"];

/** A server that tests may use. */
export interface MongoServer {
  /** The address of a database on it. */
  url(database: string): string;
  /** The address of a database that no other test has. */
  nextUrl(): string;
  /** For looking at it from outside. */
  readonly client: MongoClient;
  /** Removes the databases of {@link nextUrl}, and the server if it is the test's own. */
  close(): Promise<void>;
}

/** A server of the test's own. */
export interface OwnMongo extends MongoServer {
  /** Starts it again, on the same port and with its data. @param more options of this start. */
  start(more?: Options): Promise<void>;
  /** Ends it at once. */
  kill(): Promise<void>;
  /** Stops all of its threads where they are. */
  pause(): void;
  /** Lets it go on. */
  resume(): void;
}

/** Adds a database to an address, before its options. */
function withDatabase(url: string, database: string): string {
  const [, server = "", options = ""] = /^([^:]+:\/\/[^/?]+)(?:\/[^?]*)?(\?.*)?$/u.exec(url) ?? [];
  return `${server}/${database}${options}`;
}

function useServer(url: string): MongoServer {
  const client = new MongoClient(url);
  const prefix = `test-${randomBytes(6).toString("hex")}`;
  let number = 0;
  return {
    client,
    url: (database) => withDatabase(url, database),
    nextUrl() {
      number += 1;
      return withDatabase(url, `${prefix}-${number}`);
    },
    async close() {
      for (let each = 1; each <= number; each += 1) await client.db(`${prefix}-${each}`).dropDatabase();
      await client.close();
    },
  };
}

/** Whether it takes writes; a fresh mongod is made a replica set first. */
async function isReady(url: string, port: number, standalone: boolean): Promise<boolean> {
  // A client that could not connect at first never can.
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 500 });
  const admin = client.db("admin");
  try {
    const answer = await admin.command({ hello: 1 });
    if (answer["isreplicaset"] === true && !standalone) {
      const members = [{ _id: 0, host: `127.0.0.1:${port}` }];
      await admin.command({ replSetInitiate: { _id: "rs0", members } });
    }
    return answer["isWritablePrimary"] === true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}

async function untilReady(url: string, port: number, standalone: boolean): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS;
  while (!(await isReady(url, port, standalone))) {
    if (performance.now() > end) throw new Error("the MongoDB of the tests does not answer");
    await pause(20);
  }
}

export async function startOwnMongo(options: Options = {}): Promise<OwnMongo> {
  if (kind === undefined) throw new Error("no mongod and no SecantusDB: see test/machine.mjs");
  const { executable, args } = kind;
  const folder = mkdtempSync(join(tmpdir(), "sign-in-mongodb-"));
  const port = await freePorts();
  const url = `mongodb://127.0.0.1:${port}/?directConnection=true`;
  let child: ChildProcess | undefined;
  async function start(more: Options = {}): Promise<void> {
    child = spawn(executable, args(port, folder, { ...options, ...more }), { stdio: "ignore" });
    await untilReady(url, port, options.standalone ?? false);
  }
  async function kill(): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined) return;
    const ended = new Promise((resolve) => ending.once("exit", resolve));
    ending.kill("SIGKILL");
    await ended;
  }
  await start();
  const server = useServer(url);
  return {
    ...server,
    start,
    kill,
    pause: () => child?.pid !== undefined && standStill(child.pid),
    resume: () => void child?.kill("SIGCONT"),
    async close() {
      await server.client.close();
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The server of `MONGODB_URL`, or one of the test's own. */
export async function openMongoServer(): Promise<MongoServer> {
  return given === undefined ? startOwnMongo() : useServer(given);
}
