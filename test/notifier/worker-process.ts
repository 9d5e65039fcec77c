/** A notification worker as a process of its own: `node worker-process.ts CONFIG`, the configuration as JSON. */
import { createNotificationWorker } from "../../lib/index.ts";

const worker = await createNotificationWorker(JSON.parse(process.argv[2] ?? "{}"));
worker.events.on("delivery.succeeded", ({ id }) => console.log(`succeeded ${id}`));
console.log("ready");
process.once("SIGTERM", () => {
  console.log("ending");
  void worker.close().then(() => console.log("closed"));
});
