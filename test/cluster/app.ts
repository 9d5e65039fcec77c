/**
 * An app process of a cluster: answers HTTP, and changes accounts as it is told. Arguments: its configuration as JSON,
 * and by how many milliseconds its clock is ahead. Says the port that it listens on, and when a request comes.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
import { createSystemClock } from "../../lib/clock.ts";
import { createSignInService } from "../../lib/index.ts";
import { answer, type Order } from "../faults/campaign/app.ts";
import { live } from "../faults/campaign/child.ts";

const [, , config = "", ahead = "0"] = process.argv;
const system = createSystemClock();

await live(async () => {
  const service = await createSignInService({
    ...JSON.parse(config),
    clock: { now: () => system.now() + Number(ahead) },
    // What it says is for who looks at a failed test.
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
  // The proxy closes connections, so that none is closed in the moment in which the next request is sent on it.
  const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    void handle(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  process.send?.({ port: (server.address() as AddressInfo).port });
  return {
    async close() {
      server.close();
      await service.close();
      // Those that were busy in the first moment, too.
      server.closeIdleConnections();
    },
  };
});
