/** What the server waits for when it stops. */
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { listen, type Listener } from "../../../cli/server/listener.ts";

/** Milliseconds: longer than a test may take. */
const STOP_TIMEOUT_MS = 600_000;
const HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n";

let listener: Listener;
let socket: Socket;
let output: string;
beforeEach(async () => {
  listener = await listen(0, "127.0.0.1");
  output = "";
  socket = connect(listener.port, "127.0.0.1");
  socket.setEncoding("utf8").on("data", (text: string) => (output += text));
  await new Promise((resolve) => void socket.once("connect", resolve));
});
afterEach(() => void socket.destroy());

it.each([
  ["has sent nothing", ""],
  ["has sent a partial request", HEAD.slice(0, 30)],
])("it waits for no connection that %s", async (_what, text) => {
  socket.write(text);
  await listener.stop(STOP_TIMEOUT_MS);
});

it("a server that stops waits for a partly received request, its body and its response", async () => {
  const [arrived, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  listener.serve((request, response) => {
    request.resume().once("end", () => void answered.promise.then(() => response.end("answered")));
    arrived.resolve();
  });
  socket.write(HEAD.slice(0, 30));
  const stopped = listener.stop(STOP_TIMEOUT_MS);
  socket.write(HEAD.slice(30));
  await arrived.promise;
  // Longer than headers may take.
  setTimeout(() => socket.write("ab"), 1500);
  setTimeout(answered.resolve, 2000);
  await Promise.all([stopped, new Promise((resolve) => void socket.once("close", resolve))]);
  expect(output).toMatch(/^HTTP\/1\.1 200 [\s\S]*answered$/);
});

it("the last response on a connection says so, so that its client does not send another request", async () => {
  const [arrived, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  listener.serve((_request, response) => {
    arrived.resolve();
    void answered.promise.then(() => response.end("answered"));
  });
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await arrived.promise;
  const stopped = listener.stop(STOP_TIMEOUT_MS);
  answered.resolve();
  await Promise.all([stopped, new Promise((resolve) => void socket.once("close", resolve))]);
  expect(output).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\nConnection: close\r\n/);
});
