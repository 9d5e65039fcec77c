/**
 * Second factors with two processes that have nothing in common but the storage. Requests alternate between the
 * processes, so both take part in each race, and no step relies on what one process remembers.
 */
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { createProxy } from "../../examples/cluster/proxy.ts";
import { createSystemClock } from "../../core/clock.ts";
import { createAuthenticator, type TestAuthenticator } from "../../testing/authenticator.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { App } from "../cluster/cluster.ts";
import { type JsonAnswer, atLogin, type Waiting } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { NEWS, onLocalhost, storageIn, UNLIMITED, VAULT } from "./running-service.ts";
import { newFolder } from "../closing.ts";
import { rounds } from "../rounds.ts";

/** At once. */
const GUESSES = rounds(100, 300);

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PASSWORD = "grapefruit under the stairs";

const clock = createSystemClock();
let folder: string;
let log: number;
let running: SelfService;
/** The other process. */
let other: App;
let news: TestClient;
let vault: TestClient;
/** How many requests the first process has answered. */
let answered = 0;
let people = 0;

beforeAll(async () => {
  folder = newFolder();
  log = openSync(join(folder, "other.log"), "a");
  const shared = { ...(await storageIn(folder)), rateLimits: UNLIMITED };
  let pass: ReturnType<typeof createProxy> | undefined;
  let isOthers = false;
  running = await startSelfService(undefined, {
    // Mail that the other process stores is found here.
    config: { ...shared, notifications: { poll: 0.05 } },
    deployments: onLocalhost,
    host: (application) =>
      void application.use((ctx, next) => {
        isOthers = pass !== undefined && !isOthers;
        if (pass === undefined || !isOthers) {
          answered += 1;
          return next();
        }
        ctx.respond = false;
        pass(ctx.req, ctx.res);
        return Promise.resolve();
      }),
  });
  const config = {
    ...shared,
    deployments: { oauth2: { url: running.oauth2 }, openid: { url: running.openid } },
    proxy: true,
    mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
    notifications: { worker: false },
  };
  other = new App({ config, log, compiled: join(folder, "compiled") });
  while (!other.isReady) await pause(20);
  pass = createProxy([other]);
  await running.service.clients.register(VAULT);
  news = clientAt(running, "openid", NEWS);
  vault = clientAt(running, "openid", VAULT);
  // Their first requests may take longer than a storage is waited for, which is then a 503.
  for (let warm = 0; warm < 4; warm += 1) {
    while ((await fetch(news.authorizeUrl(), { redirect: "manual" })).status === 503) await pause(20);
  }
}, 60_000);
afterAll(async () => {
  await other.member.destroy();
  closeSync(log);
  expect(readFileSync(join(folder, "other.log"), "utf8")).toBe("");
});

interface Someone {
  readonly sub: string;
  readonly email: string;
}

async function newPerson(): Promise<Someone> {
  people += 1;
  const email = `person${people}@example.com`;
  const { sub } = await running.service.accounts.create({ email, password: PASSWORD, email_verified: true });
  return { sub, email };
}

async function withApp(): Promise<Someone & { readonly codes: readonly string[] }> {
  const person = await newPerson();
  const { recovery_codes: codes } = await running.service.accounts.addApp(person.sub, { secret: SECRET });
  return { ...person, codes };
}

type Step = JsonAnswer["body"];
async function firstPage(party: TestClient = news): Promise<Waiting> {
  const { visitor, step } = await atLogin(party, { scope: "openid" });
  return { visitor, step };
}

/** Enters the password. */
async function entered({ email }: Someone, party: TestClient = news): Promise<Waiting> {
  const { visitor, step: login } = await firstPage(party);
  const { body: step } = await visitor.act(login, "submit", { username: email, password: PASSWORD });
  return { visitor, step };
}

/** The given number of sign-ins of one person, who has shown the password in each. */
const halfway = (person: Someone, count: number): Promise<Waiting[]> =>
  Promise.all(Array.from({ length: count }, () => entered(person)));

function post({ visitor, step }: Waiting, name: string, values: Readonly<Record<string, unknown>>) {
  const { href = "" } = step.actions.find((each) => each.name === name) ?? {};
  return visitor.post(href, { csrf: step.csrf, ...values });
}

function credentialOf({ passkey }: Step, phone: TestAuthenticator) {
  if (passkey === undefined) throw new Error("the step asks for no passkey");
  return phone.get(passkey.publicKey);
}

const signedIn = (answers: readonly JsonAnswer[]) => answers.filter(({ body }) => body.done === true);
const problemsOf = (answers: readonly Pick<JsonAnswer, "body">[]) =>
  answers.flatMap(({ body }) => (body.problems ?? []).map(({ code }) => code));
const now = (): string => totpCode(SECRET, clock.now());
const four = [1, 2, 3, 4];

describe("a challenge", () => {
  it("of the first page is answered once [D-FACTOR-31]", async () => {
    const { sub } = await newPerson();
    const phone = await addPhone(running, sub, clock);
    const asked = await firstPage();
    const credential = credentialOf(asked.step, phone);
    const answers = await Promise.all(four.map(() => post(asked, "passkey", { credential })));
    expect(signedIn(answers)).toHaveLength(1);
    const { body } = await post(await firstPage(), "passkey", { credential });
    expect(body.notice?.code).toBe("passkey-refused");
  });

  it("of the step after the password is answered once", async () => {
    const person = await newPerson();
    const phone = await addPhone(running, person.sub, clock);
    const asked = await entered(person);
    expect(asked.step.step).toBe("second-factor");
    const credential = credentialOf(asked.step, phone);
    const answers = await Promise.all(four.map(() => post(asked, "passkey", { credential })));
    expect(signedIn(answers)).toHaveLength(1);
  });

  it("is not answered in a sign-in that already has a new one", async () => {
    const { sub } = await newPerson();
    const phone = await addPhone(running, sub, clock);
    const asked = await firstPage();
    const credential = credentialOf(asked.step, phone);
    const { body: step } = await post(asked, "passkey", { credential: {} });
    expect(step.notice?.code).toBe("passkey-refused");
    const answers = await Promise.all(four.map(() => post({ ...asked, step }, "passkey", { credential })));
    expect(signedIn(answers)).toEqual([]);
  });
});

describe("a code of an app", () => {
  it("signs in once, from four sign-ins at the same moment [D-FACTOR-2]", async () => {
    const person = await withApp();
    const waiting = await halfway(person, four.length);
    const code = now();
    const answers = await Promise.all(waiting.map((each) => post(each, "submit", { code })));
    expect(signedIn(answers)).toHaveLength(1);
    expect(problemsOf(answers)).toEqual(["wrong-app-code", "wrong-app-code", "wrong-app-code"]);
  });

  it("is guessed five times, by hundreds of requests at once in two sign-ins [D-FACTOR-25]", async () => {
    const person = await withApp();
    const waiting = await halfway(person, 2);
    const right = new Set(
      [-30_000, 0, 30_000, 60_000].map((offset) => totpCode(SECRET, clock.now() + offset)),
    );
    const guesses = Array.from({ length: GUESSES }, (_each, number) => String(100_000 + number));
    const answers = await Promise.all(
      guesses
        .filter((code) => !right.has(code))
        .map((code, index) => post(waiting[Math.floor(index / 2) % 2]!, "submit", { code })),
    );
    const problems = problemsOf(answers);
    expect(problems.filter((code) => code === "wrong-app-code")).toHaveLength(5);
    expect(new Set(problems)).toEqual(new Set(["wrong-app-code", "limited"]));
    const late = await post(waiting[0]!, "submit", { code: now() });
    expect([late.status, late.body.problems.map(({ code }) => code)]).toEqual([429, ["limited"]]);
  }, 60_000);
});

describe("a recovery code", () => {
  it("signs in once, from four sign-ins at the same moment", async () => {
    const person = await withApp();
    const [code = ""] = person.codes;
    const waiting = await halfway(person, four.length);
    const answers = await Promise.all(waiting.map((each) => post(each, "recovery", { code })));
    expect(signedIn(answers)).toHaveLength(1);
    await expect(running.service.accounts.factors(person.sub)).resolves.toMatchObject({
      recovery_codes_left: 9,
    });
  });

  it("used at the same time as another one is spent, and so is the other", async () => {
    const person = await withApp();
    const waiting = await halfway(person, 2);
    const answers = await Promise.all(
      waiting.map((each, index) => post(each, "recovery", { code: person.codes[index] })),
    );
    expect(signedIn(answers)).toHaveLength(2);
    await expect(running.service.accounts.factors(person.sub)).resolves.toMatchObject({
      recovery_codes_left: 8,
    });
  });
});

/** A person without a factor who may add one in the sign-in, as the client demands. */
async function enrolling(person: Someone): Promise<Waiting> {
  const { visitor, step } = await entered(person, vault);
  expect(step.step).toBe("enrol-confirm");
  const { body } = await visitor.act(step, "submit", { code: codeIn(await running.mailTo(person.email)) });
  expect(body.step).toBe("enrol");
  return { visitor, step: body };
}

const addApp = (waiting: Waiting): Promise<JsonAnswer> =>
  post(waiting, "app", { code: totpCode(waiting.step.app?.secret ?? "", clock.now()) });

function addPasskey(waiting: Waiting): Promise<JsonAnswer> {
  const { passkey } = waiting.step;
  if (passkey === undefined) throw new Error("no passkey is asked for");
  const phone = createAuthenticator({ origin: new URL(running.openid).origin });
  return post(waiting, "passkey", { credential: phone.create(passkey.publicKey), name: "Phone" });
}

async function countOf({ sub }: Someone): Promise<number> {
  const factors = await running.service.accounts.factors(sub);
  return (factors?.app ? 1 : 0) + (factors?.passkeys.length ?? 0);
}

describe("a first factor", () => {
  it("is added once in one sign-in, which then goes on", async () => {
    const person = await newPerson();
    const waiting = await enrolling(person);
    const answers = await Promise.all([
      addApp(waiting),
      addApp(waiting),
      addPasskey(waiting),
      addPasskey(waiting),
    ]);
    const [shown, ...others] = answers.filter(({ body }) => body.recovery_codes !== undefined);
    expect([shown?.body.step, others]).toEqual(["recovery-codes", []]);
    await expect(countOf(person)).resolves.toBe(1);
    const { body } = await post({ ...waiting, step: shown!.body }, "submit", { kept: true });
    expect(body.done).toBe(true);
  });

  it("is added once by two sign-ins; the other one begins anew [D-FACTOR-12]", async () => {
    const person = await newPerson();
    const [one, two] = [await enrolling(person), await enrolling(person)];
    const answers = await Promise.all([addApp(one), addPasskey(two)]);
    expect(answers.filter(({ body }) => body.recovery_codes !== undefined)).toHaveLength(1);
    // The step begins anew, whether or not the other sign-in was known at the first check.
    expect([...answers.map(({ body }) => body.notice?.code), ...problemsOf(answers)]).toContain("begin-anew");
    await expect(countOf(person)).resolves.toBe(1);
  });
});

it("both processes have answered half of the requests", () => {
  expect(other.requests).toBeGreaterThan(GUESSES * 0.7);
  expect(answered).toBeGreaterThan(GUESSES * 0.7);
});
