/** `npm start`: runs the service with the demo or with your configuration. */
import { enableCompileCache } from "node:module";
import { readEnvironment } from "../../config/environment.ts";

// Compiling the sources is the slowest part of the start. From the second start on, it is read from Node's cache.
enableCompileCache();
const { start } = await import("./start.ts");
await start(process.argv.slice(2), readEnvironment);
