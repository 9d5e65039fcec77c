/** The service as an operator runs it: servers and a worker as processes of the command, with the documented probes. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePorts, newFolder, type Running, startProgram } from "../../examples/processes.ts";
import { ROOT } from "../../examples/documents.ts";
import { programFor } from "../../machine.mjs";
import type { SmtpServer } from "../../servers/smtp.ts";
import type { OwnRedis } from "../../servers/redis.ts";
import { CALLBACK, CLIENTS, PEOPLE } from "./visitors.ts";

export const TOKEN = "the-token-of-the-operator.0123456789";

/** A line of a log. */
export interface Line {
  readonly level: number;
  readonly msg: string;
  readonly [member: string]: unknown;
}

/** A process of the service. */
export interface Member {
  readonly role: "server" | "worker";
  running: Running;
  /** The public port; a worker has none. */
  readonly url: string | undefined;
  /** The metrics port, without a scheme. */
  readonly aside: string;
  /** Where its log goes, if not to its standard output. */
  readonly logFile: string | undefined;
  /** Starts it again with the same ports. */
  start(): Promise<void>;
  /** Everything that it has printed since it was first started. */
  log(): string;
  /** The lines of its log. */
  lines(): Line[];
  health(): Promise<{ readonly status: number; readonly text: string }>;
}

export interface Plan {
  /** Default: SQLite and the embedded queue, in one process. */
  readonly storage?: string;
  /** Whether the process sees `database.internal` as this machine: see {@link Deployment.forgetHost}. */
  readonly hasOwnHosts?: boolean;
  readonly artifacts?: OwnRedis;
  readonly queue?: OwnRedis;
  readonly mail?: SmtpServer;
  /** A folder for the database. Default: that of the deployment. */
  readonly disk?: string;
  readonly logFile?: string;
  readonly worker?: boolean;
}

/** Runs a program with files of its own in place of `/etc/hosts` and what says where names are looked up. */
const WITH_OWN_HOSTS = `mount --bind "$OWN_HOSTS/hosts" /etc/hosts && mount --bind "$OWN_HOSTS/nsswitch.conf" /etc/nsswitch.conf && exec "$0" "$@"`;

/** A library that gives a process another clock: the difference is in a file, and can be changed while it runs. */
function fakeTime(file: string): Record<string, string> {
  programFor("faketime");
  // Debian keeps it in the folder of the architecture.
  const library = readdirSync("/usr/lib")
    .map((folder) => join("/usr/lib", folder, "faketime/libfaketimeMT.so.1"))
    .find((path) => existsSync(path));
  return {
    LD_PRELOAD: library ?? "",
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: "1",
    DONT_FAKE_MONOTONIC: "1",
  };
}

export class Deployment {
  readonly folder: string = newFolder();
  readonly members: Member[] = [];
  readonly configFile: string;
  readonly url: string;
  /** The receivers of notifications, by the keys of their services. */
  readonly receivers: Map<string, Server> = new Map();
  readonly plan: Plan;
  readonly #port: number;
  #config: Record<string, unknown> = {};

  private constructor(plan: Plan, port: number) {
    this.plan = plan;
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.configFile = join(this.folder, "sign-in.json");
  }

  static async open(plan: Plan): Promise<Deployment> {
    const deployment = new Deployment(plan, await freePorts());
    if (plan.hasOwnHosts === true) deployment.rememberHost();
    for (const { client_id } of CLIENTS) deployment.receivers.set(client_id, await openReceiver());
    deployment.configure({});
    await deployment.#add("server");
    if (plan.worker === true) await deployment.#add("worker");
    return deployment;
  }

  get server(): Member {
    return this.members[0]!;
  }

  get worker(): Member | undefined {
    return this.members.find(({ role }) => role === "worker");
  }

  /** Writes the configuration, with these changes. */
  configure(changes: Readonly<Record<string, unknown>>): void {
    if (Object.keys(this.#config).length === 0) this.#config = this.#usual();
    writeFileSync(this.configFile, JSON.stringify({ ...this.#config, ...changes }), { mode: 0o600 });
  }

  #usual(): Record<string, unknown> {
    const { plan } = this;
    const services = Object.fromEntries(
      [...this.receivers].map(([key, server]) => {
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
        const types = ["PROFILE_CHANGED", "DELETE_ACCOUNT"];
        const receiver = { url, client_id: "sign-in", client_secret: "a secret of the receiver", types };
        return [key, { name: key, receiver }];
      }),
    );
    return {
      deployments: { oauth2: { url: this.url }, openid: { url: `${this.url}/openid` } },
      port: this.#port,
      storage: plan.storage ?? `sqlite:${join(plan.disk ?? this.folder, "sign-in.db")}`,
      ...(plan.artifacts && { artifacts: plan.artifacts.url }),
      ...(plan.queue && { queue: plan.queue.url }),
      ...(plan.mail && { mail: { url: plan.mail.url, from: "Example <no-reply@login.example>" } }),
      // The people of the stream come from addresses of their own.
      proxy: ["127.0.0.1"],
      keys: { secrets: [randomBytes(32).toString("base64")] },
      metrics: { token: TOKEN },
      passwords: { memory: 7168, passes: 5 },
      notifications: {
        allowedReceivers: ["127.0.0.1"],
        worker: plan.worker !== true,
        breaker: { failures: 3 },
      },
      seed: {
        services,
        clients: CLIENTS.map(({ client_id, client_secret }) => ({
          client_id,
          client_secret,
          name: client_id,
          redirect_uris: [CALLBACK],
          service: client_id,
        })),
        accounts: PEOPLE.map(({ address: _address, ...person }) => person),
      },
    };
  }

  /** The name `database.internal` is known to the processes. */
  rememberHost(): void {
    this.#writeHosts("127.0.0.1 localhost database.internal\n");
  }

  forgetHost(): void {
    this.#writeHosts("127.0.0.1 localhost\n");
  }

  #writeHosts(hosts: string): void {
    writeFileSync(join(this.folder, "hosts"), hosts);
    writeFileSync(join(this.folder, "nsswitch.conf"), "hosts: files\n");
  }

  /** Adds another server on the same storage, whose clock can be moved with {@link Deployment.moveClock}. */
  async addServerWithOwnClock(): Promise<Member> {
    this.moveClock("+0");
    return this.#add("server", fakeTime(join(this.folder, "clock")));
  }

  /** @param by such as `+2h`. */
  moveClock(by: string): void {
    writeFileSync(join(this.folder, "clock"), by);
  }

  /** Starts a process with another clock, which ends by itself. */
  async refusedWithClock(by: string): Promise<{ readonly code: number | string; readonly output: string }> {
    this.moveClock(by);
    const port = String(await freePorts());
    const running = this.#launch(
      ["serve", "--config", this.configFile, "--port", port, "--metrics-port", "0"],
      { env: fakeTime(join(this.folder, "clock")) },
    );
    return { code: await running.ended, output: running.output() };
  }

  /** Runs the command, and returns what it prints. */
  async run(
    ...words: readonly string[]
  ): Promise<{ readonly code: number | string; readonly output: string }> {
    const running = this.#launch([...words, "--config", this.configFile]);
    return { code: await running.ended, output: running.output() };
  }

  #launch(
    args: readonly string[],
    { env = {}, logFile }: { env?: Record<string, string>; logFile?: string | undefined } = {},
  ): Running {
    const command = [process.execPath, join(ROOT, "cli/main.ts"), ...args];
    const wrappers = [
      ...(this.plan.hasOwnHosts === true ? ["unshare", "--mount", "sh", "-c", WITH_OWN_HOSTS] : []),
      ...(logFile === undefined ? [] : ["sh", "-c", `exec "$0" "$@" >> "$LOG_FILE"`]),
    ];
    const [program = "", ...rest] = [...wrappers, ...command];
    return startProgram(program, {
      args: rest,
      cwd: this.folder,
      env: { ...env, OWN_HOSTS: this.folder, LOG_FILE: logFile ?? "" },
    });
  }

  async #add(role: Member["role"], env: Record<string, string> = {}): Promise<Member> {
    const isFirst = this.members.length === 0;
    const port = isFirst ? this.#port : await freePorts();
    const metricsPort = await freePorts();
    const url = role === "server" ? `http://127.0.0.1:${port}` : undefined;
    const logFile = role === "server" && isFirst ? this.plan.logFile : undefined;
    const args = [
      role === "server" ? "serve" : "worker",
      "--config",
      this.configFile,
      "--metrics-port",
      String(metricsPort),
      ...(role === "server" ? ["--port", String(port)] : []),
    ];
    const ended: string[] = [];
    const launch = (): Running => this.#launch(args, { env: { HOST: "127.0.0.1", ...env }, logFile });
    const member: Member = {
      role,
      url,
      aside: `127.0.0.1:${metricsPort}`,
      logFile,
      running: launch(),
      async start() {
        ended.push(member.running.output());
        member.running = launch();
        await untilStarted(member);
      },
      log: () =>
        [...ended, member.running.output(), logFile === undefined ? "" : readFileSync(logFile, "utf8")].join(
          "\n",
        ),
      lines: () => linesOf(member.log()),
      health: () => ask(url === undefined ? `http://${member.aside}/health` : `${url}/health`),
    };
    this.members.push(member);
    await untilStarted(member);
    return member;
  }

  /** Stops the processes as an operator does. @returns their exit codes. */
  async stop(): Promise<(number | string)[]> {
    return Promise.all(this.members.map(({ running }) => running.stop()));
  }

  /** Ends everything that still runs. */
  async close(): Promise<void> {
    await Promise.all(this.members.map(({ running }) => running.stop("SIGKILL")));
    for (const server of this.receivers.values()) {
      server.close();
      server.closeAllConnections();
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function untilStarted({ running, aside }: Member): Promise<void> {
  const ended = running.ended.then((code) => {
    throw new Error(`ended with ${code}: ${running.output()}`);
  });
  const up = async (): Promise<void> => {
    while ((await ask(`http://${aside}/health`)).status !== 200) await pause(50);
  };
  await Promise.race([ended, up()]);
  ended.catch(() => undefined);
}

/** 0 as status: no answer. */
export async function ask(url: string): Promise<{ readonly status: number; readonly text: string }> {
  try {
    const answer = await fetch(url, {
      headers: { authorization: `Bearer ${TOKEN}` },
      signal: AbortSignal.timeout(10_000),
    });
    return { status: answer.status, text: await answer.text() };
  } catch {
    return { status: 0, text: "" };
  }
}

/** The lines; one that is being written, or that a full disk has cut off, is left out. */
function linesOf(text: string): Line[] {
  return text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as Line];
    } catch {
      return [];
    }
  });
}

async function openReceiver(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume();
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
