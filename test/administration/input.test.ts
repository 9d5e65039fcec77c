/** What the REST API takes from a request, and the problem documents of what it refuses. */
import { describe, expect, it } from "@jest/globals";
import { ERRORS } from "../../core/errors.ts";
import { PROBLEMS, TITLES } from "../../administration/rest/problems.ts";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send, type Sent } from "./stage.ts";

const stage = beforeTests(async () => {
  const opened = await openAdministration();
  await opened.directory.services.put("news", { name: "News", roles: ["editor"] });
  const { sub } = await opened.accounts.create({ email: "ada@example.com", name: "Ada" });
  await opened.accounts.assign(sub, "news");
  await opened.clients.register({
    client_id: "news",
    name: "News",
    service: "news",
    redirect_uris: ["https://news.example/callback"],
  });
  return { ...opened, sub };
});
const administrator: Send = (...args) => stage.as({ role: "administrator" })(...args);
const path = (given: string): string => given.replace("SUB", stage.sub);

describe("the query", () => {
  it.each([
    ["limit=0", "limit"],
    ["limit=201", "limit"],
    ["limit=1.5", "limit"],
    ["limit=1e1", "limit"],
    ["limit=", "limit"],
    ["limit=10&limit=10", "limit"],
    ["disabled=yes", "disabled"],
    ["disabled=TRUE", "disabled"],
    ["after=sub", "after"],
    ["color=red", undefined],
    ["__proto__=red", undefined],
    ["constructor=red", undefined],
    ["Limit=10", undefined],
  ])("%s is refused [D-ADM-36]", async (query, parameter) => {
    const { status, body } = await administrator("GET", `/v1/accounts?${query}`);
    expect([status, body.code]).toEqual([422, "invalid_argument"]);
    expect(body.errors).toEqual([
      { ...(parameter !== undefined && { parameter }), detail: expect.stringMatching(/^\S.*[^.]$/u) },
    ]);
  });

  it.each([
    ["GET", "/v1/accounts/SUB?color=red", undefined],
    ["GET", "/v1/accounts/SUB/factors?limit=1", undefined],
    ["DELETE", "/v1/accounts/SUB/factors?factor=app", undefined],
    ["POST", "/v1/accounts/SUB/disable", { reason: "red" }],
    ["POST", "/v1/accounts/SUB/enable", { "": 1 }],
    ["POST", "/v1/accounts/SUB/send-reset", { email: "thief@example.com" }],
  ])("%s %s is refused: it takes no input [D-ADM-36]", async (method, target, body) => {
    const answer = await administrator(method, path(target), { ...(body && { body }) });
    expect([answer.status, answer.body.code]).toEqual([422, "invalid_argument"]);
    expect((await administrator("GET", path("/v1/accounts/SUB"))).body).toMatchObject({ disabled: false });
  });

  it.each(["search=%00", "search=%", "search=%ff", "a%00b=1"])("%s can't be read", async (query) => {
    const { status, body } = await administrator("GET", `/v1/accounts?${query}`);
    expect([status, body.code]).toEqual([400, "malformed_request"]);
  });

  it("holds texts, numbers, answers and lists by the form of the member [D-ADM-36]", async () => {
    await stage.accounts.create({ email: "grace@example.com" });
    const { items } = (await administrator("GET", "/v1/accounts?limit=1&disabled=false")).body;
    expect(items).toHaveLength(1);
    const since = await administrator("GET", "/v1/audit?since=1&action=account.created");
    expect(since.body.items).toHaveLength(2);
    const removed = await administrator(
      "DELETE",
      path("/v1/accounts/SUB/services?services=news&services=shop"),
    );
    expect(removed.status).toBe(204);
    expect(await stage.accounts.find(stage.sub)).toMatchObject({ services: {} });
  });

  it("is no place for the input of a change, nor the body for that of a removal", async () => {
    const change = await administrator("PATCH", path("/v1/accounts/SUB?name=Ada"), { body: {} });
    expect([change.status, change.body.code]).toEqual([422, "invalid_argument"]);
    const removal = await administrator("DELETE", path("/v1/accounts/SUB/services"), {
      body: { services: ["news"] },
    });
    expect([removal.status, removal.body.code]).toEqual([400, "malformed_request"]);
  });
});

describe("the body", () => {
  const nested = `${'{"attributes":'.repeat(30)}1${"}".repeat(30)}`;
  it.each<readonly [what: string, sent: Sent, status: number, code: string]>([
    ["no JSON", { body: "{" }, 400, "malformed_request"],
    ["a NUL", { body: '{"name":"a\\u0000b"}' }, 400, "malformed_request"],
    ["a NUL in a name", { body: '{"na\\u0000me":"b"}' }, 400, "malformed_request"],
    ["a NUL inside", { body: '{"attributes":{"a":["\\u0000"]}}' }, 400, "malformed_request"],
    ["JSON that is too deep", { body: nested }, 400, "malformed_request"],
    ["a list", { body: "[]" }, 422, "invalid_argument"],
    ["a text", { body: '"name"' }, 422, "invalid_argument"],
    ["null", { body: "null" }, 422, "invalid_argument"],
    ["an unknown member", { body: { nam: "Ada" } }, 422, "invalid_argument"],
    ["__proto__", { body: '{"__proto__":{"name":"Ada"}}' }, 422, "invalid_argument"],
    ["a __proto__ inside", { body: '{"attributes":{"__proto__":"x"}}' }, 422, "invalid_argument"],
    ["constructor", { body: { constructor: "Ada" } }, 422, "invalid_argument"],
    ["toString", { body: { toString: "Ada" } }, 422, "invalid_argument"],
    ["a wrong form", { body: { email: 1 } }, 422, "invalid_argument"],
    [
      "a form",
      { body: "name=Ada", headers: { "Content-Type": "application/x-www-form-urlencoded" } },
      415,
      "unsupported_media_type",
    ],
    [
      "a text that is JSON",
      { body: "{}", headers: { "Content-Type": "text/plain" } },
      415,
      "unsupported_media_type",
    ],
    [
      "a merge patch",
      { body: "{}", headers: { "Content-Type": "application/merge-patch+json" } },
      415,
      "unsupported_media_type",
    ],
    [
      "another character set",
      { body: "{}", headers: { "Content-Type": "application/json; charset=utf-16" } },
      415,
      "unsupported_media_type",
    ],
    [
      "something compressed",
      { body: "{}", headers: { "Content-Encoding": "gzip" } },
      415,
      "unsupported_media_type",
    ],
    ["10 MB", { body: `{"name":"${"a".repeat(10_000_000)}"}` }, 413, "body_too_large"],
    [
      "more than it says",
      {
        body: `{"name":"${"a".repeat(300_000)}"}`,
        headers: { "Transfer-Encoding": "chunked" },
      },
      413,
      "body_too_large",
    ],
  ])("with %s is refused, and changes nothing [D-ADM-37]", async (_what, sent, status, code) => {
    const before = await stage.accounts.find(stage.sub);
    const answer = await administrator("PATCH", path("/v1/accounts/SUB"), sent);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(await stage.accounts.find(stage.sub)).toEqual(before);
    expect(({} as { readonly name?: unknown }).name).toBeUndefined();
  });

  it("may be missing where nothing is needed", async () => {
    const { status, body } = await administrator("POST", path("/v1/accounts/SUB/disable"));
    expect([status, body["disabled"]]).toEqual([200, true]);
    const typed = { headers: { "Content-Type": "application/json; charset=UTF-8" }, body: "{}" };
    expect(await administrator("POST", path("/v1/accounts/SUB/enable"), typed)).toMatchObject({
      status: 200,
    });
  });

  it("holds pictures in Base64, and the name of what is made", async () => {
    const png = Buffer.from("89504e470d0a1a0a0000", "hex").toString("base64");
    const logo = await administrator("PATCH", "/v1/clients/news", { body: { logo: png } });
    expect([logo.status, logo.body["logo"]]).toEqual([
      200,
      { type: "image/png", sha256: expect.any(String) },
    ]);
    for (const wrong of ["", "AAAA", `${png} `, "no base64!"]) {
      const { status, body } = await administrator("PATCH", "/v1/clients/news", { body: { logo: wrong } });
      expect([wrong, status, body.errors]).toEqual([
        wrong,
        422,
        [expect.objectContaining({ pointer: "/logo" })],
      ]);
    }
    for (const [body, pointer] of [
      [{ name: "Shop" }, "/key"],
      [{ name: "Shop", key: 1 }, "/key"],
      [{ name: "Shop", key: "a/b" }, "/key"],
      [{ key: "shop" }, "/name"],
    ] as const) {
      const answer = await administrator("POST", "/v1/services", { body });
      expect([body, answer.status, answer.body.errors]).toEqual([
        body,
        422,
        [{ pointer, detail: expect.any(String) }],
      ]);
    }
    const made = await administrator("POST", "/v1/services", { body: { key: "shop", name: "Shop" } });
    expect([made.status, made.headers.location, made.body["key"]]).toEqual([
      201,
      "/v1/services/shop",
      "shop",
    ]);
  });
});

describe("a problem document", () => {
  it("says what is wrong where, and repeats no value [D-ADM-38]", async () => {
    const secret = "a secret in the wrong place";
    const body = { email: secret, attributes: { [secret]: secret }, [secret]: 1, portal: "unknown-portal" };
    const {
      status,
      headers,
      text,
      body: problem,
    } = await administrator("PATCH", path("/v1/accounts/SUB"), { body });
    expect([status, headers["content-type"]]).toEqual([
      422,
      expect.stringContaining("application/problem+json"),
    ]);
    expect(headers["cache-control"]).toBe("no-store");
    expect(text).not.toContain(secret);
    expect(problem).toMatchObject({
      type: "urn:sign-in-service:problem:invalid_argument",
      title: TITLES.invalid_argument,
      status: 422,
      code: "invalid_argument",
      request_id: "request",
    });
    expect(problem.errors).toContainEqual({ pointer: "/email", detail: expect.any(String) });
    const unknown = await administrator("PATCH", path("/v1/accounts/SUB"), {
      body: { portal: "unknown-portal" },
    });
    expect([unknown.status, unknown.body.code]).toEqual([422, "unknown_reference"]);
    expect(unknown.text).not.toContain("unknown-portal");
    const taken = await administrator("POST", "/v1/accounts", { body: { email: "ada@example.com" } });
    expect([taken.status, taken.body.code]).toEqual([409, "name_taken"]);
    expect(taken.text).not.toContain("ada@");
    const weak = await administrator("POST", "/v1/accounts", {
      body: { email: "x@example.com", password: "password" },
    });
    expect([weak.status, weak.body.code, weak.body["detail"]]).toEqual([
      422,
      "invalid_password",
      expect.any(String),
    ]);
  });

  it("names what refers to a record", async () => {
    const { status, body } = await administrator("DELETE", "/v1/services/news");
    expect([status, body.code, body["references"]]).toEqual([409, "still_referenced", ["client:news"]]);
  });

  it("has the status of the library's code, and a title for each", () => {
    expect(PROBLEMS).toMatchObject(ERRORS);
    expect(Object.keys(TITLES).toSorted()).toEqual(Object.keys(PROBLEMS).toSorted());
    expect(new Set(Object.values(TITLES)).size).toBe(Object.keys(TITLES).length);
  });
});
