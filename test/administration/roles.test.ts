/** What each role may ask for, how much, and what the audit says of it. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { changes } from "../../accounts/operations/operation.ts";
import { ADDRESSES } from "../../administration/rest/addresses.ts";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send } from "./stage.ts";

const OPERATOR = "0f8fad5b-d9cb-469f-a165-70867728950e";

const stage = beforeTests(async () => {
  const opened = await openAdministration({ operators: { [OPERATOR]: "viewer" } });
  await opened.directory.services.put("news", { name: "News" });
  const password = "correct horse battery staple";
  await opened.accounts.import({ sub: OPERATOR, email: "operator@example.com", password });
  await opened.accounts.addApp(OPERATOR, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
  return opened;
});

const SUPPORT = { kind: "token", id: "tok_support" } as const;
const as = (
  role: "viewer" | "support" | "administrator" | "deliveries",
  actor: typeof SUPPORT | { readonly kind: "token"; readonly id: string } = SUPPORT,
): Send => stage.as({ role, actor });
const support: Send = (...args) => as("support")(...args);

let sub: string;
beforeEach(async () => {
  stage.taken.length = 0;
  stage.full.clear();
  ({ sub } = await stage.accounts.create({ email: `${crypto.randomUUID()}@example.com` }));
});

describe("a list of accounts", () => {
  it.each(["viewer", "support"] as const)(
    "needs a search term of a %s, and a filter is none [D-ADM-60]",
    async (role) => {
      for (const [method, path, sent] of [
        ["GET", "/v1/accounts", {}],
        ["GET", "/v1/accounts?service=news&disabled=false", {}],
        ["GET", "/v1/accounts?limit=200", {}],
        ["POST", "/v1/accounts/search", {}],
        ["POST", "/v1/accounts/search", { body: { portal: "main" } }],
      ] as const) {
        const { status, body } = await as(role)(method, path, sent);
        expect([path, status, body.code]).toEqual([path, 422, "search_required"]);
      }
      expect(await as(role)("GET", "/v1/accounts?search=operator%40example.com")).toMatchObject({
        status: 200,
      });
    },
  );

  it("needs none of an administrator", async () => {
    expect(await as("administrator")("GET", "/v1/accounts?limit=1")).toMatchObject({ status: 200 });
  });
});

describe("an account of an operator", () => {
  const ways = ADDRESSES.filter(
    ({ noun, row }) => noun === "accounts" && changes(row) && row.target[0] === "sub",
  );

  it("is changed in no way by support [D-ADM-61]", async () => {
    const before = [await stage.accounts.find(OPERATOR), await stage.accounts.factors(OPERATOR)];
    const codes: string[] = [];
    for (const { method, path, row } of ways) {
      const place = path.replace("{sub}", OPERATOR).replace(/\{\w+\}/u, "app");
      const { status, body } = await support(method, place, method === "DELETE" ? {} : { body: {} });
      expect([path, status, body.code]).toEqual([
        path,
        403,
        row.role === "support" ? "operator_protected" : "role_required",
      ]);
      codes.push(body.code);
    }
    expect(codes.filter((code) => code === "operator_protected").length).toBeGreaterThanOrEqual(6);
    expect([await stage.accounts.find(OPERATOR), await stage.accounts.factors(OPERATOR)]).toEqual(before);
    expect(stage.taken).toEqual([]);
  });

  it("is read by support, and changed by administrators", async () => {
    expect(await support("GET", `/v1/accounts/${OPERATOR}`)).toMatchObject({ status: 200 });
    for (const verb of ["disable", "enable"])
      expect(await as("administrator")("POST", `/v1/accounts/${OPERATOR}/${verb}`)).toMatchObject({
        status: 200,
      });
  });
});

describe("what a token does", () => {
  it("is in the audit with the token and the request [D-ADM-62]", async () => {
    await support("POST", `/v1/accounts/${sub}/disable`);
    const { items } = await stage.calls.audit.list({ account: sub, action: "account.disabled" });
    expect(items).toMatchObject([{ actor: SUPPORT, request: "request" }]);
  });

  it("is in the audit once an hour for each account that it reads, in whatever way [D-ADM-63]", async () => {
    const views = async () =>
      (await stage.calls.audit.list({ account: sub, action: "account.viewed" })).items;
    for (const path of ["", "", "/factors", "/identities", "/sessions"])
      expect(await support("GET", `/v1/accounts/${sub}${path}`)).toMatchObject({ status: 200 });
    expect(await views()).toMatchObject([{ actor: SUPPORT, request: "request" }]);
    const other = { kind: "token", id: "tok_other" } as const;
    await as("viewer", other)("GET", `/v1/accounts/${sub}/factors`);
    expect(await views()).toMatchObject([{ actor: other }, { actor: SUPPORT }]);
    stage.clock.advance(3_601);
    await support("GET", `/v1/accounts/${sub}`);
    expect(await views()).toHaveLength(3);
    await support("GET", "/v1/accounts/0e02b2c3-0000-4000-8000-000000000000");
    expect((await stage.calls.audit.list({ account: "0e02b2c3-0000-4000-8000-000000000000" })).items).toEqual(
      [],
    );
  });

  it("counts: each account of a list, each account an hour, each change, each person who loses a factor [D-ADM-64]", async () => {
    for (let look = 0; look < 3; look += 1) await support("GET", `/v1/accounts/${sub}`);
    await support("GET", "/v1/accounts?search=operator%40example.com");
    await support("POST", `/v1/accounts/${sub}/disable`);
    await support("DELETE", `/v1/accounts/${sub}/factors`);
    expect(stage.taken).toEqual([
      ["accounts", 1],
      ["accounts", 1],
      ["changes", 1],
      ["changes", 1],
      ["people", sub],
    ]);
  });

  it("is refused before anything is shown or done when there was too much of it [D-ADM-64]", async () => {
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    for (const [full, method, path] of [
      ["accounts", "GET", `/v1/accounts/${sub}`],
      ["accounts", "GET", `/v1/accounts/${sub}/factors`],
      ["accounts", "GET", `/v1/accounts?search=${sub}`],
      ["changes", "POST", `/v1/accounts/${sub}/disable`],
      ["people", "DELETE", `/v1/accounts/${sub}/factors/app`],
      ["people", "DELETE", `/v1/accounts/${sub}/factors`],
    ] as const) {
      stage.full.clear();
      stage.full.add(full);
      for (let again = 0; again < 2; again += 1) {
        const { status, headers, body } = await support(method, path);
        expect([path, status, body.code, headers["retry-after"]]).toEqual([
          path,
          429,
          "limit_reached",
          "600",
        ]);
        expect(Object.keys(body).toSorted()).toEqual(["code", "request_id", "status", "title", "type"]);
      }
    }
    expect(await stage.accounts.find(sub)).toMatchObject({ disabled: false });
    expect(await stage.accounts.factors(sub)).toMatchObject({ app: expect.any(Object) });
  });

  it("reaches neither more rights, nor a secret, an address, an invitation or the whole of a service [D-ADM-65]", async () => {
    await stage.clients
      .register({ client_id: "c", name: "C", service: "news", redirect_uris: ["https://c.example/cb"] })
      .catch(() => undefined);
    for (const [method, path, body] of [
      ["PATCH", `/v1/accounts/${sub}`, { email: "thief@example.com" }],
      ["PATCH", `/v1/accounts/${sub}`, { email_verified: true }],
      ["POST", `/v1/accounts/${sub}/set-password`, { password: "a long password of the thief" }],
      ["POST", `/v1/accounts/${sub}/identities`, { provider: "google", subject: "thief" }],
      ["POST", `/v1/accounts/${sub}/assign`, { service: "news" }],
      ["DELETE", `/v1/accounts/${sub}`, undefined],
      ["POST", "/v1/accounts", { email: "thief@example.com" }],
      ["POST", "/v1/invitations", { email: "thief@example.com" }],
      ["POST", "/v1/clients", { name: "Thief", service: "news", redirect_uris: ["https://thief.example"] }],
      ["PATCH", "/v1/clients/c", { redirect_uris: ["https://thief.example"] }],
      ["POST", "/v1/clients/c/rotate-secret", {}],
      ["DELETE", "/v1/clients/c", undefined],
      ["DELETE", "/v1/services/news", undefined],
      ["POST", "/v1/keys/rotate", {}],
      ["POST", "/v1/deliveries/resume", {}],
    ] as const) {
      const { status, body: problem } = await support(method, path, body && { body });
      expect([method, path, status, problem.code]).toEqual([method, path, 403, "role_required"]);
    }
    for (const path of [
      "/v1/tokens",
      "/v1/operators",
      "/v1/configuration",
      "/v1/seed",
      "/v1/storage",
      "/v1/secrets",
    ])
      for (const method of ["GET", "POST"])
        expect(await as("administrator")(method, path)).toMatchObject({ status: 404 });
    const read = await support("GET", "/v1/clients/c");
    expect(read.text).not.toMatch(/secret/u);
  });

  it("is refused for its role before its body is read [D-ADM-65]", async () => {
    for (const body of ["{", `{"name":"${"a".repeat(1_000_000)}"}`])
      expect(await as("viewer")("PATCH", `/v1/accounts/${sub}`, { body })).toMatchObject({ status: 403 });
  });
});
