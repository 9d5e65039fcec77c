/** Slow and missing bodies, and the time limit of requests. */
import { connect, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { basic } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, CALLBACK, NEWS, useService } from "../flows/running-service.ts";
import { accountParts, fillConsole, WITH_CONSOLE } from "./account-samples.ts";
import { rawRequest } from "./raw.ts";
import { judge } from "./verdict.ts";

/** The service's time limit for a request after its body, in milliseconds. */
const FAULT = 5_000;
let watched: WatchedStorage;
const faults: unknown[] = [];

const running = useService({
  logsErrors: true,
  config: WITH_CONSOLE,
  storage: (opened) => (watched = new WatchedStorage(opened)).storage,
});
const party = clientAt(running, "oauth2", NEWS);

beforeAll(() => {
  running.service.events.on("fault", (fault) => void faults.push(fault));
});

/** A request whose body is sent by the test. */
interface SlowRequest {
  send(bytes: string): void;
  /** The response, after the server has closed the connection. */
  readonly answer: Promise<{
    readonly status: number;
    readonly headers: Map<string, string>;
    readonly body: string;
  }>;
}

function begin(path: string, length: number, headers: Readonly<Record<string, string>>): SlowRequest {
  const socket: Socket = connect(Number(new URL(running.origin).port), "127.0.0.1");
  const type = "application/x-www-form-urlencoded";
  const head = { "Content-Type": type, "Content-Length": String(length), ...headers };
  socket.write(rawRequest("POST", path, head));
  let text = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  // Data after the end of the connection causes a reset.
  socket.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
  return {
    send: (bytes) => void socket.write(bytes),
    answer: closed.then(() => {
      const [top = "", body = ""] = text.split("\r\n\r\n", 2);
      const [first = "", ...lines] = top.split("\r\n");
      const named = lines.map((line) => line.split(/: (.*)/s, 2) as [string, string]);
      const all = new Map(named.map(([name, value]) => [name.toLowerCase(), value]));
      return { status: Number(first.split(" ")[1]), headers: all, body };
    }),
  };
}

/** Sends the first ten bytes of a code exchange. */
function beginExchange(code: string) {
  const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
  const body = new URLSearchParams(fields).toString();
  const request = begin("/oauth2/token", body.length, { authorization: basic(NEWS) });
  request.send(body.slice(0, 10));
  return { answer: request.answer, sendRest: () => request.send(body.slice(10)) };
}

const password = new URLSearchParams({
  grant_type: "password",
  username: ADA.username,
  password: ADA.password,
}).toString();

describe("a slow body", () => {
  it("may take longer than the time limit of the service", async () => {
    const request = begin("/oauth2/token", password.length, { authorization: basic(NEWS) });
    for (const at of [0, 20, 40]) {
      await wait(FAULT / 3 + 100);
      request.send(password.slice(at, at + 20));
    }
    request.send(password.slice(60));
    expect(await request.answer).toMatchObject({ status: 200 });
    expect(faults).toEqual([]);
  });

  it("does not shorten the time limit of the service: a later fault is 503, and nothing is written [D-TOKEN-5]", async () => {
    const code = await party.code(ADA);
    const request = beginExchange(code);
    await wait(FAULT + 500);
    const commit = watched.hold("artifacts.commit");
    request.sendRest();
    await commit.reached;
    const { status, headers } = await request.answer;
    expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
    // The storage gets the call after its deadline, so the code is still valid.
    commit.release();
    expect((await party.exchange(code)).status).toBe(200);
    expect(faults.splice(0)).toEqual([expect.objectContaining({ code: "storage_unavailable" })]);
  });

  it("does not make a replay of its code a concurrent exchange", async () => {
    const code = await party.code(ADA);
    const request = beginExchange(code);
    const { access_token } = (await party.exchange(code)).body as { access_token: string };
    expect((await party.userinfo(access_token)).status).toBe(200);
    await wait(1_500);
    request.sendRest();
    expect(JSON.parse((await request.answer).body)).toMatchObject({ error: "invalid_grant" });
    expect((await party.userinfo(access_token)).status).toBe(400);
  });
});

describe("a body that never arrives", () => {
  it("is refused as a client error, and the connection is closed [D-TOKEN-2]", async () => {
    const browser = await party.browser().get(party.authorizeUrl());
    const { pathname } = browser.url;
    const cookie = browser.jar.header(browser.url);
    const deliveries = await fillConsole(running);
    const forms = (await accountParts(running, running.oauth2, deliveries)).filter(({ form }) => form);
    const html = { accept: "text/html" };
    const requests: [path: string, headers: Record<string, string>][] = [
      ["/oauth2/token", { authorization: basic(NEWS) }],
      ["/oauth2/revoke?client_id=news", { authorization: basic(NEWS) }],
      ["/openid/oauth2/par", { authorization: basic(NEWS) }],
      ["/openid/oauth2/introspect", { authorization: basic(NEWS) }],
      ["/openid/oauth2/userinfo", {}],
      ["/oauth2/logout/confirm", { ...html, cookie }],
      [pathname, { ...html, cookie }],
      [pathname, { cookie }],
      ...forms.map(
        ({ path, headers }) => [path, { ...html, ...headers }] as [string, Record<string, string>],
      ),
    ];
    const logged = running.log.length;
    const begun = requests.map(([path, headers]) => {
      // The connection would be kept without `Connection: close`.
      const request = begin(path, 100, { ...headers, Connection: "keep-alive" });
      request.send("grant_type=pass");
      return request;
    });
    const answers = await Promise.all(begun.map(({ answer }) => answer));
    const found = answers.map(({ status, headers, body }, i) => {
      const { faults: wrong, error } = judge(status, headers, body);
      return [requests[i]?.[0], status, headers.get("connection"), error, wrong];
    });
    expect(found).toEqual(
      requests.map(([path, { accept }]) => [
        path,
        400,
        "close",
        accept === undefined ? "invalid_request" : "page",
        [],
      ]),
    );
    expect(faults).toEqual([]);
    const since = running.log.slice(logged);
    expect(since.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    // The form still works.
    await signIn(browser);
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{20,}$/);
  });
});
