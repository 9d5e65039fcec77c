/** The configuration of the cluster: that of the demo, on stores that all processes share. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DEMO_FILE, DEMO_PORT } from "../server/demo.ts";

export interface ClusterConfig {
  /** Where the file is written, and the secret kept that all processes need. */
  readonly folder: string;
  /** Of the proxy; the client has the next one, the receiver the one after it. */
  readonly port: number;
  /** `mongodb://…` or `postgresql://…` */
  readonly storage: string;
  /** `redis://…`, for artifacts and for the queue. */
  readonly redis: string;
  /** Whose `X-Forwarded-For` counts: addresses and CIDR ranges. */
  readonly proxy: readonly string[];
  /** Where a process with `--metrics-port` listens for what reads its metrics. Default: on the loopback. */
  readonly metricsHost?: string;
}

/** Made at the first start and kept: without it nothing can be read that is sealed. */
function keptSecret(folder: string): string {
  const path = join(folder, "secrets.key");
  mkdirSync(folder, { recursive: true });
  try {
    writeFileSync(path, randomBytes(32).toString("base64"), { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return readFileSync(path, "utf8");
}

/** Writes it. @returns the path of the file. */
export function writeConfig({ folder, port, storage, redis, proxy, metricsHost }: ClusterConfig): string {
  const moved = [0, 1, 2].reduce(
    (text, step) => text.replaceAll(`127.0.0.1:${DEMO_PORT + step}`, `127.0.0.1:${port + step}`),
    readFileSync(DEMO_FILE, "utf8"),
  );
  const demo = JSON.parse(moved) as { readonly notifications: object };
  const config = {
    ...demo,
    storage,
    artifacts: redis,
    queue: redis,
    keys: { secrets: [keptSecret(folder)] },
    proxy,
    ...(metricsHost !== undefined && { metrics: { host: metricsHost } }),
    // The workers deliver.
    notifications: { ...demo.notifications, worker: false },
  };
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify(config, undefined, 2), { mode: 0o600 });
  return path;
}
