/** A Redis of the test's own, which can be stopped and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { freePorts } from "../examples/processes.ts";
import { standStill } from "./stand-still.ts";

/** A process that can be killed and started again. */
export interface RedisProcess {
  /** @param more options of this start. */
  readonly start: (more?: readonly string[]) => Promise<void>;
  /** SIGKILL. */
  readonly kill: () => Promise<void>;
  /** SIGSTOP, like a machine that hangs: connections stay open, and data that is sent to it waits. */
  readonly pause: () => void;
  readonly resume: () => void;
}

/** @param options for redis-server. */
export function redisProcess(options: readonly string[]): RedisProcess {
  let child: ChildProcess | undefined;
  return {
    async start(more = []) {
      const started = spawn("redis-server", [...options, ...more], { stdio: ["ignore", "pipe", "ignore"] });
      child = started;
      let said = "";
      await new Promise<void>((resolve, reject) => {
        started.once("error", reject);
        started.once("close", () => reject(new Error(`redis-server ended: ${said}`)));
        started.stdout.on("data", (text: Buffer) => {
          said += text.toString();
          if (/Ready to accept connections|Sentinel ID is/u.test(said)) resolve();
        });
      });
    },
    async kill() {
      const ending = child;
      child = undefined;
      if (ending === undefined) return;
      await new Promise((resolve) => {
        ending.once("exit", resolve);
        ending.kill("SIGKILL");
      });
    },
    pause: () => child?.pid !== undefined && standStill(child.pid),
    resume: () => void child?.kill("SIGCONT"),
  };
}

/** The words that a pattern finds in a page of the documents. */
function rules(path: string, pattern: RegExp): string[] {
  const page = readFileSync(join(import.meta.dirname, "../../docs", path), "utf8");
  return pattern.exec(page.replaceAll(String.raw`\|`, "|"))![1]!.split(" ");
}

/** The rules of ACL users as the documents have them, without the password. */
export function documentedRights(): Readonly<
  Record<"artifacts" | "cluster" | "sentinel" | "queue", string[]>
> {
  const redis = "operate/set-up/redis.md";
  return {
    artifacts: rules(redis, /^ACL SETUSER sign-in on >password (.+)$/mu),
    cluster: rules(redis, /`(\+cluster\|[^`]+)`/u),
    sentinel: rules(redis, /`(\+@connection \+sentinel[^`]+)`/u),
    queue: rules("operate/set-up/workers.md", /^\| Rights of an ACL user \| `([^`]+)`/mu),
  };
}

export interface OwnRedis extends Pick<RedisProcess, "start" | "pause" | "resume"> {
  readonly url: string;
  readonly client: Redis;
  /** Ends it; all its data is lost. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

/** @param options for redis-server; they override those of the test. */
export async function openOwnRedis(options: readonly string[] = []): Promise<OwnRedis> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-redis-"));
  const port = await freePorts(2);
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: null, retryStrategy: () => 20 });
  client.on("error", () => undefined);
  // As a cluster it would also listen at `port + 10000`, which the system may have given to a connection.
  const ports = ["--port", String(port), "--cluster-port", String(port + 1)];
  const where = [...ports, "--bind", "127.0.0.1", "--dir", folder];
  const how = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"];
  const { start, kill: stop, pause, resume } = redisProcess([...where, ...how, ...options]);
  await start();
  await client.connect();
  return {
    url,
    client,
    start,
    stop,
    pause,
    resume,
    async close() {
      client.disconnect();
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
