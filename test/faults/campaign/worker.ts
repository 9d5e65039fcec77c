/** A notification worker process of a campaign. Argument: its configuration as JSON. */
// Loads only a part of the library, because this process restarts every second.
import { createNotificationWorker } from "../../../notifier/start-worker.ts";
import { live } from "./child.ts";

await live(() => createNotificationWorker(JSON.parse(process.argv[2] ?? "")));
