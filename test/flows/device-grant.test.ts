/** The device grant (RFC 8628): codes, polling, and the page on which a person connects a device. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { compare, connect, decide, enter, FRAME, TELEVISION, useDevices, visit } from "./devices.ts";
import { APP, clientAt, signIn } from "./clients.ts";
import { DEVICE_GRANT } from "../../accounts/clients/client-kinds.ts";
import { type TestClient, send } from "../../testing/test-client.ts";
import { ADA, NEWS } from "./running-service.ts";

const KINDS = ["oauth2", "openid"] as const;

const { clock, folder, running } = useDevices([TELEVISION, FRAME, APP]);

const television = (kind: (typeof KINDS)[number] = "openid"): TestClient =>
  clientAt(running, kind, TELEVISION);

/** Waits as a device that keeps to its interval does. */
const waitBetweenPolls = (seconds = 5): void => clock.advance(seconds);

describe.each(KINDS)("a device on %s", (kind) => {
  it("gets its codes with its client_id alone [D-DEVICE-1]", async () => {
    const party = television(kind);
    const { status, headers, body } = await party.post("/oauth2/device", {});
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(body).toEqual({
      device_code: expect.stringMatching(/^[\w-]{43}$/),
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: `${party.base}/device`,
      verification_uri_complete: `${party.base}/device?user_code=${String(body["user_code"])}`,
      expires_in: 600,
      interval: 5,
    });
  });

  it("gets tokens when a person has typed the code, compared and continued [D-DEVICE-1, D-DEVICE-2]", async () => {
    const party = television(kind);
    const codes = await party.deviceCodes({ scope: "openid email" });
    expect(await party.poll(codes)).toMatchObject({ status: 400, body: { error: "authorization_pending" } });
    const browser = await connect(codes);
    expect([browser.status, browser.title]).toEqual([200, "Your device is connected"]);
    waitBetweenPolls();
    const { status, body } = await party.poll(codes);
    expect(status).toBe(200);
    const scope = kind === "openid" ? "openid email" : "email";
    const openid = kind === "openid" && { id_token: expect.any(String) };
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]{43}$/),
      token_type: "bearer",
      expires_in: 36_000,
      refresh_token: expect.stringMatching(/^[\w-]{43}$/),
      scope,
      ...openid,
    });
    expect(await party.userinfo(body["access_token"])).toMatchObject({
      status: 200,
      body: { sub: running.ada.sub, email: ADA.email },
    });
  });

  it("rotates its refresh token, and revokes with its client_id alone [D-DEVICE-1]", async () => {
    const party = television(kind);
    const codes = await party.deviceCodes();
    await connect(codes);
    const { body: first } = await party.poll(codes);
    const { status, body: second } = await party.refresh(first["refresh_token"]);
    expect(status).toBe(200);
    expect(second["refresh_token"]).not.toBe(first["refresh_token"]);
    clock.advance(60);
    expect(await party.refresh(first["refresh_token"])).toMatchObject({ body: { error: "invalid_grant" } });
    expect(await party.refresh(second["refresh_token"])).toMatchObject({ body: { error: "invalid_grant" } });

    const again = await party.deviceCodes();
    await connect(again);
    const { body: third } = await party.poll(again);
    const revoked = await party.post("/oauth2/revoke", { token: String(third["refresh_token"]) });
    expect(revoked.status).toBe(200);
    expect(await party.refresh(third["refresh_token"])).toMatchObject({ body: { error: "invalid_grant" } });
    expect((await party.userinfo(third["access_token"])).status).toBe(401);
  });
});

describe("the code that the person types", () => {
  it("may be typed in any way that people write letters [D-DEVICE-1]", async () => {
    const party = television();
    for (const write of [
      (code: string) => code.toLowerCase(),
      (code: string) => code.replace("-", ""),
      (code: string) => ` ${code.replace("-", " – ")} `,
      (code: string) => code.replace("-", "").replaceAll(/(?!^)/g, " "),
    ]) {
      const codes = await party.deviceCodes();
      const browser = await enter(await visit(codes), write(codes.user_code));
      expect([write(codes.user_code), browser.title]).toEqual([
        write(codes.user_code),
        "Connect News on TV?",
      ]);
    }
  });

  it.each([
    ["", "Enter the code that your device shows."],
    ["BCDF-GHJ", "No device is waiting for this code. Compare it with your device."],
    ["AEIO-UAEI", "No device is waiting for this code. Compare it with your device."],
    ["<script>alert(1)</script>", "No device is waiting for this code. Compare it with your device."],
    ["B".repeat(10_000), "No device is waiting for this code. Compare it with your device."],
  ])("is refused if it is %j", async (typed, text) => {
    const browser = await enter(await visit(await television().deviceCodes()), typed);
    expect(browser.status).toBe(400);
    expect(browser.html).toContain(text);
    expect(browser.html).not.toContain("<script>alert");
  });

  it("is filled in by verification_uri_complete, which does nothing else [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browser = await new Browser().get(codes.verification_uri_complete);
    expect(browser.title).toBe("Sign in");
    await signIn(browser);
    expect([browser.status, browser.title]).toEqual([200, "Connect a device"]);
    expect(browser.form("user_code").fields).toContainEqual(["user_code", codes.user_code]);
    expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
    await enter(browser, codes.user_code);
    expect(browser.title).toBe("Connect News on TV?");
  });

  it("is stored as a keyed digest only [D-DEVICE-1]", async () => {
    const { user_code } = await television().deviceCodes();
    if ((process.env["TEST_STORAGE"] ?? "sqlite") !== "sqlite") return;
    for (const file of ["sign-in.db", "sign-in.db-wal"]) {
      const bytes = await readFile(join(folder, file));
      expect(bytes.includes(user_code)).toBe(false);
      expect(bytes.includes(user_code.replace("-", ""))).toBe(false);
    }
  });
});

describe("polling", () => {
  it("is slowed down when it is faster than the interval, by five seconds each time [D-DEVICE-3]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const error = async (): Promise<unknown> => (await party.poll(codes)).body["error"];
    expect(await error()).toBe("authorization_pending");
    waitBetweenPolls(5);
    expect(await error()).toBe("authorization_pending");
    waitBetweenPolls(4);
    expect(await error()).toBe("slow_down");
    waitBetweenPolls(9);
    expect(await error()).toBe("slow_down");
    waitBetweenPolls(14);
    expect(await error()).toBe("slow_down");
    waitBetweenPolls(20);
    expect(await error()).toBe("authorization_pending");
  });

  it("counts every poll, also those that come at once [D-DEVICE-3]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const answers = await Promise.all(Array.from({ length: 6 }, () => party.poll(codes)));
    const errors = answers.map(({ body }) => body["error"]);
    expect(errors.filter((error) => error === "authorization_pending")).toHaveLength(1);
    expect(errors.filter((error) => error === "slow_down")).toHaveLength(5);
  });

  it("does not undo the answer of the person, however much it races with it [D-DEVICE-3]", async () => {
    const party = television();
    for (let round = 0; round < 5; round += 1) {
      const codes = await party.deviceCodes();
      const browser = await compare(codes);
      await Promise.all([decide(browser, "connect"), ...Array.from({ length: 4 }, () => party.poll(codes))]);
      expect(browser.title).toBe("Your device is connected");
    }
  });

  it("twice at once gives one answer with tokens, and ends nothing [D-DEVICE-3]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    await connect(codes);
    const answers = await Promise.all(Array.from({ length: 4 }, () => party.poll(codes)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const { status, body } of answers.filter((answer) => answer !== won[0]))
      expect([status, body["error"]]).toEqual([400, "invalid_grant"]);
    expect((await party.userinfo(won[0]?.body["access_token"])).status).toBe(200);
  });

  it("gets nothing for another client's code, and counts nothing [D-DEVICE-3]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const thief = clientAt(running, "openid", FRAME);
    for (const state of ["pending", "connected"]) {
      expect([state, (await thief.poll(codes)).body]).toEqual([
        state,
        expect.objectContaining({ error: "invalid_grant" }),
      ]);
      expect(
        (
          await clientAt(running, "openid", APP).token({
            grant_type: DEVICE_GRANT,
            device_code: codes.device_code,
          })
        ).body,
      ).toMatchObject({ error: "unauthorized_client" });
      if (state === "pending") {
        expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
        await connect(codes);
      }
    }
    expect((await party.poll(codes)).status).toBe(200);
  });

  it.each([
    ["the account is deleted", async (sub: string) => running.service.accounts.delete(sub)],
    ["the account is disabled", async (sub: string) => running.service.accounts.disable(sub)],
    [
      "the password changes",
      async (sub: string) => running.service.accounts.setPassword(sub, "another password 17"),
    ],
    ["it is unassigned", async (sub: string) => running.service.accounts.unassign(sub, "1")],
    [
      "the tokens are revoked",
      async (sub: string) => running.service.accounts.revokeTokens(sub, "television"),
    ],
  ])("is invalid_grant after %s [D-DEVICE-3]", async (what, change) => {
    const username = `person-${what.replaceAll(" ", "-")}`;
    const person = { username, password: "a password of a person" };
    const { sub } = await running.service.accounts.create({ email: `${username}@example.com`, ...person });
    const party = television();
    const codes = await party.deviceCodes();
    await connect(codes, person);
    await change(sub);
    expect(await party.poll(codes)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
  });

  it("is invalid_client for a client that is disabled, and its codes have ended when it is enabled [D-DEVICE-3, D-ACCOUNT-18]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    await connect(codes);
    const waiting = await party.deviceCodes();
    await running.service.clients.disable("television");
    expect((await party.poll(codes)).body).toMatchObject({ error: "invalid_client" });
    await running.service.clients.enable("television");
    for (const ended of [codes, waiting])
      expect((await party.poll(ended)).body).toMatchObject({ error: "invalid_grant" });
    const browser = await enter(await visit(waiting), waiting.user_code);
    expect([browser.status, browser.title]).toEqual([400, "Connect a device"]);
    const fresh = await party.deviceCodes();
    await connect(fresh);
    expect((await party.poll(fresh)).status).toBe(200);
  });

  it.each([
    ["missing", undefined, "invalid_request"],
    ["empty", "", "invalid_request"],
    ["unknown", "x".repeat(43), "invalid_grant"],
    ["NUL", "a\0b", "invalid_request"],
    ["long", "x".repeat(4_000), "invalid_grant"],
    ["too long", "x".repeat(5_000), "invalid_request"],
    ["__proto__", "__proto__", "invalid_grant"],
  ])("with a device code that is %s is an error", async (_what, device_code, error) => {
    const { status, body } = await television().post("/oauth2/token", {
      grant_type: DEVICE_GRANT,
      device_code,
    });
    expect([status, body["error"]]).toEqual([400, error]);
  });
});

describe("the device authorization endpoint", () => {
  it("is for devices only [D-DEVICE-1]", async () => {
    const { base } = television();
    const post = (form: Record<string, string>, headers: HeadersInit = {}): ReturnType<typeof send> =>
      send(`${base}/oauth2/device`, { method: "POST", headers, body: new URLSearchParams(form) });
    expect((await post({ client_id: "app" })).body).toMatchObject({ error: "unauthorized_client" });
    expect((await post({ client_id: "news", client_secret: NEWS.client_secret ?? "" })).body).toMatchObject({
      error: "unauthorized_client",
    });
    expect((await post({ client_id: "unknown" })).body).toMatchObject({ error: "invalid_client" });
    expect((await post({})).body).toMatchObject({ error: "invalid_client" });
    expect((await post({ client_id: "television", client_secret: "x" })).body).toMatchObject({
      error: "invalid_client",
    });
    expect((await send(`${base}/oauth2/device?client_id=television`)).status).toBe(405);
    expect((await send(`${base}/oauth2/device`, { method: "OPTIONS" })).status).toBe(405);
  });

  it("ignores parameters that mean nothing here, and takes known scopes only [D-DEVICE-1]", async () => {
    const party = television();
    const codes = await party.deviceCodes({
      scope: "openid everything account",
      redirect_uri: "https://evil.example",
      response_type: "token",
      prompt: "none",
      request: "x",
      claims: "{}",
      user_code: "AAAA-AAAA",
    });
    await connect(codes);
    expect(await party.poll(codes)).toMatchObject({ status: 200, body: { scope: "openid" } });
  });
});
