/** A process that delivers notifications and does nothing else: node examples/cluster/worker.ts --config FILE */
import { pino } from "pino";
import { readEnvironment } from "../../config/environment.ts";
import { createNotificationWorker, type NotificationWorker } from "../../notifier/index.ts";
import { readServiceConfig } from "../server/config-file.ts";
import { chosenFile } from "../server/example-config.ts";
import { endWith, MISUSED, StartFailure } from "../server/start-failure.ts";
import { onStopSignal } from "../server/stop-signals.ts";

const USAGE = `Usage: node examples/cluster/worker.ts --config FILE

Delivers what app processes with the same configuration have stored, until it is stopped.

  --config FILE  the configuration of the service
  --help         this text

Environment: LOG_LEVEL.
`;

let worker: NotificationWorker | undefined;
onStopSignal(async () => worker?.close());
try {
  const path = chosenFile(USAGE);
  if (path === undefined) throw new StartFailure("--config FILE is missing. See --help.", MISUSED);
  const config = await readServiceConfig(path);
  const logger = pino({ name: "sign-in-worker", level: readEnvironment().logLevel });
  worker = await createNotificationWorker({ ...config, logger });
  console.log("delivering");
} catch (error) {
  endWith(error);
}
