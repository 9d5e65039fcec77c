/** Guessing that goes on, and the mail about it and about sign-ins at new browsers. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { openStorage } from "../../records/storage.ts";
import { createSystemClock } from "../../core/clock.ts";
import { createSealer } from "../../core/sealing.ts";
import { sealMail } from "../../records/people/mail-kinds.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import type { SignInStore } from "../../records/people/sign-ins.ts";
import type { Records } from "../../records/records.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { JsonVisitor, publicKeyOf } from "../interactions/json-visitor.ts";
import { codeIn } from "../interactions/self-service.ts";
import { newStorage } from "../servers/storage.ts";
import type { TestAnswer, TestClient, TestVisitor } from "../../testing/test-client.ts";
import { clientAt, signIn } from "./clients.ts";
import {
  ADA,
  NEWS,
  onLocalhost,
  type RunningOptions,
  type RunningService,
  SHOP,
  startService,
  storageIn,
  UNLIMITED,
} from "./running-service.ts";
import type { MailMessage } from "../../config/mail.ts";
import { newFolder } from "../closing.ts";

const FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0";
const HOSTILE = "Visit https://evil.example <script>alert(1)</script> now";
const SECRETS = [Buffer.alloc(32, 7).toString("base64")];

let running: RunningService;
let news: TestClient;
let mails: MailMessage[];
/** Milliseconds that are added to the service's clock. */
let offset = 0;
let folder = "";

const settings = (): Omit<SignInServiceConfig, "deployments"> => ({
  clock: { virtual: true, now: () => Date.now() + offset },
  rateLimits: UNLIMITED,
  proxy: true,
  mail: async (message) => void mails.push(message),
});

/** The storage of the service, and whose failure it counted last. */
let signIns: SignInStore;
let records: Records;
let counted: Parameters<SignInStore["failures"]>;

async function start(more: Pick<RunningOptions, "deployments"> = {}): Promise<void> {
  running = await startService({
    ...more,
    config: { ...settings(), ...(await newStorage()) },
    storage(storage) {
      ({ signIns, records } = storage);
      const addFailure: SignInStore["addFailure"] = (source, subject, mailAt) => {
        counted = [source, subject];
        return storage.signIns.addFailure(source, subject, mailAt);
      };
      return { ...storage, signIns: { ...storage.signIns, addFailure } };
    },
  });
  news = clientAt(running, "oauth2", NEWS);
}

beforeEach(() => {
  mails = [];
  offset = 0;
});
afterEach(() => {
  folder = "";
});

const wrong = (username: string): TestVisitor => ({ username, password: "this is not the password" });

const atLogin = (browser: Browser = news.browser()): Promise<Browser> => browser.get(news.authorizeUrl());

/** Submits the form. @returns the status. */
async function submit(browser: Browser, person: TestVisitor): Promise<number> {
  await atLogin(browser);
  return (await signIn(browser, person)).visits[0]!.status;
}

/** Many tries at the form, several at a time. */
async function failAtForm(count: number, names: readonly string[]): Promise<number[]> {
  const browsers = await Promise.all(Array.from({ length: 4 }, () => atLogin()));
  const statuses = await Promise.all(
    browsers.map(async (browser, index) => {
      const own: number[] = [];
      for (let number = index; number < count; number += browsers.length) {
        const { visits } = await signIn(browser, wrong(names[number % names.length] ?? ""));
        own.push(visits[0]!.status);
      }
      return own;
    }),
  );
  return statuses.flat();
}

/** Many tries of the password grant, several at a time. */
async function failGrants(count: number, names: readonly string[]): Promise<TestAnswer[]> {
  const answers: TestAnswer[] = [];
  while (answers.length < count) {
    const next = Array.from({ length: Math.min(20, count - answers.length) }, (_, number) =>
      news.password(wrong(names[(answers.length + number) % names.length] ?? "")),
    );
    answers.push(...(await Promise.all(next)));
  }
  return answers;
}

/** Counts failures of the last one who failed, without the work of comparing passwords. */
async function failMore(count: number): Promise<void> {
  for (let number = 0; number < count; number += 1) await signIns.addFailure(...counted);
}

const limitedOf = (statuses: readonly number[]): number => statuses.filter((status) => status === 429).length;
const isLimited = ({ headers }: TestAnswer): boolean => headers.has("retry-after");

/** The mail with this subject, once the outbox has been emptied. */
async function mailAbout(subject: RegExp, count: number): Promise<MailMessage[]> {
  const found = (): MailMessage[] => mails.filter((mail) => subject.test(mail.subject));
  for (let tries = 0; found().length < count && tries < 2_000; tries += 1) await pause(25);
  // One more would come at once.
  await pause(150);
  return found();
}

/** The page without what differs between any two. */
const visible = (browser: Browser): string =>
  browser.html
    .replaceAll(/(?:ada|nobody)/g, "NAME")
    .replaceAll(/name="(?:csrf|again)" value="[^"]*"|interaction\/[\w-]+/g, "")
    .replaceAll(/in \d+ minutes?/g, "");

const from = (address: string): Browser => news.browser({ headers: { "x-forwarded-for": address } });

const browserWith = (userAgent?: string): Browser =>
  news.browser({
    headers: {
      "x-forwarded-for": "203.0.113.77",
      ...(userAgent !== undefined && { "user-agent": userAgent }),
    },
  });

describe("after 100 failures in a row at the form", () => {
  it("a name allows five tries an hour from one network, except in a browser that its account knows, until a sign-in with it succeeds [D-GUESS-1, D-GUESS-2, D-GUESS-6]", async () => {
    await start();
    const known = news.browser();
    expect(await submit(known, ADA)).toBe(303);
    known.jar.clear(known.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    expect(new Set(await failAtForm(8, ["ada", "ADA"]))).toEqual(new Set([400]));
    await failMore(84);
    expect(new Set(await failAtForm(8, ["ada", "ADA"]))).toEqual(new Set([400]));

    const further = await failAtForm(12, ["ada"]);
    expect([limitedOf(further), further.length]).toEqual([7, 12]);
    const stranger = news.browser();
    expect(await submit(stranger, ADA)).toBe(429);
    const wait = Number(stranger.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(3_000);
    expect(wait).toBeLessThanOrEqual(3_600);
    expect(stranger.html).toContain("Many wrong passwords were entered for this name");
    // A limit over the names of one account would reveal that they belong together.
    expect(new Set(await failAtForm(8, ["ada@example.com"]))).toEqual(new Set([400]));
    // Other accounts, and the password grant of this one, are not concerned.
    expect(await submit(news.browser(), wrong("bob"))).toBe(400);
    expect((await news.password(ADA)).status).toBe(200);

    // After an hour, five more: a success of one of them ends the limit, and so does one of a known browser.
    offset += 3_600_000;
    expect(limitedOf(await failAtForm(7, ["ada"]))).toBe(2);
    // One of another name would show that they belong together.
    expect(await submit(known, { ...ADA, username: "ada@example.com" })).toBe(303);
    expect(limitedOf(await failAtForm(4, ["ada"]))).toBe(4);
    known.jar.clear(known.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
    expect(await submit(known, ADA)).toBe(303);
    expect(new Set(await failAtForm(20, ["ada"]))).toEqual(new Set([400]));
  });

  it("leaves tries to people elsewhere: five for one network, twenty in all [D-GUESS-2]", async () => {
    await start();
    await failAtForm(1, ["ada"]);
    await failMore(99);
    const tries = async (address: string): Promise<number> => {
      const browser = await atLogin(from(address));
      let allowed = 0;
      while ((await signIn(browser, wrong("ada"))).visits[0]!.status === 400) allowed += 1;
      return allowed;
    };
    // One network, however many addresses it has.
    expect([await tries("192.0.2.1"), await tries("192.0.2.200")]).toEqual([5, 0]);
    expect([await tries("2001:db8:1:2::1"), await tries("2001:db8:1:ff::1")]).toEqual([5, 0]);
    expect(await submit(from("203.0.113.9"), ADA)).toBe(303);
    await failMore(99);
    await failAtForm(1, ["ada"]);
    expect([await tries("198.51.100.1"), await tries("198.18.0.1")]).toEqual([5, 5]);
    expect(await submit(from("203.0.113.9"), ADA)).toBe(429);
  });

  it("a passkey and a reset go on as before, and the page offers both [D-GUESS-6]", async () => {
    await start({ deployments: onLocalhost });
    const phone = await addPhone(running, running.ada.sub, createSystemClock());
    await failAtForm(1, ["ada"]);
    await failMore(99);
    await failAtForm(5, ["ada"]);
    const [one, other] = await Promise.all(
      [news.browser(), news.browser()].map(async (browser) => {
        expect(await submit(browser, ADA)).toBe(429);
        const visitor = new JsonVisitor(browser);
        return { visitor, step: (await visitor.open(browser.url.href)).body };
      }),
    );
    const credential = phone.get(publicKeyOf(one!.step));
    const signedIn = await one!.visitor.act(one!.step, "passkey", { credential });
    expect(signedIn).toMatchObject({ status: 200, body: { done: true } });
    const { body: forgot } = await other!.visitor.act(other!.step, "forgot-password");
    const { body: asked } = await other!.visitor.act(forgot, "submit", { username: "ada" });
    const [mail] = await mailAbout(/Choose a new password/, 1);
    const values = { code: codeIn(mail!), password: "another long sentence" };
    expect(await other!.visitor.act(asked, "submit", values)).toMatchObject({ body: { step: "login" } });
  });

  it("a month without a failure forgets them [D-GUESS-1]", async () => {
    await start();
    await failAtForm(1, ["ada"]);
    await failMore(99);
    offset += 29 * 86_400_000;
    expect(limitedOf(await failAtForm(6, ["ada"]))).toBe(1);
    offset += 31 * 86_400_000;
    expect(new Set(await failAtForm(8, ["ada"]))).toEqual(new Set([400]));
  });

  it("the owner is notified once by mail, without an address of the caller [D-GUESS-3]", async () => {
    await start();
    await failAtForm(1, ["ada"]);
    await failMore(96);
    await failAtForm(15, ["ada"]);
    const [mail, ...more] = await mailAbout(/Many failed attempts/, 1);
    expect(more).toEqual([]);
    expect(mail).toMatchObject({ to: "ada@example.com" });
    expect(mail?.text).toContain("100 times in a row");
    expect(`${mail?.text}${mail?.html}`).not.toMatch(/203\.0\.113|this is not the password/);
    expect(mails).toHaveLength(1);
  });

  it("a name that nobody has is limited in the same way, with the same answers [D-GUESS-4]", async () => {
    await start();
    await failAtForm(4, ["nobody", "ＮＯＢＯＤＹ"]);
    await failMore(96);
    const further = await failAtForm(12, ["nobody"]);
    expect([limitedOf(further), further.length]).toEqual([7, 12]);
    await failAtForm(1, ["ada"]);
    await failMore(99);
    await failAtForm(6, ["ada"]);
    const [known, unknown] = [news.browser(), news.browser()];
    expect([await submit(known, wrong("ada")), await submit(unknown, wrong("nobody"))]).toEqual([429, 429]);
    expect(visible(known)).toBe(visible(unknown));
    expect(mails.filter(({ to }) => to !== "ada@example.com")).toEqual([]);
  });

  it("a new password begins anew, and so does a success before the hundredth [D-GUESS-1, D-GUESS-5]", async () => {
    await start();
    await failAtForm(1, ["ada"]);
    await failMore(98);
    expect(await submit(news.browser(), ADA)).toBe(303);
    expect(await failAtForm(1, ["ada"])).toEqual([400]);
    await failMore(98);
    expect(await failAtForm(1, ["ada"])).toEqual([400]);
    expect(limitedOf(await failAtForm(8, ["ada"]))).toBe(3);
    await running.service.accounts.setPassword(running.ada.sub, "another long sentence");
    expect(await submit(news.browser(), { username: "ada", password: "another long sentence" })).toBe(303);
  });
});

describe("after 100 failures in a row of the password grant", () => {
  it("a name allows twenty more an hour at one client, with the answer of any other limit, and the form goes on [D-GUESS-1, D-GUESS-2, D-GUESS-3]", async () => {
    await start();
    await running.service.clients.update("shop", { password_grant: true, error_status: "documented" });
    const shop = clientAt(running, "oauth2", SHOP);
    expect((await failGrants(10, ["ada", "ADA"])).filter(isLimited)).toEqual([]);
    await failMore(80);
    expect((await failGrants(10, ["ada", "ADA"])).filter(isLimited)).toEqual([]);
    const further = await failGrants(27, ["ada"]);
    expect(further.filter(isLimited)).toHaveLength(7);
    const refused = await news.password(ADA);
    expect([refused.status, refused.body]).toEqual([
      400,
      { error: "invalid_grant", error_description: "grant request is invalid" },
    ]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await submit(news.browser(), ADA)).toBe(303);
    expect(await mailAbout(/Many failed attempts/, 1)).toHaveLength(1);
    // A success at the form does not count for the grant; one at another client does.
    expect(isLimited(await news.password(ADA))).toBe(true);
    expect((await shop.password(ADA)).status).toBe(200);
    expect((await failGrants(20, ["ada"])).filter(isLimited)).toEqual([]);
  });

  it("a right password counts as a wrong one where the account has a second factor", async () => {
    await start();
    await running.service.accounts.addApp(running.ada.sub, { secret: "JBSWY3DPEHPK3PXP" });
    for (const person of [ADA, wrong("ada"), ADA])
      expect((await news.password(person)).body["error"]).toBe("invalid_grant");
    expect(await signIns.failures(...counted)).toBe(3);
  });

  it("the same holds for a name that nobody has, and a name that is too long is not counted [D-GUESS-4]", async () => {
    await start();
    await failGrants(4, ["nobody"]);
    await failMore(96);
    expect((await failGrants(27, ["nobody"])).filter(isLimited)).toHaveLength(7);
    const before = counted;
    expect((await failGrants(4, ["n".repeat(10_000)])).filter(isLimited)).toEqual([]);
    expect(counted).toBe(before);
    const nasty = ["__proto__", "'; DROP TABLE x; --", "<b>", "\u0000", "\ud800", "a".repeat(254)];
    expect((await failGrants(12, nasty)).map(({ status }) => status)).toEqual(Array(12).fill(400));
    expect(mails).toEqual([]);
  });
});

describe("failures in a row", () => {
  it("are counted exactly by parallel processes, and one of them stores the mail [D-GUESS-1, D-GUESS-3]", async () => {
    await start();
    folder = newFolder();
    const { storage, artifacts = storage } = await storageIn(folder);
    const clock = { now: () => Date.now() };
    const stores = await Promise.all([1, 2].map(() => openStorage({ storage, artifacts, clock })));
    const sealer = createSealer(SECRETS);
    const made: number[] = [];
    const mail = (): ReturnType<typeof sealMail> => {
      made.push(1);
      const expiresAt = clock.now() + 60_000;
      const params = { at: "0" };
      return sealMail(
        sealer,
        { kind: "many-failures", to: "a@b.example", deployment: "oauth2", params, expiresAt },
        clock.now(),
      );
    };
    const counts: number[] = [];
    try {
      for (let round = 0; round < 6; round += 1) {
        const together = Array.from({ length: 10 }, (_, number) =>
          stores[number % 2]!.signIns.addFailure("form", "subject", { failures: 40, mail }),
        );
        counts.push(...(await Promise.all(together)));
      }
      expect(counts.toSorted((one, other) => one - other)).toEqual(
        Array.from({ length: 60 }, (_, index) => index + 1),
      );
      expect(await stores[0]!.signIns.failures("form", "subject")).toBe(60);
      expect(await stores[0]!.signIns.failures("password_grant", "subject")).toBe(0);
      expect((await stores[1]!.outbox.waiting()).count).toBe(1);
      await stores[1]!.signIns.clearFailures("form", "subject");
      expect(await stores[0]!.signIns.failures("form", "subject")).toBe(0);
    } finally {
      await Promise.all(stores.map((store) => store.close()));
    }
  });
});

describe("a sign-in at a new browser", () => {
  const ABOUT = /New sign-in to your account/;

  it("is reported to the owner with browser, system and time, except the first sign-in of an account [D-BROWSER-1]", async () => {
    await start();
    const first = browserWith();
    expect(await submit(first, ADA)).toBe(303);
    expect(await mailAbout(ABOUT, 0)).toEqual([]);
    const second = browserWith(FIREFOX);
    expect(await submit(second, ADA)).toBe(303);
    const [mail, ...more] = await mailAbout(ABOUT, 1);
    expect(more).toEqual([]);
    expect(mail).toMatchObject({ to: "ada@example.com" });
    expect(mail?.text).toContain("with Firefox on Windows");
    expect(`${mail?.text}${mail?.html}`).not.toMatch(/203\.0\.113|Mozilla|NT 10/);
    // It is known now, and so is the first one.
    for (const browser of [first, second]) {
      browser.jar.clear(browser.jar.all().find(({ name }) => name.includes("_session_"))?.name ?? "");
      expect(await submit(browser, ADA)).toBe(303);
    }
    expect(await mailAbout(ABOUT, 1)).toHaveLength(1);
  });

  it("is reported again after a new password, which ends the device cookies [D-BROWSER-2]", async () => {
    await start();
    const browser = browserWith();
    expect(await submit(browser, ADA)).toBe(303);
    await running.service.accounts.setPassword(running.ada.sub, "another long sentence");
    expect(await submit(browser, { username: "ada", password: "another long sentence" })).toBe(303);
    expect(await mailAbout(ABOUT, 1)).toHaveLength(1);
  });

  it("sends one mail when its form is submitted twice, and nothing of a hostile header [D-BROWSER-1]", async () => {
    await start();
    expect(await submit(browserWith(), ADA)).toBe(303);
    const twice = await atLogin(browserWith(HOSTILE));
    const { action, fields } = twice.form("password");
    const send = (): Promise<Response> =>
      fetch(action, {
        method: "POST",
        redirect: "manual",
        headers: {
          cookie: twice.jar
            .all()
            .map(({ name, value }) => `${name}=${value}`)
            .join("; "),
        },
        body: new URLSearchParams({ ...Object.fromEntries(fields), username: "ada", password: ADA.password }),
      });
    const statuses = await Promise.all([send(), send()]).then((all) => all.map(({ status }) => status));
    expect(statuses).toContain(303);
    const [mail, ...more] = await mailAbout(ABOUT, 1);
    expect(more).toEqual([]);
    expect(`${mail?.text}${mail?.html}`).not.toMatch(/evil|script>|undefined/);
  });

  it("is reported ten times in an hour, the last time with where to look [D-MAILLIMIT-2]", async () => {
    await start();
    expect(await submit(news.browser(), ADA)).toBe(303);
    for (let round = 0; round < 14; round += 1) expect(await submit(news.browser(), ADA)).toBe(303);
    const told = await mailAbout(ABOUT, 10);
    expect(told).toHaveLength(10);
    const more = told.filter(({ text }) => text.includes("more may happen without a message"));
    expect(more).toHaveLength(1);
    expect(more[0]?.text).toContain("/account");
    // Other kinds have their own.
    await running.service.accounts.setPassword(running.ada.sub, "another long sentence");
    expect(await mailAbout(/password/i, 1)).toHaveLength(1);
    offset += 3_600_000;
    const person = { username: "ada", password: "another long sentence" };
    expect(await submit(news.browser(), person)).toBe(303);
    expect(await mailAbout(ABOUT, 11)).toHaveLength(11);
  });

  it("sends none when the first sign-in is submitted twice, or the account is deleted meanwhile [D-BROWSER-1]", async () => {
    await start();
    const notice = {
      // Expired: the service has other keys.
      mail: {
        kind: "new-browser",
        to: "a@b.example",
        deployment: "oauth2",
        params: {},
        expiresAt: Date.now() - 1,
      },
      sealer: createSealer(SECRETS),
    } as const;
    const again = (id: string, ...told: [typeof notice] | []): Promise<boolean> =>
      records.transact((tx) => signIns.noteNewBrowser(tx, running.ada.sub, id, ...told));
    expect(await again("one")).toBe(false);
    expect([await again("one", notice), await again("two", notice), await again("two", notice)]).toEqual([
      false,
      true,
      false,
    ]);
    await running.service.accounts.delete(running.ada.sub);
    expect([await again("three", notice), await again("four", notice)]).toEqual([false, false]);
  });
});
