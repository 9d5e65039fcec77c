/** Guessing the codes of devices, asking for too many, and two processes that get the same answer at once. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import * as openid from "openid-client";
import type { Browser } from "../../testing/browser/browser.ts";
import { compare, connect, decide, enter, FRAME, TELEVISION, visit } from "../flows/devices.ts";
import { clientAt } from "../flows/clients.ts";
import {
  type TestClient,
  type DeviceCodes,
  send,
  type TestAnswer,
  type TestVisitor,
} from "../../testing/test-client.ts";
import { ADA, BOB, type RunningService, startService, storageIn } from "../flows/running-service.ts";
import { useTwoProcesses } from "../hosting/processes.ts";
import { rounds } from "../rounds.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { newFolder } from "../closing.ts";

let folder: string;
let storage: StorageConfig;
let running: RunningService;
let party: TestClient;
/** The mails that were sent: recipient and text. */
const mails: { readonly to: string; readonly text: string }[] = [];
beforeAll(async () => {
  folder = newFolder();
  storage = await storageIn(folder);
  running = await startService({
    config: {
      ...storage,
      proxy: true,
      mailer: {
        async send({ to, text }) {
          mails.push({ to, text });
        },
      },
    },
  });
  for (const client of [TELEVISION, FRAME]) await running.service.clients.register(client);
  party = clientAt(running, "openid", TELEVISION);
});

const from = (address: string): Record<string, string> => ({ "x-forwarded-for": address });

let people = 0;
async function newcomer(): Promise<TestVisitor> {
  people += 1;
  const person = { username: `guesser-${people}`, password: "the password of a guesser" };
  await running.service.accounts.create({ email: `guesser-${people}@example.com`, ...person });
  return person;
}

/** The form of a page, sent from an address to a process. */
function post(
  browser: Browser,
  fields: Record<string, string>,
  address: string,
  base = "",
): Promise<TestAnswer> {
  const form = browser.form("user_code");
  const action = base === "" ? form.action.href : `${base}/device`;
  return send(action, {
    method: "POST",
    headers: { cookie: browser.jar.header(form.action), ...from(address) },
    body: new URLSearchParams({ ...Object.fromEntries(form.fields), ...fields }),
  });
}

/** Letters of codes that nobody has. */
const WRONG = "BCDFGHJKLMNPQRSTVWXZ";

describe("guessing codes", () => {
  it("ends for an account after ten in 15 minutes, from 1,000 addresses [D-DEVICE-2]", async () => {
    const codes = await party.deviceCodes({}, from("192.0.2.1"));
    const browser = await visit(codes, await newcomer(), { headers: from("192.0.2.2") });
    const guesses = Array.from({ length: 1_000 }, (_each, guess) => ({
      user_code: WRONG[guess % 20]!.repeat(7) + WRONG[Math.floor(guess / 20) % 20]!,
      // A guess may also come as an answer, as if the code had been compared.
      action: guess % 2 === 0 ? "" : "connect",
      address: `10.${guess % 250}.${Math.floor(guess / 250)}.1`,
    }));
    const count: Record<number, number> = {};
    for (let next = 0; next < guesses.length; next += 50) {
      const answers = await Promise.all(
        guesses.slice(next, next + 50).map(({ address, ...fields }) => post(browser, fields, address)),
      );
      for (const { status } of answers) count[status] = (count[status] ?? 0) + 1;
    }
    expect(count).toEqual({ 400: 10, 429: 990 });
    const limited = await post(browser, { user_code: codes.user_code, action: "connect" }, "10.99.0.1");
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(limited.text).toContain("Too many wrong codes.");
    // Nobody else is stopped by it.
    await connect(codes, BOB);
    expect((await party.poll(codes)).status).toBe(200);
  });

  it("ends for an address that names others before itself [D-DEVICE-2]", async () => {
    const codes = await party.deviceCodes({}, from("192.0.2.9"));
    const statuses: number[] = [];
    for (let each = 0; each < 11; each += 1) {
      const browser = await visit(codes, await newcomer(), { headers: from(`192.0.2.${10 + each}`) });
      for (let guess = 0; guess < 10; guess += 1) {
        const forged = `10.${each}.${guess}.7, 203.0.113.77`;
        statuses.push((await post(browser, { user_code: WRONG[guess]!.repeat(8) }, forged)).status);
      }
    }
    expect(statuses).toEqual([...Array<number>(100).fill(400), ...Array<number>(10).fill(429)]);
  });

  it("by a neighbor behind the same address stops nobody else there [D-DEVICE-2]", async () => {
    const address = "203.0.113.9";
    const codes = await party.deviceCodes({}, from("192.0.2.3"));
    const visitor = async () => visit(codes, await newcomer(), { headers: from("192.0.2.4") });
    const [neighbor, person] = [await visitor(), await visitor()];
    const statuses: number[] = [];
    for (let guess = 0; guess < 12; guess += 1)
      statuses.push((await post(neighbor, { user_code: WRONG[guess]!.repeat(8) }, address)).status);
    expect(statuses).toEqual([...Array<number>(10).fill(400), 429, 429]);
    expect((await post(person, { user_code: codes.user_code }, address)).status).toBe(200);
  });

  it("counts guesses that come at once, and right codes not at all [D-DEVICE-2]", async () => {
    const codes = await party.deviceCodes({}, from("192.0.2.5"));
    const browser = await visit(codes, await newcomer(), { headers: from("192.0.2.6") });
    for (let each = 0; each < 15; each += 1)
      expect((await post(browser, { user_code: codes.user_code }, "192.0.2.7")).status).toBe(200);
    const answers = await Promise.all(
      WRONG.split("").map((letter) => post(browser, { user_code: letter.repeat(8) }, "192.0.2.7")),
    );
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(10);
  });

  it("needs a sign-in: nobody learns about a code without one [D-DEVICE-2]", async () => {
    const codes = await party.deviceCodes({}, from("192.0.2.8"));
    for (const user_code of [codes.user_code, "BBBB-BBBB"]) {
      const answer = await send(`${party.base}/device`, {
        method: "POST",
        body: new URLSearchParams({ user_code, action: "connect", csrf: "x" }),
      });
      expect(answer.status).toBe(303);
      expect(answer.headers.get("location")).toContain("/oauth2/authorize?");
    }
    expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
  });

  it("is in the audit without the code", async () => {
    const { items: records } = await running.service.audit.list({
      action: "device.code_entered",
      limit: 100,
    });
    expect(records.some(({ reason }) => reason === "limited")).toBe(true);
    expect(records.some(({ reason }) => reason === "credentials")).toBe(true);
    expect(JSON.stringify(records)).not.toMatch(/BBBBBBBB|BBBB-BBBB/);
  });
});

describe("asking for codes", () => {
  it("ends after 100 in 15 minutes for one client from one address [D-DEVICE-1]", async () => {
    const address = "198.51.100.77";
    const answers: TestAnswer[] = [];
    for (let each = 0; each < 102; each += 1)
      answers.push(await party.post("/oauth2/device", {}, from(address)));
    expect(answers.map(({ status }) => status)).toEqual([...Array<number>(100).fill(200), 429, 429]);
    expect(answers.at(-1)?.body["error"]).toBe("temporarily_unavailable");
    expect(Number(answers.at(-1)?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await clientAt(running, "openid", FRAME).post("/oauth2/device", {}, from(address))).status).toBe(
      200,
    );
    expect((await party.post("/oauth2/device", {}, from("198.51.100.78"))).status).toBe(200);
    expect(
      (await clientAt(running, "oauth2", TELEVISION).post("/oauth2/device", {}, from(address))).status,
    ).toBe(429);
  });
});

describe("the person", () => {
  it("gets one mail about the device, without the code [D-DEVICE-2]", async () => {
    const codes = await party.deviceCodes({}, from("192.0.2.20"));
    mails.length = 0;
    await connect(codes, ADA);
    for (let tries = 0; tries < 1_000 && mails.length === 0; tries += 1)
      await new Promise((resolve) => void setTimeout(resolve, 50));
    const about = mails.filter(({ text }) => text.includes("News on TV"));
    expect(about).toEqual([
      { to: ADA.email, text: expect.stringContaining("A device was connected to your account") },
    ]);
    expect(about[0]?.text).not.toContain(codes.user_code);
    const refused = await party.deviceCodes({}, from("192.0.2.20"));
    await decide(await compare(refused), "refuse");
    expect(mails.filter(({ text }) => text.includes("News on TV"))).toHaveLength(1);
  });
});

describe("openid-client", () => {
  it("signs a person in with its device flow and only the issuer [D-DEVICE-1]", async () => {
    const config = await openid.discovery(new URL(running.openid), "television", undefined, openid.None(), {
      execute: [openid.allowInsecureRequests],
    });
    const begun = await openid.initiateDeviceAuthorization(config, { scope: "openid email" });
    await connect(begun as unknown as DeviceCodes);
    const tokens = await openid.pollDeviceAuthorizationGrant(config, { ...begun, interval: 1 });
    expect(tokens.claims()?.sub).toBe(running.ada.sub);
    expect(await openid.fetchUserInfo(config, tokens.access_token, running.ada.sub)).toMatchObject({
      email: ADA.email,
    });
    const refreshed = await openid.refreshTokenGrant(config, tokens.refresh_token!);
    expect(refreshed.refresh_token).not.toBe(tokens.refresh_token);
  });

  it("is told that the person refused [D-DEVICE-1]", async () => {
    const config = await openid.discovery(new URL(running.openid), "television", undefined, openid.None(), {
      execute: [openid.allowInsecureRequests],
    });
    const begun = await openid.initiateDeviceAuthorization(config, {});
    const browser = await visit(begun as unknown as DeviceCodes);
    await decide(await enter(browser, begun.user_code), "refuse");
    await expect(
      openid.pollDeviceAuthorizationGrant(config, { ...begun, interval: 1 }),
    ).rejects.toMatchObject({
      error: "access_denied",
    });
  });
});

describe("two processes on one storage", () => {
  const bases = useTwoProcesses(() => ({
    ...storage,
    deployments: { oauth2: { url: running.oauth2 }, openid: { url: running.openid } },
  }));

  /** The device, at each process. */
  const devices = (): TestClient[] =>
    bases.map((base) => clientAt({ ...running, openid: base }, "openid", TELEVISION));

  it("let one of two people decide, count every poll, and give the tokens once [D-DEVICE-2, D-DEVICE-3]", async () => {
    for (let round = 0; round < rounds(4, 20); round += 1) {
      const codes = await party.deviceCodes({}, from(`192.0.2.${100 + round}`));
      const pending = await Promise.all([...devices(), ...devices()].map((device) => device.poll(codes)));
      const errors = pending.map(({ body }) => body["error"]);
      expect(errors.filter((error) => error === "authorization_pending")).toHaveLength(1);
      expect(errors.filter((error) => error === "slow_down")).toHaveLength(3);

      const [ada, bob] = [await compare(codes, ADA), await compare(codes, BOB)];
      const fields = { action: "connect" };
      const answers = await Promise.all([
        post(ada, fields, "192.0.2.1", bases[0]),
        post(bob, fields, "192.0.2.1", bases[1]),
      ]);
      expect(answers.map(({ status }) => status === 303).filter(Boolean)).toHaveLength(1);
      expect(answers.find(({ status }) => status === 400)?.text).toContain("This code was already used.");
      const winner = answers[0]?.status === 303 ? ADA : BOB;

      const polls = await Promise.all([...devices(), ...devices()].map((device) => device.poll(codes)));
      expect(polls.filter(({ status }) => status === 200)).toHaveLength(1);
      const lost = polls.filter(({ status }) => status !== 200);
      expect(new Set(lost.map(({ body }) => body["error"]))).toEqual(new Set(["invalid_grant"]));
      const won = polls.find(({ status }) => status === 200);
      expect(await party.userinfo(won?.body["access_token"])).toMatchObject({
        status: 200,
        body: { email: winner.email },
      });
    }
  });
});
