/** `npm run cluster`: the setup of compose.yaml, with processes on this machine. */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createServer, type Server } from "node:http";
import { join, resolve } from "node:path";
import { DEMO_FILE } from "../../cli/demo/demo.ts";
import { parseArguments, toPort, toWhole } from "../arguments.ts";
import { CommandFailure, misused } from "../../cli/program/command-failure.ts";
import { endOnSignal, endWith } from "../ending.ts";
import { endWithNpm } from "../../cli/program/stop-signals.ts";
import { readEnvironment, readVariable } from "../../config/environment.ts";
import { type Child, type ChildPlan, startChild } from "./children.ts";
import { createProxy } from "./proxy.ts";
import { postgresStore, untilConnected } from "./postgresql.ts";
import { mongoStore, redisStore, type Store, untilWritable } from "./stores.ts";
import { noteProcesses, portsOf, type Running, troubleNamed } from "./trouble.ts";
import { writeConfig } from "./write-config.ts";

const USAGE = `Usage: npm run cluster -- [kill WHAT | promote] [options]

Starts PostgreSQL with a standby, Redis with a replica and three sentinels, app processes and workers on this machine, a proxy in
front of the apps, and the demo client and receiver. Processes that end are restarted.

In another terminal, or typed into this one:
  kill WHAT     kills the primary or the standby of PostgreSQL, the primary of Redis, a sentinel, a server or a worker, and says
                what people notice: primary, standby, redis, sentinel, server, worker
  promote       makes the standby of PostgreSQL the primary

  --storage S   postgresql, or mongodb without a standby; default: postgresql
  --apps N      number of app processes; default: 2
  --workers N   number of processes that deliver notifications; default: 2
  --port N      port of the proxy; everything else uses the ports after it; default: 3000
  --data DIR    folder for the data of the servers; default: ./data/cluster
  --help        show this help

Environment: MONGODB_URL, POSTGRESQL_URL, REDIS_URL: use running servers instead. The demo users are created there.
`;

const HERE = "127.0.0.1";
const ROOT = resolve(import.meta.dirname, "../..");

/** The storages, and the variable with the URL of a running one. */
const STORAGES = {
  mongodb: {
    variable: "MONGODB_URL",
    store: ([port = 0]: readonly number[], folder: string) => mongoStore(port, folder),
    untilReady: untilWritable,
  },
  postgresql: { variable: "POSTGRESQL_URL", store: postgresStore, untilReady: untilConnected },
} as const;
type StorageName = keyof typeof STORAGES;

interface Asked {
  /** What is done to a running cluster. Missing: one is started. */
  readonly trouble: ((running: Running) => Promise<void>) | undefined;
  readonly storage: StorageName;
  readonly apps: number;
  readonly workers: number;
  readonly port: number;
  readonly data: string;
}

function readArguments(args: readonly string[]): Asked | undefined {
  const [first = "", what = ""] = args;
  const command = troubleNamed(first);
  const values = parseArguments(command === undefined ? args : args.slice(first === "kill" ? 2 : 1), {
    help: { type: "boolean", short: "h" },
    storage: { type: "string", default: "postgresql" },
    apps: { type: "string", default: "2" },
    workers: { type: "string", default: "2" },
    port: { type: "string", default: "3000" },
    data: { type: "string", default: join("data", "cluster") },
  });
  if (values.help === true) return undefined;
  const port = toPort(values.port);
  if (port === 0 || port > 65_000) throw misused("--port must be from 1 to 65000");
  const { storage } = values;
  if (storage !== "mongodb" && storage !== "postgresql")
    throw misused("--storage must be mongodb or postgresql");
  return {
    trouble: command && ((running) => command(running, what)),
    storage,
    apps: toWhole("--apps", values.apps, [1, 16]),
    workers: toWhole("--workers", values.workers, [1, 16]),
    port,
    data: resolve(values.data),
  };
}

function say(line: string): void {
  console.log(`  ${line}`);
}

/** Without this, the memory for new objects grows to 128 MB in a long-running worker. */
const LEAN = ["--max-semi-space-size=8"] as const;

function script(
  name: string,
  path: string,
  args: readonly string[],
  { ready, node = [] }: { readonly ready: RegExp; readonly node?: readonly string[] },
): ChildPlan {
  const environment = [`HOST=${HERE}`, "LOG_LEVEL=warn"];
  return {
    name,
    command: "env",
    args: [...environment, process.execPath, ...node, join(ROOT, path), ...args],
    ready,
  };
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_each, index) => index + 1);
}

function plansOf({ apps, workers, port }: Asked, config: string): ChildPlan[] {
  const use = ["--config", config];
  const worker = { ready: /delivering/, node: LEAN };
  const { receiver: receives, app } = portsOf(port);
  const receiver = ["--port", String(receives), ...use];
  return [
    script("receiver", "examples/receiver/main.ts", receiver, { ready: /receiving notifications/ }),
    ...numbers(apps).map((number) =>
      script(`app ${number}`, "cli/main.ts", ["serve", ...use, "--port", String(app(number))], {
        ready: /listening on port/,
      }),
    ),
    ...numbers(workers).map((number) =>
      script(`worker ${number}`, "cli/main.ts", ["worker", ...use], worker),
    ),
    script("client", "examples/client/main.ts", use, { ready: /The client is at/ }),
  ];
}

function banner({ port, data }: Asked, children: readonly Child[]): string {
  const { seed } = JSON.parse(readFileSync(DEMO_FILE, "utf8")) as {
    readonly seed: { readonly accounts: readonly { readonly username: string; readonly password: string }[] };
  };
  const [user] = seed.accounts;
  const rows = [
    ["Open", `http://localhost:${portsOf(port).client}`],
    ["User", user?.username ?? ""],
    ["Password", user?.password ?? ""],
    ["Service", `http://localhost:${port} (the proxy)`],
    ["Deliveries", `http://localhost:${port}/account/deliveries`],
    ["Data", data],
    ...children.map((child) => [child.name, `process ${child.pid()}`]),
  ];
  const lines = rows.map(([label = "", value = ""]) => `  ${label.padEnd(32)}${value}`);
  return `\nThe cluster is running.\n\n${lines.join("\n")}\n\nKill something: npm run cluster -- kill redis, in another terminal or typed here. Ctrl+C stops all of them.\n`;
}

function listen(proxy: Server, port: number): Promise<void> {
  return new Promise((done, failed) => {
    proxy.once("error", () =>
      failed(new CommandFailure(`Port ${port} is not available: choose another one with --port N.`)),
    );
    proxy.listen(port, HERE, done);
  });
}

/** A command that was typed. */
async function react(line: string, running: Running): Promise<void> {
  const [name = "", what = ""] = line.trim().split(/\s+/u);
  if (name === "") return;
  try {
    const command = troubleNamed(name);
    if (command === undefined) throw misused("type kill WHAT, or promote");
    await command(running, what);
  } catch (error) {
    say(error instanceof Error ? error.message : "it did not work");
  }
}

const addressOf = (store: Store | string): string => (typeof store === "string" ? store : store.url);

async function main(args: readonly string[]): Promise<void> {
  const children: Child[] = [];
  const proxy = createServer();
  let isStopping = false;
  // After a second Ctrl+C, leave no process behind.
  process.once("exit", () => {
    for (const child of children) child.kill();
  });
  endOnSignal(async () => {
    isStopping = true;
    proxy.close();
    proxy.closeIdleConnections();
    // Stop the processes that use a store before the store.
    for (const child of children.toReversed()) await child.stop();
  });
  try {
    const asked = readArguments(args);
    if (asked === undefined) {
      console.log(USAGE);
      process.exit(0);
    }
    const { port, apps, data, trouble } = asked;
    const running: Running = { port, data, say };
    if (trouble !== undefined) {
      await trouble(running);
      process.exit(0);
    }
    if (readEnvironment().byNpm) endWithNpm();
    const note = (): void =>
      noteProcesses(data, Object.fromEntries(children.map((each) => [each.name, each.pid()])));
    const begin = async (...plans: readonly ChildPlan[]): Promise<void> => {
      const started = plans.map(async (plan) => {
        say(`starting ${plan.name} …`);
        const child = startChild(plan, (line) => {
          say(line);
          note();
        });
        // Add it before it is ready, so that stopping the cluster stops it too.
        children.push(child);
        await child.started;
      });
      await Promise.all(started);
    };
    const ports = portsOf(port);
    const targets = numbers(apps).map((number) => ({ port: ports.app(number) }));
    proxy.on("request", createProxy(targets));
    await listen(proxy, port);
    const redis = readVariable("REDIS_URL") ?? redisStore(ports.redis, join(data, "redis"));
    const { variable, store, untilReady } = STORAGES[asked.storage];
    const storage = readVariable(variable) ?? store(ports.postgresql, join(data, asked.storage));
    // Start the storage first. If another cluster uses the folder, the storage fails, and Redis can't damage its file.
    for (const each of [storage, redis]) if (typeof each !== "string") await begin(...each.plans);
    if (typeof storage === "string") await untilReady(storage);
    const config = writeConfig({
      folder: data,
      port,
      storage: addressOf(storage),
      redis: addressOf(redis),
      proxy: [HERE],
    });
    for (const plan of plansOf(asked, config)) await begin(plan);
    note();
    console.log(banner(asked, children));
    createInterface({ input: process.stdin }).on("line", (line) => void react(line, running));
  } catch (error) {
    // A process that was starting has been stopped, as intended.
    if (isStopping) return;
    for (const child of children.toReversed()) await child.stop();
    endWith(error);
  }
}

await main(process.argv.slice(2));
