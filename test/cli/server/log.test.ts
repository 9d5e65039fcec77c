/** The log of the bundled server: JSON lines only, and a destination that fails stops nothing. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { freePorts } from "../../examples/processes.ts";
import { configuration } from "../../examples/servers.ts";
import { ROOT } from "../../examples/documents.ts";
import { newFolder } from "../../closing.ts";

let folder: string;
beforeAll(() => {
  folder = newFolder();
});

/** Starts a server whose standard output is this file descriptor, or a pipe that nobody reads. */
async function serve(output: number | "pipe") {
  const port = await freePorts();
  const metricsPort = await freePorts();
  const origin = `http://127.0.0.1:${port}`;
  const file = join(folder, `${port}.json`);
  const settings = {
    ...configuration(origin),
    storage: "sqlite::memory:",
    port,
    metrics: { port: metricsPort },
  };
  writeFileSync(file, JSON.stringify(settings));
  const child = spawn(process.execPath, [join(ROOT, "cli/main.ts"), "serve", "--config", file], {
    stdio: ["ignore", output, "inherit"],
    env: { PATH: process.env["PATH"] ?? "", HOST: "127.0.0.1" },
  });
  if (typeof output === "number") closeSync(output);
  const isUp = (): Promise<boolean> =>
    fetch(`${origin}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isUp())) await pause(50);
  return {
    child,
    origin,
    /** How many lines were lost. */
    async dropped(): Promise<number> {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      return Number(/^sign_in_log_lines_dropped_total (\d+)$/m.exec(text)?.[1]);
    },
    /** Makes lines of the log. */
    async requests(count: number): Promise<number[]> {
      const statuses = new Set<number>();
      for (let round = 0; round < count; round += 100) {
        const answers = Array.from({ length: 100 }, () => fetch(`${origin}/oauth2/authorize?client_id=x`));
        for (const { status } of await Promise.all(answers)) statuses.add(status);
      }
      return [...statuses];
    },
    async stop(): Promise<unknown> {
      child.kill("SIGTERM");
      const [code] = (await once(child, "exit")) as [number | null];
      return code;
    },
  };
}

describe("the log", () => {
  it("on a full disk loses lines, which are counted, and goes on when there is room [D-LOG-5]", async () => {
    const disk = join(folder, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "none", disk]);
    try {
      const path = join(disk, "log");
      const server = await serve(openSync(path, "a"));
      await expect(server.dropped()).resolves.toBe(0);
      writeFileSync(join(disk, "ballast"), "x".repeat(40_000));
      await expect(server.requests(400)).resolves.toEqual([400]);
      while ((await server.dropped()) === 0) await pause(50);
      expect((await fetch(`${server.origin}/health`)).status).toBe(200);
      rmSync(join(disk, "ballast"));
      const before = readFileSync(path, "utf8").length;
      await server.requests(1);
      while (readFileSync(path, "utf8").length === before) await pause(50);
      await expect(server.stop()).resolves.toBe(0);
      // What the full disk has cut off takes no whole line with it.
      expect(readFileSync(path, "utf8")).not.toMatch(/.\{"level"/u);
    } finally {
      execFileSync("umount", [disk]);
    }
  });

  it("whose reader has stopped stops neither requests nor the end of the process [D-LOG-5]", async () => {
    const server = await serve("pipe");
    server.child.stdout?.pause();
    // Each line has about 250 bytes: more than the pipe and the buffer hold.
    await expect(server.requests(6_000)).resolves.toEqual([400]);
    expect(await server.dropped()).toBeGreaterThan(0);
    await expect(server.stop()).resolves.toBe(0);
  });

  it("has JSON lines only, from the start to the end [D-LOG-1]", async () => {
    const path = join(folder, "all.log");
    const server = await serve(openSync(path, "a"));
    await server.requests(1);
    await expect(server.stop()).resolves.toBe(0);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(100);
    expect(lines.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual(
      lines.map(() => "sign-in-service"),
    );
  });
});
