/** The worker in a separate process, whose memory is measured. */
import { pino } from "pino";
import type { SignInServiceConfig } from "../../lib/index.ts";
import { createNotificationWorker } from "../../notifier/index.ts";
import { live } from "./live.ts";

const { config } = JSON.parse(process.argv[2] ?? "{}") as { readonly config: SignInServiceConfig };
const worker = await createNotificationWorker({
  ...config,
  logger: pino({ level: "warn" }, pino.destination(2)),
});
live({}, () => worker.close());
