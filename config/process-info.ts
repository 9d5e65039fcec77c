/** What a process says about itself in its metrics, so that an operator sees processes that differ. */
import { packageVersion } from "../core/package-version.ts";
import type { Sealer } from "../core/sealing.ts";
import type { Configuration } from "./configuration.ts";
import { backendOf } from "./storage-address.ts";

/** Characters of the hash: enough to differ. */
const HASH_LENGTH = 12;

/** The kind of a store: `own` for one that the host passes. */
function kindOf(address: unknown): string {
  return typeof address === "string" ? (backendOf(address) ?? "other") : "own";
}

/**
 * The labels of `sign_in_process_info`.
 * @param sealer hashes the configuration with a key, because it holds secrets.
 */
export function processInfo(
  configuration: Configuration,
  role: "server" | "worker",
  sealer: Pick<Sealer, "hash">,
): Readonly<Record<string, string>> {
  const {
    storage,
    artifacts,
    queue,
    logger: _logger,
    clock: _clock,
    mailer: _mailer,
    metrics: { port: _port, host: _host, ...metrics } = {},
    ...rest
  } = configuration;
  // Processes of one configuration may differ in their metrics ports: see `--metrics-port`.
  const compared = JSON.stringify({ ...rest, metrics, storage, artifacts, queue });
  return {
    version: packageVersion(),
    role,
    storage: kindOf(storage),
    artifacts: kindOf(artifacts),
    queue: queue === "embedded" ? "embedded" : kindOf(queue),
    configuration: sealer.hash(compared).slice(0, HASH_LENGTH),
  };
}
