/** Faults of one server with SQLite: its disks, its configuration, and who uses it. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "../../examples/processes.ts";
import { Deployment } from "./deployment.ts";
import { failing, type Fault, type Lane } from "./fault.ts";

function mount(folder: string, size: string): void {
  mkdirSync(folder);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "none", folder]);
}

/** Leaves no room: the last write fails. */
function fill(folder: string): void {
  const block = Buffer.alloc(4096);
  try {
    for (;;) appendFileSync(join(folder, "ballast"), block);
  } catch (error) {
    if (Reflect.get(Object(error), "code") !== "ENOSPC") throw error;
  }
}

/** Faults of one server with SQLite. */
export async function fileLane(): Promise<Lane> {
  const folder = newFolder();
  const disk = join(folder, "disk");
  const logs = join(folder, "logs");
  mount(disk, "128m");
  mount(logs, "1m");
  const deployment = await Deployment.open({ disk, logFile: join(logs, "sign-in.log") });
  const { server } = deployment;
  const faults: Fault[] = [
    {
      name: "The disk of SQLite is full",
      begin: () => fill(disk),
      end: () => rmSync(join(disk, "ballast")),
      health: 503,
      part: ["storage", /full/u],
      line: { level: "error", msg: "request failed", reason: "database or disk is full", store: "storage" },
      metric: failing("storage"),
      alerts: ["SignInStorageFailing", "SignInFaults"],
      runbook: [["doctor", /The disk of the database is full: 0 MB are free/u]],
    },
    {
      name: "A wrong configuration is reloaded",
      begin() {
        deployment.configure({ prot: 80 });
        process.kill(server.running.pid, "SIGHUP");
      },
      end() {
        deployment.configure({});
        process.kill(server.running.pid, "SIGHUP");
      },
      health: 200,
      line: { level: "error", msg: "the configuration is not reloaded: config.prot: unknown key" },
      again: "the configuration is reloaded",
      metric: 'sign_in_reloads_total{result="refused",$on} > 0',
      alerts: ["SignInReloadRefused"],
      runbook: [["config check", /config\.prot: unknown key/u]],
      isOnce: true,
    },
    {
      name: "A secret is forgotten, and the configuration reloaded",
      begin() {
        deployment.configure({ keys: { secrets: [Buffer.alloc(32, 3).toString("base64")] } });
        process.kill(server.running.pid, "SIGHUP");
      },
      end() {
        deployment.configure({});
        process.kill(server.running.pid, "SIGHUP");
      },
      health: 200,
      line: { level: "error", msg: "the configuration is not reloaded: The storage needs" },
      again: "the configuration is reloaded",
      metric: 'sign_in_reloads_total{result="refused",$on} > 1',
      alerts: ["SignInReloadRefused"],
      runbook: [["config check --storage", /which keys\.secrets lacks/u]],
      isOnce: true,
    },
    {
      name: "One network reaches a limit",
      async begin() {
        // The limit of an address, and a little more.
        const headers = { "x-forwarded-for": "192.0.2.55", "x-forwarded-host": new URL(deployment.url).host };
        const query = "client_id=news&response_type=code";
        for (let sent = 0; sent < 700; sent += 50) {
          const requests = Array.from({ length: 50 }, () =>
            fetch(`${deployment.url}/oauth2/authorize?${query}`, { headers, redirect: "manual" }),
          );
          for (const answer of await Promise.all(requests)) await answer.body?.cancel();
        }
      },
      end: () => undefined,
      health: 200,
      line: undefined,
      metric: 'sign_in_limit_refusals_total{limit="interactions",$on} > 50',
      alerts: ["SignInLimits"],
      runbook: [["audit list --action interaction --since 1h", /192\.0\.2\./u]],
      isOnce: true,
      within: 420,
    },
    {
      name: "The disk of the log is full",
      begin: () => fill(logs),
      async end() {
        // It ends as always, though nobody reads what it says.
        if ((await server.running.stop()) !== 0) throw new Error("SIGTERM did not end it");
        rmSync(join(logs, "ballast"));
        await server.start();
      },
      health: 200,
      line: undefined,
      metric: "sign_in_log_lines_dropped_total{$on} > 0",
      alerts: ["SignInLogLost"],
      runbook: [],
    },
  ];
  return {
    deployment,
    faults,
    async close() {
      for (const each of [disk, logs]) execFileSync("umount", ["--lazy", each]);
      rmSync(folder, { recursive: true });
    },
  };
}
