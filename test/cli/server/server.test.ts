/** `npm start -- --config FILE`: the bundled server in operation. */
import { connect } from "node:net";
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../../testing/browser/browser.ts";
import { freePorts } from "../../examples/processes.ts";
import { configuration, Servers, SECRET } from "../../examples/servers.ts";

const servers = new Servers();

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

describe("a running server", () => {
  it("applies the seed, and keeps its data over a restart", async () => {
    const first = await servers.serve();
    const browser = new Browser({ stopAt: "http://127.0.0.1:3001/" });
    await browser.get(`${first.url}/oauth2/authorize?client_id=news&response_type=code&state=x%20y`);
    await browser.submit(browser.form("password"), { username: "ada", password: "analytical-engine" });
    expect(browser.location?.searchParams.get("state")).toBe("x y");
    expect((await password(first.url)).status).toBe(200);
    await expect(first.server.stop()).resolves.toBe(0);
    const second = servers.run(["--config", "config.json"]);
    await second.until(/listening on/);
    expect((await password(first.url)).status).toBe(200);
  });

  it("logs one JSON line per request: method, path without the query, status, time", async () => {
    const { server, url } = await servers.serve();
    await password(url, { password: "wrong-password" });
    await fetch(`${url}/oauth2/authorize?client_id=news&response_type=code&state=hidden-state`);
    await fetch(`${url}/account/people/hidden-sub`);
    await fetch(`${url}/nothing/here?token=hidden-token`);
    await server.until(/nothing\/\*/);
    const lines = server
      .output()
      .trimEnd()
      .split("\n")
      .filter((line) => line.startsWith("{"));
    const requests = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request");
    expect(requests).toEqual(
      [
        ["POST", "/oauth2/token", 400],
        ["GET", "/oauth2/authorize", 303],
        // A browser would have sent the cookie.
        ["GET", "/interaction/:uid", 400],
        ["GET", "/account/*", 404],
        ["GET", "/nothing/*", 404],
      ].map(([method, path, status]) =>
        expect.objectContaining({ method, path, status, ms: expect.any(Number) }),
      ),
    );
    expect(server.output()).not.toMatch(/hidden|wrong-password|analytical|a secret of/);
  });

  it("listens on --port, which overrides the environment and the file", async () => {
    const port = await freePorts(4);
    const file = servers.write({ ...configuration(`http://127.0.0.1:${port}`), port });
    const byEnvironment = servers.run(["--config", file], { env: { PORT: `${port + 1}` } });
    await byEnvironment.until(new RegExp(`listening on port ${port + 1} `));
    await byEnvironment.stop();
    const byArgument = servers.run(["--config", file, "--port", `${port + 2}`], {
      env: { PORT: `${port + 1}` },
    });
    await byArgument.until(new RegExp(`listening on port ${port + 2} `));
  });

  it("finishes running requests on SIGTERM, and accepts no new ones", async () => {
    const { server, port, url } = await servers.serve();
    const body = "grant_type=password&client_id=news&username=ada&password=analytical-engine&client_secret=";
    const rest = new URLSearchParams({ s: SECRET }).toString().slice(2);
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
    const closed = new Promise((resolve) => void socket.once("close", resolve));
    const length = body.length + rest.length;
    const head = `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${length}\r\n\r\n`;
    await new Promise<void>((resolve) => void socket.write(head + body, () => resolve()));
    // When a later request on another connection has its response, this one is running.
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

  it("exits immediately on a second signal", async () => {
    const { server, port } = await servers.serve();
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await new Promise<void>(
      (resolve) => void socket.write("POST /oauth2/token HTTP/1.1\r\nHost: x\r\n", () => resolve()),
    );
    // An immediate second signal counts as the same one, forwarded by npm. So repeat it until it counts.
    const repeat = setInterval(() => process.kill(server.pid, "SIGTERM"), 100);
    const how = await server.ended;
    clearInterval(repeat);
    socket.destroy();
    expect(how).toBe(143);
  });
});
