import { beforeAll, describe, expect, it } from "@jest/globals";
import { basic } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS } from "../flows/running-service.ts";
import { targetsOf } from "./account-samples.ts";
import { useObserved } from "./observed-service.ts";
import { breakOff, rawRequest, type RawAnswer, sendRaw } from "./raw.ts";
import { judge, PLANTED } from "./verdict.ts";

const FORM = "application/x-www-form-urlencoded";
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"];

const { running, port, raw, authorizePath } = useObserved();

/** The status and the problems of a response. */
const verdictOn = ({ status, headers, body }: RawAnswer): unknown => [
  status,
  judge(status, headers, body).faults,
];
const refresh = "grant_type=refresh_token&refresh_token=unknown";
const tokenHeaders = { authorization: basic(NEWS), "content-type": FORM };

beforeAll(async () => {
  // Without an API, introspection on oauth2 is left to the host application.
  const api = { name: "API", service: "1", scopes: { read: "Read" } };
  await running.service.directory.apis.put("https://api.example", api);
});

describe("methods", () => {
  it("other than the documented ones are 405 with Allow and a JSON body, including HEAD [D-DEPLOY-7, D-DEPLOY-8, D-DEPLOY-11]", async () => {
    const wrong: unknown[] = [];
    for (const { kind, path, methods, target } of targetsOf(running)) {
      for (const method of METHODS.filter((one) => !methods.includes(one))) {
        const { status, headers, body } = await raw(method, target);
        const expected = method === "HEAD" ? "" : "invalid_request";
        const error = body === "" ? "" : (JSON.parse(body) as { error: string }).error;
        const right =
          status === 405 &&
          headers.get("allow") === methods.join(", ") &&
          headers.get("content-type") === "application/json; charset=utf-8" &&
          error === expected;
        if (!right) wrong.push([method, kind, path, status, headers.get("allow"), body]);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("that are wrong have no effect: no cookie, no sign-in, no revocation", async () => {
    const news = clientAt(running, "oauth2", NEWS);
    const { access_token } = await news.signIn(ADA);
    for (const method of ["HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const headers = { authorization: `Bearer ${access_token}` };
      expect((await raw(method, "/oauth2/revoke?client_id=news", headers)).status).toBe(405);
      expect((await raw(method, authorizePath("oauth2"))).headers.has("set-cookie")).toBe(false);
    }
    expect((await news.userinfo(access_token)).status).toBe(200);
  });
});

const chunked = (headers: Record<string, string> = {}): string =>
  rawRequest("POST", "/oauth2/token", { ...tokenHeaders, ...headers, "Transfer-Encoding": "chunked" });

describe("bodies", () => {
  it("without an end are refused at 64 KiB [D-TOKEN-8]", async () => {
    const chunk = `4000\r\n${"a".repeat(0x4000)}\r\n`;
    const answer = await sendRaw(port(), chunked(), (write) => {
      const timer = setInterval(() => write(chunk) || clearInterval(timer), 1);
    });
    expect(verdictOn(answer)).toEqual([400, []]);
  });

  it("are read in chunks, even of one byte", async () => {
    const bytes = refresh.replaceAll(/./g, "1\r\n$&\r\n");
    const answer = await sendRaw(port(), `${chunked()}${bytes}0\r\n\r\n`);
    expect(JSON.parse(answer.body)).toMatchObject({ error: "invalid_grant" });
  });

  it("that are incomplete, too long or framed twice are refused", async () => {
    const cut = rawRequest(
      "POST",
      "/oauth2/token",
      { ...tokenHeaders, "Content-Length": "5000" },
      "grant_type=",
    );
    await Promise.all(Array.from({ length: 5 }, () => breakOff(port(), cut)));
    const meanwhile = await clientAt(running, "oauth2", NEWS).refresh("unknown");
    expect(meanwhile.body["error"]).toBe("invalid_grant");
    const framed = [
      rawRequest("POST", "/oauth2/token", { ...tokenHeaders, "Content-Length": "3" }, `${refresh} `),
      rawRequest("POST", "/oauth2/token", { ...tokenHeaders, "Content-Length": "nonsense" }, refresh),
      rawRequest("POST", "/oauth2/token", { ...tokenHeaders, "Content-Length": "-1" }, refresh),
      rawRequest(
        "POST",
        "/oauth2/token",
        { ...tokenHeaders, "Content-Length": "10", "Transfer-Encoding": "chunked" },
        refresh,
      ),
      `${chunked()}nonsense\r\n`,
    ];
    for (const request of framed) expect((await sendRaw(port(), request)).status).toBe(400);
  });
});

const twice = (name: string, one: string, other: string): string =>
  rawRequest("POST", "/oauth2/token", { ...tokenHeaders, [name]: one }, refresh).replace(
    `${name}: ${one}\r\n`,
    `${name}: ${one}\r\n${name}: ${other}\r\n`,
  );

describe("headers", () => {
  it("that are many or large are accepted or refused", async () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`X-${index}`, "y"]));
    expect(verdictOn(await raw("POST", "/oauth2/token", { ...tokenHeaders, ...many }, refresh))).toEqual([
      400,
      [],
    ]);
    const cookies = Array.from({ length: 900 }, (_, index) => `c${index}=v`).join("; ");
    expect((await raw("GET", authorizePath("openid"), { Cookie: cookies })).status).toBe(303);
    expect((await raw("GET", "/resources/userinfo", { "X-Large": "y".repeat(20_000) })).status).toBe(431);
  });

  it("that are repeated never authenticate two clients or tokens", async () => {
    const wrong = `Basic ${Buffer.from("news:nonsense").toString("base64")}`;
    const answer = await sendRaw(port(), twice("authorization", wrong, basic(NEWS)));
    expect(JSON.parse(answer.body)).toMatchObject({ error: "invalid_client" });
    const types = await sendRaw(port(), twice("content-type", "application/json", FORM));
    expect(JSON.parse(types.body)).toMatchObject({ error: "invalid_request" });
  });

  it("never contain headers from a parameter [D-AUTHZ-10]", async () => {
    const planted = `&state=%0d%0aSet-Cookie:%20${PLANTED}=1%0d%0a%0d%0a%3Cscript%3E`;
    const target = authorizePath("oauth2").replace("response_type=code", "response_type=none");
    const { status, headers, body } = await raw("GET", `${target}${planted}`);
    expect([status, headers.get("set-cookie"), body]).toEqual([302, undefined, ""]);
    expect(new URL(headers.get("location") ?? "").searchParams.get("state")).toBe(
      `\r\nSet-Cookie: ${PLANTED}=1\r\n\r\n<script>`,
    );
    const login = await raw(
      "GET",
      `${authorizePath("oauth2")}${planted}&login_hint=%0d%0ax&ui_locales=%0d%0ax`,
    );
    expect(verdictOn(login)).toEqual([303, []]);
    expect(login.headers.get("location")).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/interaction\/[\w-]+$/);
  });

  it("with invalid bytes are refused", async () => {
    for (const target of [
      "/oauth2/authorize?state=a b",
      "/oauth2/authorize?state=\u00ff",
      "/oauth2/authorize?a=\0",
    ]) {
      expect((await raw("GET", target)).status).toBe(400);
    }
    for (const [name, value] of [
      ["Authorization", "Basic \0"],
      ["Cookie", "a=\u0001"],
      ["X\0", "y"],
    ] as const) {
      expect((await raw("GET", "/resources/userinfo?client_id=news", { [name]: value })).status).toBe(400);
    }
  });
});
