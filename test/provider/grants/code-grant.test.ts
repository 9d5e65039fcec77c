import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { createCodeExchanges } from "../../../provider/grants/code-grant.ts";
import { ManualClock } from "../../records/rules/stage.ts";

const clock = new ManualClock();
let server: Server;
let arrived: PromiseWithResolvers<ServerResponse>;
beforeEach(async () => {
  server = createServer((_request, response) => arrived.resolve(response));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => void server.close(resolve));
});

/** A request, and how its client hangs up. */
async function ask(): Promise<{ readonly response: ServerResponse; readonly hangUp: () => Promise<void> }> {
  arrived = Promise.withResolvers();
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.write("POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  const response = await arrived.promise;
  return {
    response,
    async hangUp() {
      const closed = new Promise((resolve) => void response.once("close", resolve));
      socket.destroy();
      await closed;
    },
  };
}

it.each([
  ["after", (begin: () => void, hangUp: () => Promise<void>) => (begin(), hangUp())],
  ["before", async (begin: () => void, hangUp: () => Promise<void>) => (await hangUp(), begin())],
])("a later exchange is a replay if the client of the first one hung up %s it began", async (_when, run) => {
  const exchanges = createCodeExchanges({ sinceAnswer: () => Promise.resolve(1000) }, clock);
  const code = { model: "AuthorizationCode", key: "code", payload: {}, expiresAt: clock.now() + 60_000 };
  const first = await ask();
  await run(() => void exchanges.begin(code, first.response, clock.now()), first.hangUp);
  clock.advance(1000);
  const later = await ask();
  const consumed = { ...code, consumedAt: 1 };
  await expect(exchanges.begin(consumed, later.response, clock.now())).resolves.toBe(false);
});
