import { generateKeyPairSync, randomBytes } from "node:crypto";
import { describe, expect, it, jest } from "@jest/globals";
import { keyFileOf } from "../../config/keys.ts";
import { readConfiguration } from "../../config/read.ts";
import { NAMED, PRODUCTION, SMALLEST } from "./refusals.ts";
import { defaults } from "../../config/schema.ts";

const secret = (): string => randomBytes(32).toString("base64");

function nothing(): void {}

function mail(value: unknown): unknown {
  return readConfiguration({ ...SMALLEST, mail: value }).mail;
}

/** The mutable parts of a value. */
function openParts(root: unknown): unknown[] {
  const open: unknown[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    if (!Object.isFrozen(value)) open.push(value);
    for (const part of Object.values(value)) visit(part);
  };
  visit(root);
  return open;
}

/** Counts its calls. A configuration makes none. */
class HostStore {
  calls = 0;
  readonly #call = (): Promise<never> => {
    this.calls += 1;
    return Promise.reject(new Error("called"));
  };
  readonly [name: string]: unknown;
  get = this.#call;
  list = this.#call;
  scan = this.#call;
  count = this.#call;
  commit = this.#call;
  next = this.#call;
  sweep = this.#call;
  ping = this.#call;
  close = this.#call;
}

describe("a valid configuration", () => {
  it("needs only one base URL", () => {
    const { clock, deployments, artifacts, stripPrefix, production, keys, ...rest } =
      readConfiguration(SMALLEST);
    const { deployments: _none, keys: _made, ...fixed } = defaults;
    expect(rest).toEqual({ ...fixed, proxy: false, providers: [], operatorsAreListed: false });
    expect({ artifacts, stripPrefix, production, keys }).toEqual({
      artifacts: "sqlite:./sign-in.db",
      stripPrefix: "",
      production: false,
      keys: {},
    });
    expect(deployments).toEqual({
      oauth2: {
        kind: "oauth2",
        url: "http://127.0.0.1:3000",
        path: "",
        host: "127.0.0.1:3000",
        secure: false,
        post: false,
      },
    });
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(60_000);
  });

  it("has the documented defaults [D-NOTIFY-6]", () => {
    expect(defaults.lifetimes).toEqual({
      authorizationCode: 60,
      accessToken: 36_000,
      refreshToken: 2_592_000,
      idToken: 3600,
      session: 1_209_600,
      sessionMax: 7_776_000,
      interaction: 3600,
    });
    expect(defaults.refreshTokens).toEqual({
      rotate: false,
      reuseWindow: 10,
      sliding: false,
      maxAge: 7_776_000,
    });
    expect(defaults.rateLimits).toEqual({
      networks: {},
      signIn: {
        accountAndAddress: { points: 10, seconds: 900 },
        account: { points: 100, seconds: 3600 },
        address: { points: 300, seconds: 900 },
      },
      passwordGrant: {
        accountAndClient: { points: 10, seconds: 900 },
        account: { points: 100, seconds: 3600 },
        client: { points: 1000, seconds: 900 },
      },
      mail: {
        recipientAndCaller: { points: 5, seconds: 3600 },
        recipientAndCallerDaily: { points: 10, seconds: 86_400 },
        recipient: { points: 20, seconds: 3600 },
        recipientDaily: { points: 40, seconds: 86_400 },
        caller: { points: 100, seconds: 3600 },
        device: { points: 5, seconds: 3600 },
      },
      changes: { points: 30, seconds: 3600 },
      registrations: { points: 100, seconds: 3600 },
      clientSecret: { points: 20, seconds: 900 },
      dpopProof: { points: 20, seconds: 900 },
      deviceCodes: { account: { points: 10, seconds: 900 }, address: { points: 100, seconds: 900 } },
      deviceRequests: { points: 100, seconds: 900 },
      interactions: { points: 600, seconds: 900 },
      authorizations: { points: 600, seconds: 900 },
    });
    const hours = defaults.notifications.retryDelays.reduce((sum, delay) => sum + delay, 0) / 3600;
    expect([defaults.notifications.retryDelays.length + 1, hours.toFixed(1)]).toEqual([10, "75.6"]);
    expect(defaults.notifications.timeouts).toEqual({ connect: 5, total: 15 });
    expect(defaults.notifications.concurrency).toEqual({ total: 50, perReceiver: 10 });
  });

  it("keeps its values, and gets defaults for the rest of a section", () => {
    const configuration = readConfiguration({
      ...PRODUCTION,
      storage: "mongodb+srv://user:pw@db.example/accounts?retryWrites=true",
      artifacts: "rediss://:pw@cache.example:6380/1",
      queue: "redis://queue.example",
      keys: { secrets: [secret()] },
      rateLimits: { signIn: { account: { points: 5 } } },
      proxy: true,
      cookies: undefined,
      profile: undefined,
    });
    expect(configuration.rateLimits.signIn).toEqual({
      ...defaults.rateLimits.signIn,
      account: { points: 5, seconds: 3600 },
    });
    expect(configuration.artifacts).toBe("rediss://:pw@cache.example:6380/1");
    expect(configuration.proxy).toBe(1);
    expect(configuration.production).toBe(true);
  });

  it("is frozen all the way down", () => {
    const configuration = readConfiguration({
      ...SMALLEST,
      keys: { cookies: ["c".repeat(32)], secrets: [secret()] },
      interactions: { copy: { en: { "login.title": "Hello" } }, theme: { accent: "#fff" } },
      mail: { url: "smtp://mail.example", from: "Accounts <no-reply@login.example>" },
      proxy: ["10.0.0.0/8", "::1"],
    });
    expect(openParts(configuration)).toEqual([configuration.clock]);
    expect(configuration.proxy).toEqual(["10.0.0.0/8", "::1/128"]);
    expect(() => Reflect.set(configuration.lifetimes, "accessToken", 1)).not.toThrow();
    expect(configuration.lifetimes.accessToken).toBe(36_000);
  });

  it("does not change, freeze or keep the caller's object", () => {
    const written = {
      deployments: { openid: { url: "https://login.example" } },
      proxy: false,
      operators: ["0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10"],
      interactions: { ...structuredClone(NAMED), locales: ["pl"], copy: { pl: { a: "b" } } },
    };
    const before = structuredClone(written);
    const configuration = readConfiguration(written);
    expect(written).toEqual(before);
    expect(openParts(written)).toHaveLength(9);
    written.operators.push("someone else");
    written.interactions.copy.pl.a = "changed";
    expect(Object.keys(configuration.operators)).toHaveLength(1);
    expect(configuration.interactions.copy).toEqual({ pl: { a: "b" } });
  });

  it("uses the host's logger, clock, mailer and fetch, and does not close them", () => {
    const logger = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: nothing,
      fatal: nothing,
      child: nothing,
    };
    const clock = new (class {
      at = 5;
      now(): number {
        return this.at;
      }
    })();
    const mailer = { send: () => Promise.resolve(), sent: 0 };
    const fetch = Object.assign(() => Promise.resolve(new Response()), { calls: 0 });
    const configuration = readConfiguration({ ...SMALLEST, logger, clock, mailer, mail: mailer, fetch });
    expect([configuration.logger, configuration.clock, configuration.mailer]).toEqual([
      logger,
      clock,
      mailer,
    ]);
    expect(configuration.clock).toBe(clock);
    expect(configuration.mail).toBe(mailer);
    expect(configuration.fetch).toBe(fetch);
    expect([logger, clock, mailer, fetch].map((object) => Object.isFrozen(object))).toEqual(
      Array(4).fill(false),
    );
    clock.at = 6;
    expect(configuration.clock.now()).toBe(6);
  });

  it("uses a store of the host for any deployment, and does not close it", () => {
    const store = new HostStore();
    const configuration = readConfiguration({ ...PRODUCTION, storage: store, keys: { secrets: [secret()] } });
    expect(configuration.store).toBe(store);
    expect([configuration.storage, configuration.artifacts]).toEqual(["own", "own"]);
    expect(keyFileOf(configuration.storage)).toBeUndefined();
    expect(Object.isFrozen(store)).toBe(false);
    expect(store.calls).toBe(0);
    const away = readConfiguration({
      ...SMALLEST,
      storage: store,
      artifacts: "redis://cache.example",
      keys: { secrets: [secret()] },
    });
    expect([away.storage, away.artifacts]).toEqual(["own", "redis://cache.example"]);
    expect(readConfiguration(SMALLEST)).not.toHaveProperty("store");
  });

  it("accepts mail as an SMTP URL, with a sender, as an object and as a function", async () => {
    const send = jest.fn(() => Promise.resolve());
    expect(mail("smtps://user:pw@mail.example:465")).toEqual({ url: "smtps://user:pw@mail.example:465" });
    expect(mail({ url: "smtp://mail.example" })).toEqual({ url: "smtp://mail.example" });
    const settings = readConfiguration({ ...SMALLEST, mail: send }).mail;
    if (settings === undefined || !("send" in settings)) throw new Error("no mailer");
    await settings.send({
      messageId: "<1@login.example>",
      from: "no-reply@login.example",
      to: "ada@example.com",
      subject: "s",
      text: "t",
      html: "<p>t</p>",
    });
    expect(send).toHaveBeenCalledTimes(1);
  });

  it("accepts all types of signing keys, as plain objects", () => {
    const keys = [
      generateKeyPairSync("rsa", { modulusLength: 2048 }),
      generateKeyPairSync("ec", { namedCurve: "P-256" }),
      generateKeyPairSync("ed25519"),
    ].map(({ privateKey }, index) =>
      Object.assign(privateKey.export({ format: "jwk" }), { kid: `key-${index}`, use: "sig" }),
    );
    expect(readConfiguration({ ...SMALLEST, keys: { signing: keys } }).keys.signing).toEqual(keys);
  });
});
