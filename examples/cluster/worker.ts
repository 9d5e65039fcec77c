/** A process that only delivers notifications: npx node examples/cluster/worker.ts --config FILE */
import { enableCompileCache } from "node:module";

// Compiling the sources is the slowest part of the start. From the second start on, it is read from Node's cache.
enableCompileCache();
const { deliver } = await import("./deliver.ts");
await deliver(process.argv.slice(2));
