/** A notification worker as a process of a campaign. Argument: its configuration, as JSON. */
// Not all of the library: this process is started every second.
import { createNotificationWorker } from "../../../notifier/start-worker.ts";
import { live } from "./child.ts";

await live(() => createNotificationWorker(JSON.parse(process.argv[2] ?? "")));
