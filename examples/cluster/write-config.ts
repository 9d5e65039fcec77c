/** The configuration of the cluster: the demo, on shared stores. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DEMO_FILE } from "../../cli/demo/demo.ts";
import { DEFAULT_PORT } from "../../cli/server/config-file.ts";

interface ClusterConfig {
  /** Folder for the file, and for the secret that all processes share. */
  readonly folder: string;
  /** Port of the proxy. The client and the receiver use the two ports after it. */
  readonly port: number;
  /** `mongodb://…` or `postgresql://…` */
  readonly storage: string;
  /** `redis://…`, for artifacts and the queue. */
  readonly redis: string;
  /** Addresses and CIDR ranges whose `X-Forwarded-For` counts. */
  readonly proxy: readonly string[];
  /** Address of the metrics port of each process. Default: loopback. */
  readonly metricsHost?: string;
}

/** The secret, created at the first start. Without it, encrypted data can't be read. */
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

/** Writes the file. @returns Its path. */
export function writeConfig({ folder, port, storage, redis, proxy, metricsHost }: ClusterConfig): string {
  const moved = readFileSync(DEMO_FILE, "utf8").replaceAll(/(?<=http:\/\/[\w.]+:)\d+/gu, (usual) =>
    String(port + Number(usual) - DEFAULT_PORT),
  );
  // Nothing in the cluster sends mail, so nobody can register.
  const { interactions: _pages, ...demo } = JSON.parse(moved) as {
    readonly interactions: object;
    readonly notifications: object;
  };
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
