import { describe, expect, it, jest } from "@jest/globals";
import { readConfiguration } from "../../config/read.ts";
import { ConfigurationError } from "../../core/errors.ts";
import { problemsIn, problemsWith, SMALLEST } from "./refusals.ts";

describe("problems", () => {
  it("are reported all at once, in one ConfigurationError with a stable code", () => {
    const wrong = {
      deployments: { oauth2: { url: "http://login.example/" }, openid: { url: 5 } },
      storage: "sqlite::memory:",
      stroage: "x",
      lifetimes: { accessToken: "60", idToken: 0 },
      keys: { secrets: ["short"], cookies: ["short"] },
      interactions: { registration: true, locales: [] },
    };
    expect(() => readConfiguration(wrong)).toThrow(ConfigurationError);
    expect(problemsIn(wrong)).toEqual([
      "config.deployments.openid.url: must be a base URL: https, or http on loopback, without a trailing slash, not a number",
      "config.keys.cookies[0]: must be a string of at least 32 characters",
      "config.keys.secrets[0]: must be 32 bytes in Base64",
      "config.lifetimes.accessToken: must be a whole number from 1 to 315360000, not a string",
      "config.lifetimes.idToken: must be a whole number from 1 to 315360000",
      "config.interactions.locales: must be a list of different entries, each a language tag such as `en`",
      'config.stroage: unknown key; did you mean "config.storage"?',
      "config.deployments.oauth2.url: must not end with a slash",
      "config.deployments.oauth2.url: must be https: plain http is for loopback only",
      "config.storage: must not be in memory in production (a deployment is not on loopback)",
      "config.interactions.registration: needs config.mail in production: people confirm their address by mail",
      "config.interactions.theme.name: is required in production: the name that people know the service by, shown on its pages and in its mail",
    ]);
  });

  it.each<[string, Record<string, unknown>]>([
    [
      'config.lifetimes.acessToken: unknown key; did you mean "config.lifetimes.accessToken"?',
      { lifetimes: { acessToken: 1 } },
    ],
    ['config.accessToken: unknown key; did you mean "config.lifetimes.accessToken"?', { accessToken: 1 }],
    ['config.notification: unknown key; did you mean "config.notifications"?', { notification: {} }],
    ['config.Proxy: unknown key; did you mean "config.proxy"?', { Proxy: true }],
    [
      'config.rateLimits.signIn.address.point: unknown key; did you mean "config.rateLimits.signIn.address.points"?',
      { rateLimits: { signIn: { address: { point: 1 } } } },
    ],
    [
      'config.mail.form: unknown key; did you mean "config.mail.from"?',
      { mail: { url: "smtp://x", form: "a@b" } },
    ],
    ['config.theme: unknown key; the nearest known key is "config.', { theme: {} }],
    [
      'config.interactions.theme.banner: unknown key; the nearest known key is "config.interactions.theme.',
      { interactions: { theme: { banner: "x" } } },
    ],
  ])("name the nearest known key: %s", (line, keys) => {
    expect(problemsWith(keys)).toEqual([expect.stringContaining(line)]);
  });

  it("never show a value", () => {
    const marks: string[] = [];
    const mark = (form: (text: string) => string = (text) => text): string => {
      const text = `S3cret${marks.length}x`;
      marks.push(text);
      return form(text);
    };
    const lines = problemsIn({
      deployments: {
        oauth2: { url: mark((text) => `https://user:${text}@login.example`) },
        openid: { url: mark((text) => `ftp://${text}`) },
      },
      storage: mark((text) => `mongodb://user:${text}@`),
      artifacts: mark((text) => `mongodb://user:${text}@db.example`),
      queue: mark((text) => `amqp://user:${text}@queue.example`),
      mail: mark((text) => `smtp:user:${text}`),
      keys: {
        cookies: [mark()],
        secrets: [mark()],
        signing: [{ kty: "RSA", d: mark() }],
        [mark((text) => text.repeat(5))]: true,
      },
      interactions: {
        theme: { accent: mark(), name: mark((text) => `${text}\n`) },
        locales: [mark()],
        copy: { [mark()]: {} },
      },
      operators: [mark()],
      proxy: [mark()],
      metrics: { token: mark((text) => `${text} is no token`), host: mark(), port: mark() },
      stripPrefix: mark(),
      profile: mark(),
      cookies: { domain: mark(), prefix: mark((text) => `${text} `) },
      notifications: { allowedReceivers: [mark((text) => `https://${text}`)], retryDelays: [mark()] },
      lifetimes: { accessToken: mark() },
      logger: { secret: mark() },
    });
    expect(lines.length).toBeGreaterThanOrEqual(20);
    // Only key names that look like names are shown.
    const shown = lines.filter((line) => !line.startsWith("config.interactions.copy.")).join("\n");
    expect(marks.filter((text) => shown.includes(text))).toEqual([]);
  });

  it("can't be forged or flooded by key names", () => {
    const lines = problemsWith({ "a\nconfig.storage: fine": 1, ["k".repeat(100_000)]: 1 });
    expect(lines.map((line) => line.replace(/;.*/, ""))).toEqual([
      "config[a name of 22 characters]: unknown key",
      "config[a name of 100000 characters]: unknown key",
    ]);
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`key${index}`, 1]));
    expect(problemsWith({ lifetimes: many })).toHaveLength(21);
    expect(problemsWith({ lifetimes: many }).at(-1)).toBe("config.lifetimes: has 4980 more unknown keys");
  });
});

function call(): void {}

function throwing(): never {
  throw new Error("hunter2");
}

describe("hostile input", () => {
  it.each<[string, unknown]>([
    ["config: must be an object, not a list", []],
    ["config: must be an object, not null", null],
    ["config: is required and must be an object", undefined],
    ["config: must be an object, not a string", "{}"],
    ["config: must be an object, not a bigint", 7n],
    ["config: must be an object, not a function", () => SMALLEST],
    ["config: must be plain data, not an instance of a class", new Map()],
    ["config: must be plain data, not an instance of a class", Object.create(SMALLEST)],
  ])("is refused as a whole: %s", (line, input) => {
    expect(problemsIn(input)).toEqual([line]);
  });

  it("with prototype keys is refused, and pollutes nothing", () => {
    const parsed: unknown = JSON.parse(
      `{"deployments":{"oauth2":{"url":"http://localhost","__proto__":{"post":true}},"constructor":{}},
        "__proto__":{"storage":"sqlite:./evil.db"},"toString":1,"hasOwnProperty":2,
        "interactions":{"copy":{"__proto__":{"polluted":"yes"},"en":{"__proto__":"x","constructor":"fine"}}}}`,
    );
    const lines = problemsIn(parsed).map((line) => line.replace(/;.*/, ""));
    expect(lines.toSorted()).toEqual([
      "config.__proto__: is not a key of the configuration",
      "config.deployments.constructor: unknown key",
      "config.deployments.oauth2.__proto__: is not a key of the configuration",
      "config.hasOwnProperty: unknown key",
      "config.interactions.copy.__proto__: is not a key of the configuration",
      "config.interactions.copy.en.__proto__: is not a key of the configuration",
      "config.toString: unknown key",
    ]);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });

  it.each<[string, Record<string, unknown>]>([
    ["config.lifetimes: must be an object, not a list", { lifetimes: [] }],
    ["config.lifetimes: must be plain data, not an instance of a class", { lifetimes: new Map() }],
    ["config.lifetimes: must be an object, not null", { lifetimes: null }],
    ["config.storage: must be `sqlite:PATH`", { storage: ["sqlite:a.db"] }],
    ["config.operators: must be an object of at most 1000 entries", { operators: "me" }],
    [
      "config.lifetimes.session: must be a whole number from 1 to 315360000, not NaN",
      { lifetimes: { session: Number.NaN } },
    ],
    [
      "config.lifetimes.session: must be a whole number from 1 to 315360000, not infinity",
      { lifetimes: { session: Infinity } },
    ],
    [
      "config.lifetimes.session: must be a whole number from 1 to 315360000, not a fraction",
      { lifetimes: { session: 1.5 } },
    ],
    ["config.lifetimes.session: must be a whole number", { lifetimes: { session: -1 } }],
    ["config.lifetimes.session: must be a whole number", { lifetimes: { session: 1e300 } }],
    [
      "config.refreshTokens.rotate: must be `true` or `false`, not a string",
      { refreshTokens: { rotate: "false" } },
    ],
    ["config.interactions.views[0]: is required", { interactions: { views: Array(3) } }],
    ["config.storage: must be `sqlite:PATH`", { storage: `sqlite:${"a".repeat(1_000_000)}` }],
    ["config.operators: must not have more than 10000 entries", { operators: Array(10_001).fill("x") }],
    ["config.logger: must be a pino logger", { logger: console.log }],
    ["config.clock: must be an object with `now()`", { clock: { now: 5 } }],
    ["config.fetch: must be a function", { fetch: {} }],
    ["config.mail: must be an `smtp://`", { mail: 5 }],
    ["config.mailer: must be an object with `send(message)`", { mailer: () => Promise.resolve() }],
    ["config[a symbol]: is not a key of the configuration", { [Symbol("x")]: 1 }],
  ])("causes one clear line: %s", (line, keys) => {
    expect(problemsWith(keys)[0]).toContain(line);
    expect(new Set(problemsWith(keys).map((each) => each.split(/[:[]/)[0])).size).toBe(1);
  });

  it("with getters is read once; an exception of a getter is not shown", () => {
    const storage = jest.fn(() => "sqlite:a.db");
    const input = Object.defineProperty({ ...SMALLEST }, "storage", { get: storage, enumerable: true });
    expect(problemsIn(input)).toEqual([]);
    expect(storage).toHaveBeenCalledTimes(1);
    const broken = {
      get deployments() {
        throw new Error("hunter2");
      },
      get mail() {
        throw new Error("hunter2");
      },
      clock: {
        get now() {
          throw new Error("hunter2");
        },
      },
    };
    expect(problemsIn(broken)).toEqual([
      "config.deployments: can't be read: reading it throws an error",
      "config.mail: can't be read: reading it throws an error",
      "config.clock: must be an object with `now()`, which returns milliseconds since the epoch",
    ]);
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("hunter2");
        },
      },
    );
    expect(problemsIn(proxy)).toEqual(["config: can't be read: reading it throws an error"]);
  });

  it("is not accepted as a store if a method is missing or throws", () => {
    const methods = "get list scan count commit next sweep ping close".split(" ");
    const complete = Object.fromEntries(methods.map((name) => [name, call]));
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const stores: unknown[] = [
      new Map(),
      Object.assign(call, complete),
      revoked.proxy,
      new Proxy(complete, { get: throwing }),
      new Proxy({}, { getPrototypeOf: throwing, has: throwing, ownKeys: throwing }),
      Object.defineProperty({ ...complete }, "commit", { get: throwing }),
      ...methods.map((name) => Object.fromEntries(methods.map((each) => [each, each === name ? {} : call]))),
    ];
    for (const storage of stores) {
      expect(problemsWith({ storage })).toEqual([
        expect.stringMatching(/^config\.storage: must be `sqlite:PATH`.* or a store of your own \(.*\)$/),
      ]);
    }
    // A file can hold these: nobody can write methods into it.
    for (const storage of ["mysql://db.example/a", 5, null, [], {}, { type: "sqlite" }]) {
      expect(problemsWith({ storage })).toEqual([
        expect.stringMatching(
          /^config\.storage: must be `sqlite:PATH`.* or `mongodb\+srv:\/\/…`(?:, not .+)?$/,
        ),
      ]);
    }
    expect(problemsWith({ clock: "UTC", mail: 25 })).toEqual([
      expect.stringMatching(
        /^config\.mail: must be an `smtp:\/\/` or `smtps:\/\/` URL, or an object `\{ url, from \}` with one, not a number$/,
      ),
      expect.stringMatching(
        /^config\.clock: must be an object with `now\(\)`, .*; only a program can set it$/,
      ),
    ]);
    const keys = { secrets: [Buffer.alloc(32).toString("base64")] };
    expect(problemsWith({ storage: complete, keys })).toEqual([]);
    expect(problemsWith({ storage: Object.create(complete), keys })).toEqual([]);
  });

  it("may be cyclic", () => {
    const loop: Record<string, unknown> = {};
    loop["copy"] = { en: loop };
    expect(problemsWith({ interactions: loop }).join("\n")).toContain("is nested too deeply");
  });
});
