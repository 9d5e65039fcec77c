/** `npm run cluster -- kill …` and `promote`: ends a part of the running cluster, and says what people notice of it. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { CommandFailure, misused } from "../../cli/program/command-failure.ts";
import { Browser } from "../../testing/index.ts";
import { isLost, markLost, postgresRoles, promote } from "./postgresql.ts";

/** The cluster as a command sees it. */
export interface Running {
  /** Port of the proxy. The client is at the next one. */
  readonly port: number;
  readonly data: string;
  readonly say: (line: string) => void;
}

/** The ports of the cluster, from that of the proxy on. */
export const portsOf = (port: number) => ({
  client: port + 1,
  receiver: port + 2,
  redis: [3, 4, 5, 6, 7].map((each) => port + each),
  postgresql: [8, 9].map((each) => port + each),
  app: (number: number): number => port + 10 + number,
});

const processesFile = (data: string): string => join(data, "processes.json");

/** Notes which process has which name. */
export function noteProcesses(data: string, processes: Readonly<Record<string, number>>): void {
  writeFileSync(processesFile(data), JSON.stringify(processes));
}

function processOf({ data }: Running, name: string): number {
  const processes = JSON.parse(readFileSync(processesFile(data), "utf8")) as Record<string, number>;
  const found = processes[name];
  if (found === undefined || found === 0) throw new CommandFailure(`There is no process "${name}".`);
  return found;
}

async function primaryOfRedis({ port }: Running): Promise<string> {
  const { redis } = portsOf(port);
  for (const sentinel of redis.slice(2)) {
    const client = new Redis({ port: sentinel, lazyConnect: true, retryStrategy: () => null });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const [, found] = (await client.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")) as string[];
      return `redis ${redis.indexOf(Number(found)) + 1}`;
    } catch {
      // The next one knows it, too.
    } finally {
      client.disconnect();
    }
  }
  throw new CommandFailure("No sentinel answers.");
}

/** The names of what can be killed, and which process that is now. */
const VICTIMS: Readonly<Record<string, (running: Running) => Promise<string>>> = {
  async primary({ port, data }) {
    const { primary } = await postgresRoles(portsOf(port).postgresql, join(data, "postgresql"));
    if (primary === undefined) throw new CommandFailure("No PostgreSQL takes writes: promote the standby.");
    markLost(primary);
    return primary.name;
  },
  async standby({ port, data }) {
    const { standby } = await postgresRoles(portsOf(port).postgresql, join(data, "postgresql"));
    return standby.name;
  },
  redis: primaryOfRedis,
  sentinel: async () => "sentinel 1",
  server: async () => "app 1",
  worker: async () => "worker 1",
};

async function signsIn({ port }: Running): Promise<boolean> {
  try {
    const browser = new Browser();
    await browser.get(`http://localhost:${portsOf(port).client}`);
    await browser.click("Sign in with OpenID Connect");
    await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
    return browser.title === "Hello, Ada";
  } catch {
    return false;
  }
}

/** A shorter time without a failure may be luck. */
const CALM_MS = 5_000;

/** Signs somebody in again and again, until that works. @param most milliseconds. @returns whether it does. */
async function watch(running: Running, most: number): Promise<boolean> {
  const start = performance.now();
  const seconds = (at: number): string => `${((at - start) / 1_000).toFixed(1)} s`;
  let [tries, failures, lastFailure] = [0, 0, start];
  while (performance.now() - start < most) {
    const isGood = await signsIn(running);
    tries += 1;
    const now = performance.now();
    if (isGood) {
      if (now - lastFailure > CALM_MS) {
        const until = failures === 0 ? "" : `, the last one after ${seconds(lastFailure)}`;
        running.say(`${failures} of ${tries} sign-ins failed${until}`);
        return true;
      }
    } else {
      if (failures === 0) running.say(`sign-ins fail after ${seconds(now)}`);
      failures += 1;
      lastFailure = now;
    }
    await pause(100);
  }
  running.say(`sign-ins still fail after ${seconds(performance.now())}`);
  return false;
}

async function kill(running: Running, what: string): Promise<void> {
  const victim = Object.hasOwn(VICTIMS, what) ? VICTIMS[what] : undefined;
  if (victim === undefined) throw misused(`kill one of ${Object.keys(VICTIMS).join(", ")}`);
  const name = await victim(running);
  const id = processOf(running, name);
  running.say(`killing ${name}, process ${id}`);
  process.kill(id, "SIGKILL");
  const isBack = await watch(running, what === "primary" ? 8_000 : 60_000);
  if (what === "redis") running.say(`${await primaryOfRedis(running)} is the primary now`);
  if (!isBack && what === "primary")
    running.say("the standby takes its place with: npm run cluster -- promote");
}

/** Makes the standby of PostgreSQL the primary, and keeps the old one from taking writes. */
async function takeOver(running: Running): Promise<void> {
  const { port, data, say } = running;
  const folder = join(data, "postgresql");
  const { primary, standby, members } = await postgresRoles(portsOf(port).postgresql, folder);
  const next = primary === undefined ? members.find((each) => !isLost(each)) : standby;
  if (next === undefined) throw new CommandFailure("There is no standby.");
  // An old primary that lives on takes writes that are lost.
  if (primary !== undefined) {
    markLost(primary);
    process.kill(processOf(running, primary.name), "SIGKILL");
    say(`${primary.name} is killed: it comes back as a standby`);
  }
  const watching = watch(running, 60_000);
  await promote(next);
  say(`${next.name} is the primary now`);
  const program = resolve(import.meta.dirname, "../../cli/main.ts");
  const config = join(data, "config.json");
  const noted = ["storage", "promoted", "--nothing-lost", "--yes", "--config", config];
  say(execFileSync(process.execPath, [program, ...noted], { encoding: "utf8" }).trim());
  await watching;
}

const COMMANDS: Readonly<Record<string, (running: Running, what: string) => Promise<void>>> = {
  kill,
  promote: takeOver,
};

/** @returns `undefined` if it is no command. */
export const troubleNamed = (name: string): ((running: Running, what: string) => Promise<void>) | undefined =>
  Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
