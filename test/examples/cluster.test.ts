/** The cluster example: many processes act as one service, and it keeps working when one of them ends. */
import { chmodSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { type Child, type ChildPlan, startChild } from "../../examples/cluster/children.ts";
import { createProxy } from "../../examples/cluster/proxy.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { rounds } from "../rounds.ts";
import { freePorts, type Running, start } from "./processes.ts";
import { newFolder } from "../closing.ts";

/** Whether the process exists. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Responds with its name and the request. */
const named =
  (name: string): RequestListener =>
  (request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text));
    request.on("end", () => {
      response.setHeader("set-cookie", ["a=1", "b=2"]);
      response.end(
        JSON.stringify({ name, body, url: request.url, from: request.headers["x-forwarded-for"] }),
      );
    });
  };

function describeOn(storage: string): void {
  const folder = newFolder();
  // As root, PostgreSQL runs as its own user.
  chmodSync(folder, 0o755);
  let cluster: Running;
  let client = "";
  /** The options of commands for the running cluster. */
  let where: readonly string[] = [];

  /** ID of the running process of this name. */
  const processOf = (name: string): number =>
    Number(new RegExp(`${name} +(?:is running again, )?process (\\d+)`).exec(cluster.output())?.[1]);

  beforeAll(async () => {
    // The processes behind the proxy use the ports after its port.
    const port = await freePorts(16);
    const args = ["--storage", storage, "--port", String(port), "--data", folder];
    where = args.slice(2);
    cluster = start("examples/cluster/main.ts", { args });
    await cluster.until(/Ctrl\+C stops all of them/);
    [, client = ""] = await cluster.until(/Open +(\S+)/);
  });
  afterAll(async () => {
    await cluster.stop("SIGTERM");
  });

  async function signIn(label: string): Promise<Browser> {
    const browser = new Browser();
    await browser.get(client);
    await browser.click(label);
    await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
    return browser;
  }

  it("signs users in at any process, also after one was killed and restarted", async () => {
    for (const label of ["Sign in with OAuth 2.0", "Sign in with OpenID Connect"]) {
      expect((await signIn(label)).title).toBe("Hello, Ada");
    }
    const killed = processOf("app 1");
    process.kill(killed, "SIGKILL");
    while (isRunning(killed)) await pause(1);
    // Immediately after its end, the proxy uses the next process.
    expect((await signIn("Sign in with OAuth 2.0")).title).toBe("Hello, Ada");
    await cluster.until(/app 1 is running again, process \d+/);
    expect((await signIn("Sign in with OAuth 2.0")).title).toBe("Hello, Ada");
  });

  // What takes longer, and the servers without a standby, run in `test:all`.
  const lost = [...(storage === "postgresql" ? [["promote"]] : []), ["kill", "redis"], ["kill", "primary"]];
  const tried = storage === "postgresql" ? lost.slice(0, rounds(1, 3)) : [];
  if (tried.length > 0)
    it("goes on when a server is lost, and says what people notice [D-AVAIL-1]", async () => {
      for (const command of tried) {
        const program = start("examples/cluster/main.ts", { args: [...command, ...where] });
        expect([command, await program.ended, program.output()]).toEqual([
          command,
          0,
          expect.stringMatching(command.includes("primary") ? /promote$/mu : /\d+ of \d+ sign-ins failed/u),
        ]);
        if (command[1] === "primary") continue;
        expect((await signIn("Sign in with OpenID Connect")).title).toBe("Hello, Ada");
      }
      const wrong = start("examples/cluster/main.ts", { args: ["kill", "constructor", ...where] });
      expect([await wrong.ended, wrong.output()]).toEqual([
        2,
        expect.stringContaining("kill one of primary"),
      ]);
    });

  it("stops all of its processes on SIGTERM", async () => {
    const names = ["redis 2", "sentinel 3", "receiver", "app 2", "worker 1", "worker 2", "client"];
    const pids = names.map(processOf);
    expect(pids.every((pid) => isRunning(pid))).toBe(true);
    expect(await cluster.stop("SIGINT")).toBe(0);
    expect(pids.filter((pid) => isRunning(pid))).toEqual([]);
  });

  it("kills a process that does not stop after a second signal", async () => {
    const small = ["--apps", "1", "--workers", "1"];
    const args = ["--storage", storage, "--port", String(await freePorts(16)), "--data", folder, ...small];
    cluster = start("examples/cluster/main.ts", { args });
    await cluster.until(/Ctrl\+C stops all of them/);
    const pids = ["redis 1", "app 1", "worker 1", "client"].map(processOf);
    process.kill(processOf("client"), "SIGSTOP");
    process.kill(cluster.pid, "SIGINT");
    // An immediate second signal counts as the same one, because npm forwards it.
    await pause(1_000);
    expect(await cluster.stop("SIGINT")).toBe(130);
    while (pids.some((pid) => isRunning(pid))) await pause(10);
  });
}

describe("npm run cluster", () => describeOn("mongodb"));
describe("npm run cluster -- --storage postgresql", () => describeOn("postgresql"));

describe("a process of the cluster", () => {
  const folder = newFolder();
  const children: Child[] = [];
  afterAll(async () => {
    for (const child of children) await child.stop();
  });

  /** A process that runs this code, and the lines printed about it. */
  function begin(code: string, ready: ChildPlan["ready"]): { child: Child; output: string[] } {
    const output: string[] = [];
    const plan = { name: "one", command: process.execPath, args: ["-e", code], ready };
    const child = startChild(plan, (line) => void output.push(line));
    children.push(child);
    return { child, output };
  }

  it("is restarted until it is ready, however often that fails", async () => {
    const file = JSON.stringify(join(folder, "starts"));
    const { child, output } = begin(
      `const fs = require("node:fs");
      fs.appendFileSync(${file}, ".");
      const starts = fs.readFileSync(${file}).length;
      if (starts === 2 || starts === 3) process.exit(7);
      console.log("at work");
      setInterval(() => undefined, 1000);`,
      /at work/,
    );
    await child.started;
    process.kill(child.pid(), "SIGKILL");
    while (!output.some((line) => line.startsWith("one is running again"))) await pause(20);
    expect(output.filter((line) => line.endsWith("restarting it"))).toEqual([
      "one ended (SIGKILL); restarting it",
      "one ended (7); restarting it",
      "one ended (7); restarting it",
    ]);
    expect(isRunning(child.pid())).toBe(true);
  });

  it("that ends before it is ready reports why and is not restarted", async () => {
    const never = new Promise<void>(() => undefined);
    const { child, output } = begin('console.error("the folder is in use"); process.exit(1)', () => never);
    await expect(child.started).rejects.toMatchObject({
      message: "one ended before it was ready.\nthe folder is in use\n",
    });
    expect([output, child.pid()]).toEqual([[], 0]);
  });
});

describe("the proxy", () => {
  const servers: Server[] = [];

  async function listen(
    answer: RequestListener,
  ): Promise<{ readonly port: number; readonly server: Server }> {
    const server = createServer(answer);
    servers.push(server);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    return { port: (server.address() as AddressInfo).port, server };
  }

  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });

  it("uses its targets in turn, and forwards address, body and cookies", async () => {
    const targets = [await listen(named("one")), await listen(named("two"))];
    const { port } = await listen(createProxy(targets));
    const names: string[] = [];
    for (let round = 0; round < 4; round += 1) {
      const response = await fetch(`http://127.0.0.1:${port}/a?b=c`, {
        method: "POST",
        body: "x".repeat(100_000),
      });
      expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
      const { name, body, url, from } = (await response.json()) as Record<string, string>;
      expect([body?.length, url, from]).toEqual([100_000, "/a?b=c", "127.0.0.1"]);
      names.push(name ?? "");
    }
    expect(names.toSorted()).toEqual(["one", "one", "two", "two"]);
  });

  it("skips targets that refuse connections, and responds with 503 if there is no other", async () => {
    const gone = await listen(named("gone"));
    await new Promise((resolve) => void gone.server.close(resolve));
    const there = await listen(named("there"));
    const { port } = await listen(createProxy([gone, there]));
    for (let round = 0; round < 3; round += 1) {
      const response = await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: "b" });
      expect(await response.json()).toMatchObject({ name: "there", body: "b" });
    }
    const { port: none } = await listen(createProxy([gone]));
    const refused = await fetch(`http://127.0.0.1:${none}/`);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  });

  it("does not resend a request that a target has started to receive", async () => {
    let requests = 0;
    const breaking = await listen((request) => {
      requests += 1;
      request.socket.destroy();
    });
    const other = await listen(() => {
      requests += 1;
    });
    const { port } = await listen(createProxy([other, breaking]));
    const response = await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: "b" });
    expect([response.status, requests]).toEqual([503, 1]);
  });
});
