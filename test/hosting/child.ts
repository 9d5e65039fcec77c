/** A process of its own that serves one database: `node child.ts DATABASE BASE_URL`. Says its port, and ends with its input. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { createSignInService } from "../../lib/service.ts";

const [, , database = "", base = ""] = process.argv;
process.stdin.resume();
// All processes wait for this input, so that they start together.
console.log("ready");
await once(process.stdin, "data");
const service = await createSignInService({
  storage: `sqlite:${database}`,
  deployments: { oauth2: { url: base }, openid: { url: `${base}/openid` } },
});
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
