/**
 * A notification worker as a process of its own. Arguments: its configuration as JSON, and by how many milliseconds its
 * clock is ahead: what another worker has leased can then be taken over without waiting for it.
 */
import { createSystemClock } from "../../core/clock.ts";
import { createNotificationWorker } from "../../lib/index.ts";

const [, , config = "", ahead = "0"] = process.argv;
const system = createSystemClock();

const worker = await createNotificationWorker({
  ...JSON.parse(config),
  clock: { virtual: true, now: () => system.now() + Number(ahead) },
});
worker.events.on("delivery.succeeded", ({ id }) => console.log(`succeeded ${id}`));
console.log("ready");
process.once("SIGTERM", () => {
  console.log("ending");
  void worker.close().then(() => console.log("closed"));
});
