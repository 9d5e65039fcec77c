import { randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { readConfiguration } from "../../config/read.ts";
import { problemsWith, SMALLEST } from "./refusals.ts";

const secret = randomBytes(32);

/** Valid and invalid values by key. */
const TABLE: Readonly<Record<string, readonly [right: readonly unknown[], wrong: readonly unknown[]]>> = {
  storage: [
    ["sqlite:a.db", "sqlite:./data/a b.db", "sqlite:/var/lib/a.db", "sqlite::memory:"],
    [
      "",
      "sqlite:",
      "sqlite: ",
      "sqlite://a.db",
      "sqlite:file:a?mode=memory",
      "sqlite::shared:",
      "sqlite:dir/",
      "a.db",
      "SQLITE:a.db",
      "sqlite:a\0.db",
      "sqlite:a.db\n",
      "redis://cache.example",
      "mongodb:db",
      "mongodb://",
      "postgresql:x",
    ],
  ],
  queue: [
    ["embedded", "redis://localhost:6379/3", "rediss://:pw@queue.example"],
    ["", "Embedded", "redis:", "redis://", "redis://a b", "http://queue.example", true],
  ],
  artifacts: [
    ["redis://localhost", "sqlite:./sign-in.db"],
    ["redis", "sqlite:./other.db", "memory", 1],
  ],
  profile: [
    ["documented", "strict"],
    ["Strict", "", null, true],
  ],
  proxy: [
    [true, false, 1, 100, ["10.0.0.0/8"], ["::1", "fd00::/8", "192.0.2.1"]],
    [
      0,
      -1,
      1.5,
      101,
      "true",
      "10.0.0.0/8",
      [],
      ["10.0.0.0/33"],
      ["10.0.0/8"],
      ["0.0.0.0/0"],
      ["::/0"],
      ["fe80::1%eth0"],
      ["localhost"],
      ["10.0.0.0/08"],
      ["10.0.0.1", "10.0.0.1"],
      [1],
    ],
  ],
  metrics: [
    [{}, { port: 9090 }, { port: 0, host: "::" }, { token: "0123456789abcdef" }],
    [true, 9090, "9090", null, [], { path: "/metrics" }, { port: 9090, Token: "0123456789abcdef" }],
  ],
  "keys.rotation": [
    [{}, { signing: 86_400 }],
    [true, 86_400, "90d", null, [], { cookies: 86_400 }],
  ],
  "keys.rotation.signing": [
    [86_400, 7_776_000],
    [0, -1, 86_399, 86_400.5, "86400", null, 3650 * 86_400 + 1],
  ],
  "metrics.port": [
    [0, 65_535],
    [-1, 65_536, 1.5, "9090", null, true, Number.NaN],
  ],
  "metrics.host": [
    ["127.0.0.1", "0.0.0.0", "::1", "metrics.internal", "localhost"],
    ["", "10.0.0.0/8", "[::1]", "127.0.0.1:9090", "Localhost", "a b", "*", "fe80::1%lo", "a\n", 1, null],
  ],
  "metrics.token": [
    ["0123456789abcdef", "a".repeat(512), "AZaz09-._~+/abcd=="],
    [
      "0123456789abcde",
      "a".repeat(513),
      "",
      "0123456789abcde ",
      "0123456789 abcdef",
      "0123456789=abcdef",
      "0123456789abcdef\n",
      "0123456789abcdéf",
      "constructor",
      1_234_567_890_123_456,
      null,
    ],
  ],
  stripPrefix: [[], ["", "/", "login", "/login/", "//login", "/a/../b", "/a?b", "/a b", "/login\n"]],
  operators: [
    [
      [],
      ["0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10"],
      {},
      { "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "support" },
      {
        "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "viewer",
        "1b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "deliveries",
        "2b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "administrator",
      },
    ],
    [
      ["ada@example.com"],
      ["0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a1"],
      ["0B0F7D3C-8c4e-4c2a-9d57-6a1b6f1f5a10"],
      ["*"],
      [1],
      { "ada@example.com": "support" },
      { "0B0F7D3C-8c4e-4c2a-9d57-6a1b6f1f5a10": "support" },
      { constructor: "support" },
      { "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "owner" },
      { "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": "constructor" },
      { "0b0f7d3c-8c4e-4c2a-9d57-6a1b6f1f5a10": ["support"] },
      Object.fromEntries(
        Array.from({ length: 1001 }, (_, index) => [
          `0b0f7d3c-8c4e-4c2a-9d57-${String(index).padStart(12, "0")}`,
          "viewer",
        ]),
      ),
    ],
  ],
  mail: [
    [
      "smtp://mail.example",
      "smtps://u:p@mail.example:465",
      { url: "smtp://x", from: "a@b.c" },
      { url: "smtp://x", from: "Ada Lovelace <ada@example.com>" },
    ],
    [
      "mail.example",
      "https://mail.example",
      "smtp://",
      {},
      { from: "a@b.c" },
      [],
      null,
      { url: "smtp://x", from: "a" },
      { url: "smtp://x", from: "a@b.c\r\nBcc: d@e.f" },
    ],
  ],
  "keys.cookies": [[["c".repeat(32)]], [[], ["short"], ["c".repeat(32), "c".repeat(32)], "c".repeat(32)]],
  "keys.secrets": [
    [[secret.toString("base64")], [secret.toString("base64url")]],
    [
      [],
      [secret.toString("hex")],
      [randomBytes(31).toString("base64")],
      [randomBytes(33).toString("base64")],
      [secret],
    ],
  ],
  "cookies.domain": [
    [],
    ["", ".example.com", "com", "Example.com", "a..b", "127.0.0.1", "example.com:80", "a_b.example"],
  ],
  "cookies.prefix": [
    ["", "acme_", "a".repeat(32)],
    ["a".repeat(33), "a b", "a;", "__Host-", "__secure-x", "é", 1],
  ],
  "interactions.locales": [
    [["en"], ["pl", "pt-BR"]],
    [[], ["EN"], ["english"], ["en", "en"], ["../en"]],
  ],
  "interactions.views": [
    [[], ["./views", "/srv/views"]],
    [[""], ["a\0b"], ["a", "a"], "./views"],
  ],
  "interactions.copy": [
    [{}, { en: { "login.title": "Sign in" } }],
    [
      { en: "x" },
      { en: { "a b": "x" } },
      { en: { a: 1 } },
      { EN: {} },
      { en: { a: "x".repeat(10_001) } },
      [],
    ],
  ],
  "interactions.theme.accent": [
    ["#fff", "#1d4ed8", "#1D4ED8"],
    [
      "red",
      "#ffff",
      "#12345",
      "#ggg",
      "rgb(1,2,3)",
      "#fff;}",
      "#fff\n",
      "url(x)",
      "var(--x)",
      "#fff}body{display:none",
      "",
    ],
  ],
  "interactions.theme.name": [
    ["Acme", "<b>Łódź</b>"],
    ["", " ", "a\nb", "a".repeat(81), 1],
  ],
  "notifications.allowedReceivers": [
    [[], ["127.0.0.1"], ["10.0.0.0/8", "fd00::/8", "hooks.internal", "localhost"]],
    [
      ["http://127.0.0.1"],
      ["127.0.0.1:80"],
      ["127.1"],
      ["0x7f.1"],
      ["2130706433"],
      ["*.internal"],
      ["Hooks.internal"],
      ["a.b."],
      ["[::1]"],
      ["10.0.0.0/"],
      [""],
      ["fe80::1%lo"],
      ["-a.b"],
    ],
  ],
  "notifications.retryDelays": [
    [[], [0], [0.01, 5]],
    [[-1], [Number.NaN], ["5"], [Infinity], Array(101).fill(1), 5],
  ],
  "notifications.timeouts.total": [
    [0.5, 15],
    [0, -1, "15", 301, Number.NaN],
  ],
  "notifications.concurrency.perReceiver": [
    [1, 50],
    [0, 1.5, "10"],
  ],
  "interactions.registration": [
    [true, false, {}, { fields: {} }, { check: () => true }],
    [null, "yes", { field: {} }, { fields: { email: "required" } }, { check: "x" }, { domains: [] }],
  ],
  "interactions.registration.fields.name": [
    ["required", "optional"],
    [true, "", "yes"],
  ],
  "interactions.registration.terms": [
    [{ url: "https://a.example/{locale}", version: "1" }],
    [{}, { url: "https://a.example" }, { url: "javascript:alert(1)", version: "1" }, { version: "1" }],
  ],
  "interactions.registration.domains": [
    [["example.com"], ["a.example", "b.example"]],
    ["example.com", ["Example.com"], ["@example.com"], ["*.example.com"], [""]],
  ],
  "notifications.worker": [
    [true, false],
    [0, "true", null],
  ],
  "lifetimes.authorizationCode": [
    [1, 600],
    [0, 601, 1.5, "60", null],
  ],
  "refreshTokens.reuseWindow": [
    [0, 600],
    [-1, 601],
  ],
  "passwords.minLength": [
    [8, 64],
    [7, 65],
  ],
  "passwords.breachCheck.url": [
    ["https://breaches.example/range", "http://127.0.0.1:8080/", "https://breaches.example:8443/a/b/"],
    [
      "",
      "breaches.example",
      "http://breaches.example/range",
      "https://user:password@breaches.example/",
      "https://breaches.example/?q=",
      "https://breaches.example/#a",
      "https://breaches.example/a b",
      "ftp://breaches.example/",
      "file:///etc/passwd",
      5,
      null,
    ],
  ],
  "passwords.breachCheck.timeout": [
    [0.1, 4],
    [0, 5, -1, "2", Number.NaN, Infinity],
  ],
  "rateLimits.signIn.address.points": [
    [1, 1000],
    [0, -1, "10"],
  ],
  "interactions.passkeys.enabled": [
    [true, false],
    ["false", 0, null],
  ],
  "secondFactor.remember": [
    [1, 90],
    [0, 91, -1, 1.5, "30", true],
  ],
  "features.dpop": [
    [true, false],
    ["true", 1],
  ],
};

function nested(key: string, value: unknown): Record<string, unknown> {
  const [first = "", ...rest] = key.split(".");
  return { [first]: rest.length === 0 ? value : nested(rest.join("."), value) };
}

it("browsers are not remembered unless the configuration says so [D-FACTOR-21]", () => {
  expect(readConfiguration(SMALLEST).secondFactor.remember).toBeUndefined();
});

describe("each key", () => {
  it.each(Object.entries(TABLE))("%s accepts its valid values and refuses others", (key, [right, wrong]) => {
    const taken = wrong.filter((value) => {
      const lines = problemsWith(nested(key, value));
      return lines.length === 0 || !lines.every((line) => line.startsWith(`config.${key}`));
    });
    expect(taken).toEqual([]);
    const refused = right.filter((value) => problemsWith(nested(key, value)).length > 0);
    expect(refused).toEqual([]);
  });

  it("accepts MongoDB addresses with several hosts, credentials and options", () => {
    const addresses = [
      "postgresql://localhost",
      "postgres://user:p%40ss@db.example:5432/sign_in?sslmode=verify-full",
      "mongodb://localhost",
      "mongodb://a.example:27017,b.example:27017/accounts?replicaSet=rs0",
      "mongodb+srv://user:p%40ss@cluster.example/accounts",
      "mongodb://127.0.0.1:5000/?directConnection=true",
    ];
    const keys = { secrets: [secret.toString("base64")] };
    for (const storage of addresses) {
      expect(readConfiguration({ ...SMALLEST, storage, keys }).artifacts).toBe(storage);
    }
  });
});
