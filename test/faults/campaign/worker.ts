/** A notification worker process of a campaign. Arguments: its configuration as JSON, and its version. */
// Loads only a part of the library, because this process restarts every second.
import { createNotificationWorker } from "../../../notifier/start-worker.ts";
import { become } from "../../records/formats/planted-format.ts";
import { live } from "./child.ts";

await live(async () => {
  const config = JSON.parse(process.argv[2] ?? "");
  if (process.argv[3] === undefined) return createNotificationWorker(config);
  const through = await become(process.argv[3]);
  const [{ readConfiguration }, { startWorker }] = await Promise.all([
    import("../../../config/read.ts"),
    import("../../../notifier/worker.ts"),
  ]);
  return startWorker(readConfiguration(config), through);
});
