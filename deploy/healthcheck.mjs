// Exits with 0 while the process in this container answers at all: restarting it does not bring back a lost database. A server is asked on its port. A worker, which has none, is asked
// on its metrics port: `healthcheck.mjs metrics`, with the variables SIGN_IN_METRICS_PORT and SIGN_IN_METRICS_TOKEN_FILE.
import { readFileSync } from "node:fs";

const { PORT = "3000", SIGN_IN_METRICS_PORT: metricsPort, SIGN_IN_METRICS_TOKEN_FILE: file } = process.env;
const ofMetrics = process.argv[2] === "metrics";
const headers = ofMetrics && file ? { authorization: `Bearer ${readFileSync(file, "utf8").trimEnd()}` } : {};

try {
  const { status } = await fetch(`http://127.0.0.1:${ofMetrics ? metricsPort : PORT}/health/live`, {
    headers,
    signal: AbortSignal.timeout(4_000),
  });
  process.exitCode = status === 200 ? 0 : 1;
} catch {
  process.exitCode = 1;
}
