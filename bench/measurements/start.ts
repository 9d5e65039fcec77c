/** Time from the start of the bundled server to its first response, and its memory at rest. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { builtProgram } from "../build.ts";
import { type Measurement, type Row } from "../result.ts";
import { median } from "../rounds.ts";
import { memoryOf } from "../side.ts";

/** Milliseconds after which the memory of the start is released. */
const IDLE = 2_000;

/** The public address. The server listens on a free port instead. */
const URL = "http://127.0.0.1:3000";
const LOCALHOST = "http://localhost:3000";

const PLAIN = {
  port: 0,
  deployments: { oauth2: { url: URL }, openid: { url: `${URL}/openid` } },
  storage: "sqlite:./sign-in.db",
};

/** Everything that takes memory at rest. There are passkeys on `localhost` only. */
const FULL = {
  ...PLAIN,
  deployments: { oauth2: { url: LOCALHOST }, openid: { url: `${LOCALHOST}/openid` } },
  secondFactor: { remember: 30 },
  operators: { "5a1c0de0-0ada-4ada-8ada-1815121018ad": "administrator" },
  interactions: { registration: true },
  mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
  metrics: { port: 0 },
};

interface Start {
  readonly milliseconds: number;
  readonly memory: number;
}

/** Starts `serve` in a folder, asks for the discovery document, and stops it. */
async function startOnce(folder: string, config: object): Promise<Start> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config), { mode: 0o600 });
  const began = performance.now();
  const child = spawn(process.execPath, [builtProgram(), "serve", "--config", "config.json"], {
    cwd: folder,
    env: { LOG_LEVEL: "warn", HOST: "127.0.0.1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  try {
    const ports: Record<string, string> = {};
    for await (const line of createInterface({ input: child.stdout })) {
      const [, what = "", port = ""] = /"msg":"(listening|health and metrics) on port (\d+)/.exec(line) ?? [];
      ports[what] = port;
      if (what === "listening") break;
    }
    const response = await fetch(
      `http://127.0.0.1:${ports["listening"]}/openid/.well-known/openid-configuration`,
    );
    if (response.status !== 200) throw new Error(`the first answer is ${response.status}`);
    await response.text();
    const milliseconds = performance.now() - began;
    // As Prometheus does: the code of the metrics is loaded with the first request.
    const monitoring = ports["health and metrics"];
    if (monitoring !== undefined) await (await fetch(`http://127.0.0.1:${monitoring}/metrics`)).text();
    await pause(IDLE);
    return { milliseconds, memory: memoryOf(child.pid ?? 0, "VmRSS") };
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
}

function timeRow(starts: readonly Start[], against: string): Row {
  const all = starts.map(({ milliseconds }) => milliseconds);
  const raw = `${all.map(Math.round).join(", ")} ms`;
  return { work: "start to first answer", against, value: median(all), unit: "ms", target: 700, raw };
}

function memoryRow(starts: readonly Start[], against: string, target: number): Row {
  const sizes = starts.map(({ memory }) => memory);
  const raw = `${sizes.map(Math.round).join(", ")} MB`;
  return { work: "idle memory", against, value: median(sizes), unit: "MB", target, raw };
}

export const start: Measurement = {
  name: "start",
  async run({ rounds }, folder) {
    const fresh: Start[] = [];
    const existing: Start[] = [];
    const full: Start[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const place = join(folder, `start-${round}`);
      fresh.push(await startOnce(place, PLAIN));
      existing.push(await startOnce(place, PLAIN));
      full.push(await startOnce(place, FULL));
    }
    return [
      timeRow(fresh, "a new database and new keys"),
      timeRow(existing, "a database that is there"),
      memoryRow(existing, "resident", 110),
      memoryRow(full, "with registration, mail, second factors, operators and metrics", 125),
    ];
  },
};
