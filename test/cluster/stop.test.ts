/** An app process on MongoDB and Redis that is told to stop. */
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { CLIENTS } from "../faults/load.ts";
import { PASSWORD } from "../faults/stage.ts";
import { type App, Cluster, describeCluster, PATIENCE } from "./cluster.ts";

/** Whether it takes no new connection. */
function refuses({ port }: App): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(true));
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
  });
}

/** Begins a password grant at this process; what is sent with `end` is the rest of it. */
async function begin({ port }: App): Promise<{ end(): Promise<string> }> {
  const fields = { grant_type: "password", username: "ada", password: PASSWORD, ...CLIENTS[0] };
  const body = new URLSearchParams(fields).toString();
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
  const closed = new Promise((resolve) => void socket.once("close", resolve));
  const type = "Content-Type: application/x-www-form-urlencoded";
  const head = `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
  await new Promise<void>((resolve) => void socket.write(head + body.slice(0, -5), () => resolve()));
  return {
    async end() {
      socket.write(body.slice(-5));
      await closed;
      return answer;
    },
  };
}

describeCluster("a process that is told to stop", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.open(["ada"]);
  }, PATIENCE);
  afterAll(() => cluster.close());

  it(
    "answers what it has begun, takes nothing new, and ends by itself; the others go on",
    async () => {
      const [app] = cluster.apps as [App];
      const before = app.requests;
      const running = await begin(app);
      while (app.requests === before) await pause(5);
      const ended = app.member.stop();
      // It takes no more connections.
      while (!(await refuses(app))) await pause(20);
      expect(await running.end()).toMatch(/^HTTP\/1\.1 200 [\s\S]*"token_type":"bearer"/);
      await expect(ended).resolves.toBe(0);
      const others = await fetch(`${cluster.url}/openid/oauth2/jwks`);
      expect(others.status).toBe(200);
    },
    PATIENCE,
  );
});
