/** Runs a worker: a process that only delivers notifications. */
import { pino } from "pino";
import { readEnvironment } from "../../config/environment.ts";
import { createNotificationWorker, type NotificationWorker } from "../../notifier/index.ts";
import { parseArguments, toConfigFile, toPort } from "../../cli/server/arguments.ts";
import { readServiceConfig } from "../../cli/server/config-file.ts";
import type { Listener } from "../../cli/server/listener.ts";
import {
  METRICS_PORT,
  metricsPlace,
  monitoringListener,
  withMetricsPort,
} from "../../cli/server/monitoring.ts";
import { endWith, MISUSED, StartFailure } from "../../cli/server/start-failure.ts";
import { onStopSignal } from "../../cli/server/stop-signals.ts";

const USAGE = `Usage: node examples/cluster/worker.ts --config FILE [--metrics-port N]

Delivers the notifications that app processes with the same configuration store.

  --config FILE     configuration of the service
  --metrics-port N  port for health and metrics; overrides metrics.port in the configuration
  --help            show this help

Environment: LOG_LEVEL.
`;

/** Milliseconds that running requests for health or metrics have when the process stops. */
const PATIENCE = 5_000;

async function work(path: string, metricsPort: string | undefined): Promise<void> {
  let worker: NotificationWorker | undefined;
  let monitoring: Listener | undefined;
  onStopSignal(async () => void (await Promise.all([monitoring?.stop(PATIENCE), worker?.close()])));
  const port = metricsPort === undefined ? undefined : toPort(metricsPort, "--metrics-port");
  const config = withMetricsPort(await readServiceConfig(path), port);
  const logger = pino({ name: "sign-in-worker", level: readEnvironment().logLevel });
  const place = metricsPlace(config);
  if (place !== undefined) {
    // Load the HTTP server only if needed, because it takes memory.
    const { listen } = await import("../../cli/server/listener.ts");
    monitoring = await listen(place.port, place.host, METRICS_PORT);
  }
  worker = await createNotificationWorker({ ...config, logger });
  monitoring?.serve(monitoringListener(worker, place?.token));
  if (monitoring !== undefined) console.log(`health and metrics on port ${monitoring.port}`);
  console.log("delivering");
}

/** @param args the command line without the program. A failure ends the process with a sentence and an exit code. */
export async function deliver(args: readonly string[]): Promise<void> {
  try {
    const values = parseArguments(args, {
      help: { type: "boolean", short: "h" },
      config: { type: "string" },
      "metrics-port": { type: "string" },
    });
    if (values.help === true) {
      console.log(USAGE);
      process.exit(0);
    }
    const path = toConfigFile(values.config);
    if (path === undefined) throw new StartFailure("--config FILE is missing. See --help.", MISUSED);
    await work(path, values["metrics-port"]);
  } catch (error) {
    endWith(error);
  }
}
