import { hash } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { createOutages } from "../../../core/outages.ts";
import { createBreachCheck } from "../../../accounts/passwords/breach-check.ts";
import { createPasswordRules, passwordLength } from "../../../accounts/passwords/password-rules.ts";
import { createTestSignIn } from "../../../testing/index.ts";

const LENGTH = { min: 8, max: 128 };
const ADA = ["ada@example.com", "countess", "Ada", "Lovelace Byron", "Ada Lovelace Byron"];
const HOSTILE = [
  "__proto__",
  "constructor",
  "toString",
  "'; DROP TABLE accounts; --",
  "<script>alert(1)</script>",
];

/** Code and rule of the error. */
const refusal = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => [Reflect.get(Object(error), "code"), Reflect.get(Object(error), "problem")],
  );

describe("a new password", () => {
  const problem = createPasswordRules({
    length: LENGTH,
    service: ["Contoso account", "login.contoso.example"],
  });

  it.each([
    ["too-short", ["1234567", "żółwżółw".slice(0, 7), "", "é".normalize("NFD").repeat(7)]],
    ["too-long", ["a".repeat(129), "b ".repeat(5_000), "\ufdfa".repeat(128)]],
    ["characters", ["12345678\0", "12345678\ud800"]],
    ["common", ["password", "PassWord1", "12345678", "qwertyuiop", "ｐａｓｓｗｏｒｄ", "iloveyou"]],
    [
      "name",
      ["ada@example.com", "ADA@EXAMPLE.COM", "countess", "Countess", "Lovelace Byron", "lovelacebyron"],
    ],
    ["name", ["Ada Lovelace Byron", "contoso account", "ContosoAccount", "login.contoso.example"]],
  ])("is refused as %s: %j [D-PASSWORD-1, D-PASSWORD-2]", async (expected, passwords) => {
    for (const password of passwords)
      expect([password, problem(password, ADA)]).toEqual([password, expected]);
  });

  it("needs no digits, capitals or signs, and may be a sentence [D-PASSWORD-1]", async () => {
    for (const password of [
      "correct horse",
      "        ",
      "ośmiu żółwi",
      "😀".repeat(8),
      "a".repeat(128),
      ...HOSTILE,
    ]) {
      expect([password, problem(password, [...ADA, null, undefined, ""])]).toEqual([password, undefined]);
    }
  });

  it("has at least 15 characters with the strict profile, and as many as configured otherwise [D-PASSWORD-1, D-RUN-5]", () => {
    expect(passwordLength({ minLength: 8, maxLength: 128 }, "strict")).toEqual({ min: 15, max: 128 });
    expect(passwordLength({ minLength: 20, maxLength: 128 }, "strict")).toEqual({ min: 20, max: 128 });
    expect(passwordLength({ minLength: 10, maxLength: 64 }, "documented")).toEqual({ min: 10, max: 64 });
  });

  it("is not one of more than 10,000 common ones, whatever the profile [D-PASSWORD-2]", async () => {
    const long = createPasswordRules({ length: { min: 15, max: 128 }, service: [] });
    expect(long("passwordpassword", [])).toBe("common");
  });

  it("is held to the rules by create and setPassword, and only to its length by an import [D-PASSWORD-2]", async () => {
    const stage = await createTestSignIn({
      interactions: { theme: { name: "Contoso account" } },
    });
    const { accounts } = stage.service;
    const bob = { email: "bob@example.com", username: "bob-the-builder" };
    expect(await refusal(accounts.create({ ...bob, password: "password1" }))).toEqual([
      "invalid_password",
      "common",
    ]);
    expect(await refusal(accounts.create({ ...bob, password: "Bob-The-Builder" }))).toEqual([
      "invalid_password",
      "name",
    ]);
    expect(await refusal(accounts.create({ ...bob, password: "contoso account" }))).toEqual([
      "invalid_password",
      "name",
    ]);
    const { sub } = await accounts.import({ ...bob, password: "password1" });
    expect(await accounts.verifyPassword(sub, "password1")).toBe(true);
    expect(await refusal(accounts.setPassword(sub, "bob@example.com"))).toEqual(["invalid_password", "name"]);
    expect(await refusal(accounts.setPassword(sub, "sunshine1"))).toEqual(["invalid_password", "common"]);
    expect(await accounts.verifyPassword(sub, "password1")).toBe(true);
    await accounts.setPassword(sub, "zażółć gęślą jaźń");
    expect(await accounts.verifyPassword(sub, "zażółć gęślą jaźń".normalize("NFD"))).toBe(true);
    await stage.close();
  });
});

const sends =
  (text: string, status = 200): RequestListener =>
  (_request, response) =>
    response.writeHead(status, { "content-type": "text/plain" }).end(text);

describe("a breach check", () => {
  const PASSWORD = "correct horse battery";
  const DIGEST = hash("sha1", PASSWORD, "hex").toUpperCase();
  const REST = DIGEST.slice(5);
  const PADDING = `${"0".repeat(34)}F:0`;
  const asked: { url: string; headers: string; body: string }[] = [];
  const logged: unknown[] = [];
  let answer: RequestListener = sends("");
  let server: Server;
  let url = "";

  beforeAll(async () => {
    server = createServer((request, response) => {
      const seen = { url: request.url ?? "", headers: JSON.stringify(request.rawHeaders), body: "" };
      asked.push(seen);
      request.on("data", (chunk) => (seen.body += String(chunk)));
      answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/range/`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const logger = {
    error: (...line: unknown[]) => logged.push(line),
    warn: (...line: unknown[]) => logged.push(line),
  };
  const clock = { now: () => Date.now() };
  const check = (password: string, at = url): Promise<boolean> =>
    createBreachCheck({
      url: at,
      timeoutMs: 300,
      fetch,
      outage: createOutages(logger as never, clock)("asking"),
    })(password, "");
  it("sends five digits of the hash and asks for padding, never the password or its whole hash [D-PASSWORD-3]", async () => {
    asked.length = 0;
    answer = sends(`${PADDING}\r\n${REST}:3`);
    expect(await check(PASSWORD)).toBe(true);
    answer = sends(`${REST.toLowerCase()}:1\r\n${PADDING}\r\n`);
    expect(await check(PASSWORD)).toBe(true);
    expect(asked.map((each) => each.url)).toEqual(Array(2).fill(`/range/${DIGEST.slice(0, 5)}`));
    expect(asked[0]?.headers).toContain('"Add-Padding","true"');
    for (const secret of [PASSWORD, "horse", REST, REST.toLowerCase()])
      expect(JSON.stringify(asked)).not.toContain(secret);
  });

  it("accepts a password that is not in the answer, or only as padding [D-PASSWORD-3]", async () => {
    answer = sends(`${PADDING}\r\n${"A".repeat(35)}:12`);
    expect(await check(PASSWORD)).toBe(false);
    answer = sends(`${REST}:0\r\n${PADDING}`);
    expect(await check(PASSWORD)).toBe(false);
  });

  it.each<[string, RequestListener]>([
    ["never answers", () => undefined],
    [
      "sends the header and no more",
      (_request, response) => void response.writeHead(200).write(`${REST}:3\r\n`),
    ],
    [
      "ends in the middle",
      (_request, response) => {
        response.writeHead(200, { "content-length": "5000" }).write(`${REST}:3\r\n`);
        setTimeout(() => response.destroy(), 20);
      },
    ],
    ["closes the connection", (request) => void request.socket.destroy()],
    ["fails", sends(`${REST}:3`, 500)],
    ["limits", sends(`${REST}:3`, 429)],
    [
      "redirects elsewhere",
      (_request, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(),
    ],
    ["sends an error page", sends(`<html>${REST}:3</html>`)],
    ["sends a list with something else in it", sends(`${REST}:3\r\n<script>alert(1)</script>`)],
    ["sends nothing", sends("")],
    ["sends an endless answer", sends(`${REST}:3\r\n`.repeat(20_000))],
    ["sends a count that is no number", sends(`${REST}:1e9`)],
  ])(
    "accepts the password within the time-out when the other side %s, and says so without it [D-PASSWORD-3]",
    async (_name, listener) => {
      logged.length = 0;
      answer = listener;
      const started = performance.now();
      expect(await check(PASSWORD)).toBe(false);
      expect(performance.now() - started).toBeLessThan(10_000);
      expect(logged).toHaveLength(1);
      for (const secret of [PASSWORD, DIGEST.slice(0, 5), REST])
        expect(JSON.stringify(logged)).not.toContain(secret);
    },
  );

  it("accepts the password when nobody listens, or the host application's fetch ignores its signal [D-PASSWORD-3]", async () => {
    expect(await check(PASSWORD, "http://127.0.0.1:1/range")).toBe(false);
    const deaf = createBreachCheck({
      url,
      timeoutMs: 50,
      fetch: () => new Promise(() => undefined),
      outage: createOutages(logger as never, clock)("asking"),
    });
    expect(await deaf(PASSWORD, "")).toBe(false);
  });

  it("asks twenty times at once, and tells nobody that the password is unknown because others wait [D-BREACH-1]", async () => {
    const answers: (() => void)[] = [];
    const breached = createBreachCheck({
      url,
      timeoutMs: 10_000,
      fetch: () =>
        new Promise((resolve) => answers.push(() => resolve(new Response(`${REST}:3`, { status: 200 })))),
      outage: createOutages(logger as never, clock)("asking"),
    });
    const flood = Array.from({ length: 90 }, () => breached(PASSWORD, "flood").catch(String));
    const neighbor = breached(PASSWORD, "neighbor").catch(String);
    await Promise.resolve();
    expect(answers).toHaveLength(20);
    // The neighbor has the second turn.
    for (const index of [0, 1]) answers[index]?.();
    expect(await Promise.all([flood[0], flood[1]])).toEqual([true, true]);
    answers[21]?.();
    expect(await neighbor).toBe(true);
    for (let next = 2; next < answers.length; next += 1) {
      answers[next]?.();
      await new Promise(setImmediate);
    }
    const refused = (await Promise.all(flood)).filter((each) => each !== true);
    expect(new Set(refused.map((each) => /too many/.test(String(each))))).toEqual(new Set([true]));
    expect(refused).toHaveLength(90 - 20 - 39);
  });

  it("is asked by the configuration, through the configured fetch, and last of all rules [D-PASSWORD-3]", async () => {
    asked.length = 0;
    answer = sends(`${REST}:3\r\n${PADDING}`);
    const targets: string[] = [];
    const stage = await createTestSignIn({
      passwords: { breachCheck: { url, timeout: 0.5 } },
      fetch: (target, init) => {
        targets.push(JSON.stringify(target));
        return fetch(target, init);
      },
    });
    const eve = { email: "eve@example.com" };
    await expect(stage.service.accounts.create({ ...eve, password: "password1" })).rejects.toThrow("common");
    expect(targets).toEqual([]);
    await expect(stage.service.accounts.create({ ...eve, password: PASSWORD })).rejects.toMatchObject({
      problem: "breached",
    });
    await stage.service.accounts.create({ ...eve, password: "another long sentence" });
    expect(targets).toHaveLength(2);
    await stage.close();
  });
});
