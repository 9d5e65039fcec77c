/** A process of its own that serves a storage: `node child.ts CONFIG`, in JSON. Says its port, and ends with its input. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { createSignInService } from "../../lib/service.ts";
import type { ProcessConfig } from "./processes.ts";

const config = JSON.parse(process.argv[2] ?? "") as ProcessConfig;
process.stdin.resume();
// All processes wait for this input, so that they start together.
console.log("ready");
await once(process.stdin, "data");
const service = await createSignInService(config);
const application = new Koa();
application.use(service.routes());
const answer = application.callback();
const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
await once(server, "listening");
console.log((server.address() as AddressInfo).port);
await once(process.stdin, "end");
server.close();
server.closeAllConnections();
await service.close();
