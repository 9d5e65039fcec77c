/** `worker`: a process that only delivers notifications and mail. */
import { pino } from "pino";
import type { RequestListener } from "node:http";
import { createNotificationWorker } from "../../notifier/index.ts";
import type { Run, Surroundings } from "../program/command.ts";
import { FAILED } from "../program/command-failure.ts";
import type { Environment } from "../../config/environment.ts";
import { type ConfigFile, readWorkerConfig } from "./config-file.ts";
import { METRICS_PORT, metricsPlace, monitoringListener, withMetricsPort } from "./monitoring.ts";
import { type Closable, type Opened, untilStopped } from "./opened.ts";
import { onReloadSignal, Reloadable } from "./reload.ts";

/** Milliseconds that running requests for health or metrics have when the process stops. */
const PATIENCE = 5_000;

interface Worker extends Closable {
  readonly monitor: RequestListener;
}

export const worker: Run = async (given, surroundings) => {
  const { logLevel } = surroundings.environment();
  const metricsPort = given.port("metrics-port");
  async function read(): Promise<ConfigFile> {
    const file = await readWorkerConfig(given, surroundings);
    return { ...file, config: withMetricsPort(file.config, metricsPort) };
  }
  const { signal, out } = surroundings;
  return (await untilStopped(signal, (opened) => start(opened, { read, logLevel, out }))) ? 0 : FAILED;
};

interface Start extends Pick<Surroundings, "out">, Pick<Environment, "logLevel"> {
  readonly read: () => Promise<ConfigFile>;
}

async function start(opened: Opened, { read, logLevel, out }: Start): Promise<void> {
  const signal = onReloadSignal();
  const logger = pino({ name: "sign-in-worker", level: logLevel });
  async function open({ config }: ConfigFile): Promise<Worker> {
    const opens = await createNotificationWorker({ ...config, logger });
    return { monitor: monitoringListener(opens, config.metrics?.token), close: () => opens.close() };
  }
  const file = await read();
  const place = metricsPlace(file.config);
  const monitoring =
    place && (await opened.listen(place.port, place.host, { patience: PATIENCE, words: METRICS_PORT }));
  const running = await open(file);
  const use = ({ monitor }: Worker): void => monitoring?.serve(monitor);
  use(running);
  const reloadable = opened.add(new Reloadable({ running, file, logger, read, open, use }));
  if (monitoring !== undefined) out.write(`health and metrics on port ${monitoring.port}\n`);
  out.write("delivering\n");
  signal.use(() => reloadable.reload());
  opened.add({ close: async () => signal.end() });
}
