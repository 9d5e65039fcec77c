import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it } from "@jest/globals";
import { watchConnections } from "../../compat/connections.ts";
import { ManualClock } from "../records/rules/stage.ts";

describe("the start of a request", () => {
  it("is when its connection was accepted for the first one, at most a second earlier, or when it arrived", async () => {
    const clock = new ManualClock();
    const connections = watchConnections(clock);
    const ages: number[] = [];
    const server = createServer((req, res) => {
      ages.push(clock.now() - connections.underWaySince(req));
      res.end("ok");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const answer = async (waits: readonly number[]): Promise<void> => {
      const accepted = once(server, "connection");
      const socket = connect(port, "127.0.0.1");
      await accepted;
      for (const wait of waits) {
        clock.advance(wait);
        socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        await once(socket, "data");
      }
      socket.destroy();
    };
    // Kept and reused connections do not count.
    await answer([40, 40]);
    await answer([5_000]);
    connections.close();
    await answer([40]);
    server.close();
    expect(ages).toEqual([40, 0, 1_000, 0]);
  });
});
