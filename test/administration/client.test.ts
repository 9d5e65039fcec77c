/** The typed client of the REST API, over a real service. */
import { spawn, spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { isOn } from "../../accounts/operations/operation.ts";
import { AdministrationError, createAdministrationClient } from "../../administration/index.ts";
import { type Noun, rowsOf, TABLES } from "../../administration/tables.ts";
import { atEnd } from "../closing.ts";
import { type AdministrationStage, openAdministration } from "./stage.ts";

const ROOT = join(import.meta.dirname, "../..");
const TOKEN = "sis_a-token-that-nobody-may-see";
const RECEIVER = {
  url: "https://news.example.com/notifications",
  client_id: "sign-in",
  client_secret: "a long random text",
  types: ["DELETE_ACCOUNT"],
} as const;

let stage: AdministrationStage;
let admin: ReturnType<typeof createAdministrationClient>;
/** What the client has asked for: method and address. */
const asked: string[] = [];

beforeAll(async () => {
  stage = await openAdministration();
  admin = createAdministrationClient({
    url: stage.base,
    token: stage.tokenOf({ role: "administrator" }),
    fetch: (address, init) => {
      const { pathname, search } = address as URL;
      asked.push(`${init?.method} ${pathname}${search}`);
      return fetch(address, init);
    },
  });
  await admin.services.create("news", { name: "News", roles: ["editor"], receiver: RECEIVER });
});

const refused = async (call: Promise<unknown>): Promise<AdministrationError> => {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(AdministrationError);
  return error as AdministrationError;
};

it("has exactly the operations that REST has [D-ADM-3]", () => {
  for (const noun of Object.keys(TABLES) as Noun[]) {
    const rows = Object.entries(rowsOf(noun)).filter(([, row]) => isOn(row, "rest"));
    expect([noun, Object.keys(admin[noun])]).toEqual([noun, rows.map(([verb]) => verb)]);
  }
});

it("takes the arguments of the library, and returns what it returns [D-ADM-3]", async () => {
  const { accounts, directory } = stage;
  const ada = await admin.accounts.create({ email: "ada@example.com", surname: "Lovelace" });
  expect(ada).toEqual(await accounts.find(ada.sub));
  expect(await admin.accounts.find(ada.sub)).toEqual(ada);
  expect(await admin.accounts.assign(ada.sub, "news", 7)).toMatchObject({ services: { news: 7 } });
  expect(await admin.accounts.setRoles(ada.sub, "news", ["editor"])).toMatchObject({
    roles: { news: ["editor"] },
  });
  expect(await admin.accounts.identities(ada.sub)).toEqual([]);
  expect(await admin.deliveries.explain({ account: ada.sub, type: "DELETE_ACCOUNT" })).toMatchObject([
    { receiver: "service:news", reason: "notified" },
  ]);
  expect(await admin.accounts.setPassword(ada.sub, "grapefruit under the stairs")).toBeUndefined();
  expect(await accounts.verifyPassword(ada.sub, "grapefruit under the stairs")).toBe(true);
  expect(await admin.accounts.unassign(ada.sub, ["news"])).toBe(true);
  expect(await admin.accounts.unassign(ada.sub, ["news"])).toBe(false);
  expect(await admin.accounts.delete(ada.sub)).toBe(true);
  expect(await admin.accounts.delete(ada.sub)).toBe(false);
  expect(await admin.accounts.find(ada.sub)).toBeUndefined();
  const api = { name: "Articles", service: "news", scopes: { read: "Read articles" } };
  expect(await admin.apis.create("https://api.example.com/a?b=%2F", api)).toMatchObject({
    tokens: "opaque",
  });
  const [found] = await directory.apis.list().then(({ items }) => items);
  expect(await admin.apis.find(found!.identifier)).toEqual(found);
  const client = {
    client_id: "~shop.1",
    name: "Shop",
    service: "news",
    redirect_uris: ["https://shop.example/cb"],
  };
  const { client_id, client_secret } = await admin.clients.register(client);
  expect(client_secret).toMatch(/^.{32,}$/u);
  const png = new Uint8Array(Buffer.from("\u0089PNG\r\n\u001a\n................", "latin1"));
  expect(await admin.clients.update(client_id, { logo: png })).toMatchObject({ logo: { type: "image/png" } });
  expect(await admin.clients.remove(client_id)).toBe(true);
});

it("walks the pages of a list, however long they are", async () => {
  for (const email of ["bea", "ben", "bob", "bo", "blu"])
    await admin.accounts.create({ email: `${email}@walk.example` });
  const walk = async (limit: number): Promise<string[]> => {
    const found: string[] = [];
    for await (const { email } of admin.accounts.list({ search: "walk", limit })) found.push(email);
    return found;
  };
  const all = await walk(200);
  expect(all).toHaveLength(5);
  expect(await walk(2)).toEqual(all);
  expect(await walk(1)).toEqual(all);
  const first = await admin.accounts.list({ search: "walk", limit: 3 });
  expect(first).toEqual({ items: expect.any(Array), next: expect.any(String) });
  const rest = await admin.accounts.list({ search: "walk", limit: 3, after: first.next! });
  expect([...first.items, ...rest.items].map(({ email }) => email)).toEqual(all);
  expect(rest.next).toBeNull();
  for await (const record of admin.audit.list({ action: "account.created", limit: 2 })) {
    expect(record.actor).toEqual({ kind: "token", id: "tok_1" });
    break;
  }
});

it("writes no term of a search into an address [D-ADM-4]", async () => {
  asked.length = 0;
  await admin.accounts.list({ search: "ada@example.com" });
  for await (const { email } of admin.accounts.list({ search: "walk", limit: 2 }))
    expect(email).toMatch(/walk/u);
  expect(asked.length).toBeGreaterThan(2);
  expect([...new Set(asked)]).toEqual(["POST /v1/accounts/search"]);
});

it("changes a record only in the state in which it was read", async () => {
  const { sub } = await admin.accounts.create({ email: "tag@example.com" });
  const read = (await admin.accounts.find(sub))!;
  const ifMatch = admin.etagOf(read);
  expect(ifMatch).toMatch(/^".+"$/u);
  const changed = await admin.accounts.update(sub, { name: "Ada" }, { ifMatch });
  expect(changed.name).toBe("Ada");
  expect(await refused(admin.accounts.update(sub, { name: "Bea" }, { ifMatch }))).toMatchObject({
    code: "stale",
    status: 412,
  });
  await admin.accounts.disable(sub, { ifMatch: admin.etagOf(changed) });
  const idempotencyKey = "one";
  const [one, two] = [
    await admin.accounts.create({ email: "key@example.com" }, { idempotencyKey }),
    await admin.accounts.create({ email: "key@example.com" }, { idempotencyKey }),
  ];
  expect(two).toEqual(one);
});

describe("a receiver over HTTP", () => {
  it.each([
    ["the same origin", { url: "https://news.example.com/other" }, undefined],
    ["another host", { url: "https://evil.example/notifications" }, "/receiver/client_secret"],
    ["another port", { url: "https://news.example.com:444/" }, "/receiver/client_secret"],
    [
      "a host that begins alike",
      { url: "https://news.example.com.evil.example/" },
      "/receiver/client_secret",
    ],
    ["the name as a user", { url: "https://news.example.com@evil.example/" }, "/receiver/url"],
    ["another case of the host", { url: "https://NEWS.example.com/a" }, undefined],
  ])("keeps its secrets only for its origin: %s [D-ADM-6]", async (_what, { url }, pointer) => {
    await stage.directory.services.put("kept", { name: "Kept", receiver: RECEIVER });
    const { client_id, types } = RECEIVER;
    const change = admin.services.update("kept", { receiver: { url, client_id, types } });
    if (pointer === undefined) return expect((await change).receiver?.url).toBe(url);
    const error = await refused(change);
    expect(error).toMatchObject({ code: "invalid_argument", status: 422, errors: [{ pointer }] });
    expect(JSON.stringify(error) + inspect(error)).not.toContain(RECEIVER.client_secret);
    expect((await stage.directory.services.find("kept"))?.receiver?.url).toBe(RECEIVER.url);
  });
});

describe("what is refused", () => {
  it("is one error with the members of the problem, without what was sent", async () => {
    const error = await refused(admin.accounts.create({ email: "not an address", locale: "xx-secret-xx" }));
    expect(error).toMatchObject({ code: "invalid_argument", status: 422, request_id: "request" });
    expect(error.errors.map(({ pointer }) => pointer)).toEqual(expect.arrayContaining(["/email"]));
    expect(inspect(error)).not.toContain("not an address");
    await admin.accounts.create({ email: "once@example.com" });
    expect(await refused(admin.accounts.create({ email: "once@example.com" }))).toMatchObject({
      code: "name_taken",
    });
    const { sub } = await admin.accounts.create({ email: "in@example.com" });
    await admin.accounts.assign(sub, "news");
    expect(await refused(admin.services.remove("news"))).toMatchObject({
      code: "still_referenced",
      references: expect.arrayContaining([expect.any(String)]),
    });
    expect(await refused(admin.accounts.disable("00000000-0000-4000-8000-000000000000"))).toMatchObject({
      code: "not_found",
    });
    const viewer = createAdministrationClient({ url: stage.base, token: stage.tokenOf({ role: "viewer" }) });
    expect(await refused(viewer.accounts.list())).toMatchObject({ code: "search_required" });
    expect(await refused(viewer.accounts.disable(sub))).toMatchObject({ code: "role_required", status: 403 });
    stage.full.add("accounts");
    expect(await refused(viewer.accounts.find(sub))).toMatchObject({
      code: "limit_reached",
      retry_after: 600,
    });
    stage.full.clear();
  });

  it.each(["..", ".", "a/../../clients", "%2e%2e", "a\0b", ""])(
    "reaches no other address with the identifier %j",
    async (identifier) => {
      asked.length = 0;
      await admin.services.find(identifier).catch(() => undefined);
      expect(asked[0]).toMatch(/^GET \/v1\/services\/b64:[\w-]*$/u);
    },
  );

  it.each([
    "http://admin.example.com",
    "http://10.0.0.1",
    "ftp://localhost",
    "http://localhost.evil.example",
  ])("sends no token to %s", (url) => {
    expect(() => createAdministrationClient({ url, token: TOKEN })).toThrow(/https, or http on loopback/u);
  });

  it("takes no token that is none, and does not repeat it", () => {
    for (const token of ["", "two words", "line\nbreak"])
      expect(() => createAdministrationClient({ url: "https://a.example", token })).toThrow(
        /^token: must be a token of administration$/u,
      );
  });
});

describe("something else on the way", () => {
  it.each([
    ["a page of a proxy", 502, { "Content-Type": "text/html" }, "<h1>Bad gateway</h1>", "unexpected_answer"],
    ["a page with 200", 200, { "Content-Type": "text/html" }, "<h1>Sign in</h1>", "unexpected_answer"],
    [
      "another kind of JSON",
      404,
      { "Content-Type": "application/json" },
      '{"error":"x"}',
      "unexpected_answer",
    ],
    [
      "JSON that ends too early",
      422,
      { "Content-Type": "application/problem+json" },
      '{"code":',
      "unexpected_answer",
    ],
    ["a redirect", 302, { Location: "https://evil.example/" }, "", "server_unreachable"],
  ])("is an error that says so: %s", async (_what, status, headers, body, code) => {
    const server = createServer((_request, response) => response.writeHead(status, headers).end(body));
    await once(server.listen(0, "127.0.0.1"), "listening");
    atEnd(() => server.close().closeAllConnections());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const error = await refused(createAdministrationClient({ url, token: TOKEN }).accounts.find("SUB"));
    expect(error.code).toBe(code);
    expect(inspect(error)).not.toContain(TOKEN);
  });

  it("is nothing: the server is not there, or the caller has had enough", async () => {
    const url = "http://127.0.0.1:1";
    const error = await refused(createAdministrationClient({ url, token: TOKEN }).keys.list());
    expect(error).toMatchObject({ code: "server_unreachable", status: 0 });
    expect(inspect(error)).not.toContain(TOKEN);
    const signal = AbortSignal.abort();
    await expect(admin.keys.list({}, { signal })).rejects.toThrow(
      expect.objectContaining({ name: "AbortError" }),
    );
  });
});

it("loads nothing but the rows and zod: no server, no storage, no driver [D-ADM-3]", () => {
  const program = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({ load(url, context, next) {
      const name = /\\/node_modules\\/([^/]+)\\//.exec(url)?.[1];
      if (url.startsWith("file:")) loaded.add(name ?? url.slice(${pathToFileURL(ROOT).href.length} + 1).split("/")[0]);
      return next(url, context);
    } });
    await import(${JSON.stringify(pathToFileURL(join(ROOT, "administration/index.ts")).href)});
    console.log([...loaded].toSorted().join(" "));`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    encoding: "utf8",
  });
  expect(stdout.trim()).toBe("accounts administration config core notifier receiver records zod");
});

it("carries the example: people who have left are blocked", async () => {
  const { sub } = await stage.accounts.create({ email: "left@example.com" });
  const token = stage.tokenOf({ role: "support" });
  const example = join(ROOT, "examples/administration/offboard.ts");
  const words = [example, stage.base, "left@example.com", "x"];
  const child = spawn(process.execPath, words, { env: { ...process.env, ADMIN_TOKEN: token } });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect([out, err, code]).toEqual(["left@example.com: blocked\n", "x: invalid_argument\n", 1]);
  expect(await stage.accounts.find(sub)).toMatchObject({ disabled: true });
  expect(err).not.toContain(token);
});
