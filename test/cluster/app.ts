/**
 * An app process of a cluster: answers HTTP, and changes accounts on request. Argument: its configuration as JSON.
 * Sends its port, and a message for each HTTP request.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
import { createSignInService } from "../../lib/index.ts";
import { answer, type Order } from "../faults/campaign/app.ts";
import { live } from "../faults/campaign/child.ts";

await live(async () => {
  const service = await createSignInService({
    ...JSON.parse(process.argv[2] ?? ""),
    // For reading when a test fails.
    logger: pino({ level: "warn" }, pino.destination({ dest: 2, sync: true })),
  });
  process.on("message", (order: Order) => void answer(service, order));
  const application = new Koa();
  application.use((_ctx, next) => {
    process.send?.("request");
    return next();
  });
  application.use(service.routes());
  const handle = application.callback();
  // The proxy closes connections. Otherwise the server could close one while the next request is sent on it.
  const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    void handle(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  process.send?.({ port: (server.address() as AddressInfo).port });
  return {
    async close() {
      server.close();
      await service.close();
      // Also those that were busy a moment ago.
      server.closeIdleConnections();
    },
  };
});
