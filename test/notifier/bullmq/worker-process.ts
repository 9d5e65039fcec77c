/** A notification worker as a process of its own. Argument: its configuration, as JSON. */
import type { SignInServiceConfig } from "../../../config/input.ts";
import { createNotificationWorker } from "../../../notifier/start-worker.ts";

const worker = await createNotificationWorker(JSON.parse(process.argv[2] ?? "") as SignInServiceConfig);
console.log("works");
process.once("SIGTERM", () => void worker.close());
