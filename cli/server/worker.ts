/** `worker`: a process that only delivers notifications and mail. */
import type { RequestListener } from "node:http";
import { startWorker } from "../../notifier/worker.ts";
import type { Run } from "../program/command.ts";
import { FAILED } from "../program/command-failure.ts";
import type { Environment } from "../../config/environment.ts";
import { type ConfigFile, readWorkerConfig } from "./config-file.ts";
import { METRICS_PORT, metricsPlace, monitoringListener } from "./monitoring.ts";
import { type Closable, type Opened, untilStopped } from "./opened.ts";
import { onReloadSignal, Reloadable } from "./reload.ts";

/** How long requests for health or metrics may take when the process stops. */
const METRICS_DRAIN_MS = 5_000;

interface Worker extends Closable {
  readonly monitor: RequestListener;
}

export const worker: Run = async (args, context) => {
  const { logLevel } = context.environment();
  const read = (): Promise<ConfigFile> => readWorkerConfig(args, context);
  const { signal } = context;
  return (await untilStopped(signal, (opened) => start(opened, { read, logLevel }))) ? 0 : FAILED;
};

interface Start extends Pick<Environment, "logLevel"> {
  readonly read: () => Promise<ConfigFile>;
}

async function start(opened: Opened, { read, logLevel }: Start): Promise<void> {
  const signal = onReloadSignal();
  opened.add({ close: async () => signal.end() });
  const logger = opened.openLog("sign-in-worker", logLevel);
  async function open({ configuration }: ConfigFile): Promise<Worker> {
    const opens = await startWorker({ ...configuration, logger });
    return { monitor: monitoringListener(opens, configuration.metrics?.token), close: () => opens.close() };
  }
  const file = await read();
  const place = metricsPlace(file.configuration);
  const monitoring =
    place &&
    (await opened.listen(place.port, place.host, { drainMs: METRICS_DRAIN_MS, words: METRICS_PORT }));
  const running = await open(file);
  const use = ({ monitor }: Worker): void => monitoring?.serve(monitor);
  use(running);
  const reloadable = opened.add(new Reloadable({ running, file, logger, read, open, use }));
  if (monitoring !== undefined) opened.say(`health and metrics on port ${monitoring.port}`);
  opened.say("delivering");
  signal.use(() => reloadable.reload());
}
