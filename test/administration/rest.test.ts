/** The REST API: addresses, input, answers and problem documents. */
import { describe, expect, it } from "@jest/globals";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send, type Sent } from "./stage.ts";

const stage = beforeTests(async () => {
  const opened = await openAdministration();
  await opened.directory.services.put("news", { name: "News", roles: ["editor"] });
  const { sub } = await opened.accounts.create({ email: "ada@example.com", name: "Ada" });
  return { ...opened, sub };
});
const administrator: Send = (...args) => stage.as({ role: "administrator" })(...args);

/** Requests, and the status and the code of the answer. */
type Case = readonly [method: string, path: string, sent: Sent, status: number, code?: string];

async function tried(send: Send, [method, path, sent]: Case): Promise<readonly unknown[]> {
  const { status, body } = await send(method, path, sent);
  return [method, path, status, body.code];
}

const b64 = (text: string): string => `b64:${Buffer.from(text).toString("base64url")}`;

describe("an address of the REST API", () => {
  it("answers with the record and its tag, and nothing keeps the answer [D-ADM-30, D-ADM-31]", async () => {
    const { status, headers, body } = await administrator("GET", `/v1/accounts/${stage.sub}`);
    expect([status, body]).toEqual([200, await stage.accounts.find(stage.sub)]);
    expect(headers).toMatchObject({
      "cache-control": "no-store",
      etag: expect.stringMatching(/^"[\w-]{43}"$/u),
    });
    expect(stage.templates.at(-1)).toBe("/v1/accounts/{sub}");
    const head = await administrator("HEAD", `/v1/accounts/${stage.sub}`);
    expect([head.status, head.text, head.headers.etag]).toEqual([200, "", headers.etag]);
  });

  it("is matched on the raw path, each segment decoded once, or written in Base64url [D-ADM-32]", async () => {
    const identifier = "https://api.example.com/a%2Fb";
    const api = { identifier, name: "Raw", service: "news", scopes: { read: "Read" } };
    const made = await administrator("POST", "/v1/apis", { body: api });
    expect([made.status, made.headers.location]).toEqual([201, `/v1/apis/${b64(identifier)}`]);
    for (const segment of [encodeURIComponent(identifier), b64(identifier)]) {
      const { status, body } = await administrator("GET", `/v1/apis/${segment}`);
      expect([status, body]).toEqual([200, made.body]);
    }
    for (const segment of [
      "https://api.example.com/a%2Fb",
      encodeURIComponent("https://api.example.com/a/b"),
    ])
      expect(await administrator("GET", `/v1/apis/${segment}`)).toMatchObject({ status: 404 });
    expect(await administrator("DELETE", `/v1/apis/${b64(identifier)}`)).toMatchObject({ status: 204 });
  });

  const sub = "0f8fad5b-d9cb-469f-a165-70867728950e";
  const body = { name: "X" };
  it.each<Case>([
    ["GET", "/v1/accounts/%00", {}, 400, "malformed_request"],
    ["GET", `/v1/accounts/${b64("a\0")}`, {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/%", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/%ff", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/%2e%2e", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/.", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/b64:", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/b64:YQ==", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/b64:_w", {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/b64:YR", {}, 400, "malformed_request"],
    ["GET", `/v1/accounts/${"a".repeat(5_000)}`, {}, 400, "malformed_request"],
    ["GET", "/v1/accounts/", {}, 404, "not_found"],
    ["GET", "/v1//accounts", {}, 404, "not_found"],
    ["GET", "/v1", {}, 404, "not_found"],
    ["GET", "/v1/", {}, 404, "not_found"],
    ["GET", "/v1/Accounts", {}, 404, "not_found"],
    ["GET", "/v1/tokens", {}, 404, "not_found"],
    ["GET", `/v1/accounts/${sub}/add-app`, {}, 404, "not_found"],
    ["POST", `/v1/accounts/${sub}/reset-recovery-codes`, {}, 404, "not_found"],
    ["GET", "/v1/constructor", {}, 404, "not_found"],
    ["GET", "/v1/__proto__/__proto__", {}, 404, "not_found"],
    ["GET", "/v1/accounts/__proto__", {}, 404, "not_found"],
    ["GET", `/v1/accounts/${sub}`, {}, 404, "not_found"],
    ["PATCH", `/v1/accounts/${sub}`, { body }, 404, "not_found"],
    ["DELETE", `/v1/accounts/${sub}`, {}, 404, "not_found"],
    ["PUT", "/v1/services/news", { body }, 405, "method_not_allowed"],
    ["OPTIONS", "/v1/accounts", {}, 405, "method_not_allowed"],
    ["TRACE", "/v1/accounts", {}, 405, "method_not_allowed"],
    ["GET", "/v1/accounts/search", {}, 405, "method_not_allowed"],
    ["POST", "/v1/openapi.json", {}, 405, "method_not_allowed"],
  ])("%s %s is refused [D-ADM-33]", async (...one) => {
    const [method, path, , status, code] = one;
    expect(await tried(administrator, one)).toEqual([method, path, status, code]);
  });

  it("names the methods that it takes", async () => {
    const { headers } = await administrator("DELETE", "/v1/accounts");
    expect(headers.allow).toBe("GET, HEAD, POST");
  });

  it("leads no script of another origin to an answer, and knows no cookies [D-ADM-34]", async () => {
    const headers = {
      Origin: "https://evil.example",
      Cookie: "token=sis_1",
      "Access-Control-Request-Method": "GET",
    };
    for (const [send, method] of [
      [administrator, "GET"],
      [administrator, "OPTIONS"],
      [stage.anybody, "OPTIONS"],
      [stage.anybody, "GET"],
    ] as const) {
      const answer = await send(method, `/v1/accounts/${stage.sub}`, { headers });
      const names = Object.keys(answer.headers);
      expect(names.filter((name) => name.startsWith("access-control-") || name === "set-cookie")).toEqual([]);
    }
    expect(await stage.anybody("GET", "/v1/accounts", { headers })).toMatchObject({ status: 401 });
  });

  it.each([
    ["no token", {}],
    ["an unknown one", { Authorization: "Bearer sis_unknown" }],
    ["half of one", { Authorization: "Bearer sis" }],
    ["another scheme", { Authorization: "Basic c2lzOnNpcw==" }],
    ["nothing after the scheme", { Authorization: "Bearer " }],
    ["two", { Authorization: "Bearer sis_a, Bearer sis_b" }],
    ["a long one", { Authorization: `Bearer sis_${"a".repeat(8_000)}` }],
    ["one of other characters", { Authorization: "Bearer sis_\u00e4" }],
  ])("answers nobody with %s, known address or not [D-ADM-35]", async (_what, headers) => {
    const answers = await Promise.all(
      [
        "/v1/accounts",
        "/v1/nothing",
        "/v1/accounts/%00",
        "/v1/openapi.json",
        `/v1/accounts?access_token=sis_1`,
      ].map((path) => stage.anybody("GET", path, { headers })),
    );
    for (const { status, headers: sent, body: problem } of answers) {
      expect([status, problem.code]).toEqual([401, "invalid_token"]);
      expect(sent["www-authenticate"]).toMatch(/^Bearer realm="/u);
    }
  });
});
