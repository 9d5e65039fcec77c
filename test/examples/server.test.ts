/** `npm start -- --config FILE`: the server for people who run it. */
import { connect } from "node:net";
import { afterAll, afterEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../lib/testing/browser/browser.ts";
import { freePorts } from "./processes.ts";
import { configuration, Room, SECRET } from "./room.ts";

const room = new Room();
afterEach(() => room.stop());
afterAll(() => room.leave());

function password(url: string, fields: Record<string, string> = {}): Promise<Response> {
  const body = new URLSearchParams({
    grant_type: "password",
    client_id: "news",
    client_secret: SECRET,
    username: "ada",
    password: "analytical-engine",
    ...fields,
  });
  return fetch(`${url}/oauth2/token`, { method: "POST", body });
}

describe("a server that runs", () => {
  it("applies the seed and keeps what was done, also when it is started again", async () => {
    const first = await room.serve();
    const browser = new Browser({ stopAt: "http://127.0.0.1:3001/" });
    await browser.get(`${first.url}/oauth2/authorize?client_id=news&response_type=code&state=x%20y`);
    await browser.submit(browser.form("password"), { username: "ada", password: "analytical-engine" });
    expect(browser.location?.searchParams.get("state")).toBe("x y");
    expect((await password(first.url)).status).toBe(200);
    await expect(first.server.stop()).resolves.toBe(0);
    const second = room.run(["--config", "config.json"]);
    await second.until(/listening on/);
    expect((await password(first.url)).status).toBe(200);
  });

  it("logs one JSON line for each request: method, path without the query, status, time", async () => {
    const { server, url } = await room.serve();
    await password(url, { password: "wrong-password" });
    await fetch(`${url}/oauth2/authorize?client_id=news&response_type=code&state=hidden-state`);
    await fetch(`${url}/nothing/here?token=hidden-token`);
    await server.until(/nothing\/here/);
    const lines = server
      .said()
      .trimEnd()
      .split("\n")
      .filter((line) => line.startsWith("{"));
    const requests = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request");
    expect(requests).toEqual(
      [
        ["POST", "/oauth2/token", 400],
        ["GET", "/oauth2/authorize", 303],
        // A browser would have brought the cookie along.
        ["GET", "/interaction/:uid", 400],
        ["GET", "/nothing/here", 404],
      ].map(([method, path, status]) =>
        expect.objectContaining({ method, path, status, ms: expect.any(Number) }),
      ),
    );
    expect(server.said()).not.toMatch(/hidden|wrong-password|analytical|a secret of/);
  });

  it("listens where --port says, before the environment and the file", async () => {
    const port = await freePorts(3);
    const file = room.write({ ...configuration(`http://127.0.0.1:${port}`), port });
    const byEnvironment = room.run(["--config", file], { env: { PORT: `${port + 1}` } });
    await byEnvironment.until(new RegExp(`listening on port ${port + 1} `));
    await byEnvironment.stop();
    const byArgument = room.run(["--config", file, "--port", `${port + 2}`], {
      env: { PORT: `${port + 1}` },
    });
    await byArgument.until(new RegExp(`listening on port ${port + 2} `));
  });

  it("finishes the running request when it is told to stop, and takes no new one", async () => {
    const { server, port, url } = await room.serve();
    const body = "grant_type=password&client_id=news&username=ada&password=analytical-engine&client_secret=";
    const rest = new URLSearchParams({ s: SECRET }).toString().slice(2);
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
    const closed = new Promise((resolve) => void socket.once("close", resolve));
    const length = body.length + rest.length;
    const head = `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${length}\r\n\r\n`;
    await new Promise<void>((resolve) => void socket.write(head + body, () => resolve()));
    // The request is running when the next one, on another connection, has been answered.
    await fetch(`${url}/health`);
    const ended = server.stop();
    while (
      await fetch(`${url}/health`).then(
        (reply) => reply.status === 200,
        () => false,
      )
    );
    socket.write(rest);
    await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"token_type":"bearer"/);
    await expect(ended).resolves.toBe(0);
  });

  it("ends at once at a second signal", async () => {
    const { server, port } = await room.serve();
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await new Promise<void>(
      (resolve) => void socket.write("POST /oauth2/token HTTP/1.1\r\nHost: x\r\n", () => resolve()),
    );
    // A signal that follows at once is the same one, passed on by npm; so it is repeated until it counts.
    const repeat = setInterval(() => process.kill(server.pid, "SIGTERM"), 100);
    const how = await server.ended;
    clearInterval(repeat);
    socket.destroy();
    expect(how).toBe(143);
  });
});
