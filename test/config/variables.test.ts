import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { configurationVariables } from "../../config/environment.ts";
import { leavesOf, nodesOf } from "../../config/documented-schema.ts";
import { configurationSchema } from "../../config/schema.ts";
import {
  nameVariables,
  readVariables,
  variableBehind,
  variableOf,
  variablesOf,
  withVariables,
} from "../../config/variables.ts";
import { newFolder } from "../closing.ts";

const NODES = nodesOf(configurationSchema);
const SECRET = "a-secret-that-no-message-shows";

const folder = newFolder();

function fileWith(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const read = (variables: Record<string, string>) => readVariables(NODES, new Map(Object.entries(variables)));

/** The configuration of these variables alone. */
async function configOf(variables: Record<string, string>): Promise<unknown> {
  return withVariables({}, await read(variables));
}

async function problemsOf(work: Promise<unknown>): Promise<readonly string[]> {
  try {
    await work;
    return [];
  } catch (error) {
    expect(error).toMatchObject({ code: "invalid_configuration" });
    return (error as { problems: readonly string[] }).problems;
  }
}

describe("the variables of the configuration", () => {
  it("are one for each key that a text can set, made from the schema, and no two are the same", () => {
    const known = variablesOf(NODES);
    const written = leavesOf(configurationSchema).filter(({ holds }) => holds !== "code");
    expect(written.length).toBeGreaterThan(100);
    for (const { path } of written) expect([path, known.has(variableOf(path))]).toEqual([path, true]);
    expect(new Set(NODES.map(({ path }) => variableOf(path))).size).toBe(NODES.length);
    expect([...known.keys()].filter((name) => /_FILE$|^SIGN_IN_CONFIG$/u.test(name))).toEqual([]);
    for (const key of ["logger", "clock", "mailer", "fetch", "interactions.registration.check"])
      expect(known.has(variableOf(key.split(".")))).toBe(false);
    expect(variableOf(["deployments", "oauth2", "url"])).toBe("SIGN_IN_DEPLOYMENTS_OAUTH2_URL");
    expect(variableOf(["rateLimits", "signIn", "accountAndAddress", "points"])).toBe(
      "SIGN_IN_RATE_LIMITS_SIGN_IN_ACCOUNT_AND_ADDRESS_POINTS",
    );
  });

  it.each<[Record<string, string>, object]>([
    [{ SIGN_IN_STORAGE: "sqlite:./x, y.db" }, { storage: "sqlite:./x, y.db" }],
    [{ SIGN_IN_DEPLOYMENTS_OPENID_POST: " true " }, { deployments: { openid: { post: true } } }],
    [{ SIGN_IN_LIFETIMES_ACCESS_TOKEN: "60" }, { lifetimes: { accessToken: 60 } }],
    [{ SIGN_IN_NOTIFICATIONS_POLL: "0.5" }, { notifications: { poll: 0.5 } }],
    [{ SIGN_IN_NOTIFICATIONS_RETRY_DELAYS: "1, 2.5,3" }, { notifications: { retryDelays: [1, 2.5, 3] } }],
    [{ SIGN_IN_NOTIFICATIONS_RETRY_DELAYS: "[]" }, { notifications: { retryDelays: [] } }],
    [{ SIGN_IN_KEYS_COOKIES: "one" }, { keys: { cookies: ["one"] } }],
    [{ SIGN_IN_KEYS_COOKIES: '["one, two","three"]' }, { keys: { cookies: ["one, two", "three"] } }],
    [{ SIGN_IN_KEYS_SIGNING: '[{"kty":"RSA"}]' }, { keys: { signing: [{ kty: "RSA" }] } }],
    [
      { SIGN_IN_INTERACTIONS_COPY: '{"en":{"login.title":"Hello"}}' },
      { interactions: { copy: { en: { "login.title": "Hello" } } } },
    ],
    [{ SIGN_IN_INTERACTIONS_REGISTRATION: "true" }, { interactions: { registration: true } }],
    [
      { SIGN_IN_INTERACTIONS_REGISTRATION_FIELDS_DATE_OF_BIRTH: "optional" },
      { interactions: { registration: { fields: { date_of_birth: "optional" } } } },
    ],
    [{ SIGN_IN_MAIL: "smtp://mail.example" }, { mail: "smtp://mail.example" }],
    [{ SIGN_IN_MAIL: '{"url":"smtp://mail.example"}' }, { mail: { url: "smtp://mail.example" } }],
    [{ SIGN_IN_PASSWORDS_BREACH_CHECK: "{}" }, { passwords: { breachCheck: {} } }],
    [{ SIGN_IN_PROXY: "false" }, { proxy: false }],
    [{ SIGN_IN_PROXY: "2" }, { proxy: 2 }],
    [{ SIGN_IN_PROXY: "10.0.0.0/8, fd00::/8" }, { proxy: ["10.0.0.0/8", "fd00::/8"] }],
    // A text that fits nothing is refused by the check of the key, which says what it must be.
    [{ SIGN_IN_LIFETIMES_ACCESS_TOKEN: "1e3" }, { lifetimes: { accessToken: "1e3" } }],
    [{ SIGN_IN_FEATURES_DPOP: "yes" }, { features: { dpop: "yes" } }],
    // An empty variable counts as not set.
    [{ SIGN_IN_STORAGE: "", SIGN_IN_STORAGE_FILE: "", SIGN_IN_KEYS_COOKIES: "" }, {}],
    // Kubernetes describes every service of its namespace. These are of one called "sign-in".
    [
      {
        SIGN_IN_PORT: "tcp://10.0.0.1:3000",
        SIGN_IN_METRICS_PORT: "tcp://10.0.0.1:9090",
        SIGN_IN_PORT_3000_TCP: "tcp://10.0.0.1:3000",
        SIGN_IN_PORT_3000_TCP_ADDR: "10.0.0.1",
        SIGN_IN_SERVICE_HOST: "10.0.0.1",
        SIGN_IN_SERVICE_PORT_HTTP: "3000",
      },
      {},
    ],
  ])("become values of their keys: %j", async (variables, config) => {
    await expect(configOf(variables)).resolves.toEqual(config);
  });

  it("may name a file with the value, which loses the line break at its end", async () => {
    for (const end of ["", "\n", "\r\n"]) {
      const path = fileWith("url", `smtp://a:${SECRET}@mail.example${end}`);
      await expect(configOf({ SIGN_IN_MAIL_URL_FILE: path })).resolves.toEqual({
        mail: { url: `smtp://a:${SECRET}@mail.example` },
      });
    }
    const path = fileWith("from", " A <a@example.com>\n\n");
    await expect(configOf({ SIGN_IN_MAIL_FROM_FILE: path })).resolves.toEqual({
      mail: { from: " A <a@example.com>\n" },
    });
  });

  it("win over the file, and know where a value comes from", async () => {
    const file = { storage: "sqlite:a.db", lifetimes: { accessToken: 5, idToken: 6 }, proxy: 1 };
    const before = structuredClone(file);
    const values = await read({
      SIGN_IN_LIFETIMES_ACCESS_TOKEN: "60",
      SIGN_IN_STORAGE_FILE: fileWith("storage", "sqlite:b.db\n"),
      SIGN_IN_THEME: "",
      SIGN_IN_INTERACTIONS_THEME: '{"name":"A"}',
    }).catch((error: unknown) => error);
    expect(values).toMatchObject({ problems: [expect.stringMatching(/^environment\.SIGN_IN_THEME: /u)] });
    const known = await read({
      SIGN_IN_LIFETIMES_ACCESS_TOKEN: "60",
      SIGN_IN_STORAGE_FILE: fileWith("storage", "sqlite:b.db\n"),
      SIGN_IN_INTERACTIONS_THEME: '{"name":"A"}',
    });
    expect(withVariables(file, known)).toEqual({
      storage: "sqlite:b.db",
      lifetimes: { accessToken: 60, idToken: 6 },
      proxy: 1,
      interactions: { theme: { name: "A" } },
    });
    expect(file).toEqual(before);
    expect(variableBehind(["storage"], known)).toBe("SIGN_IN_STORAGE_FILE");
    expect(variableBehind(["interactions", "theme", "name"], known)).toBe("SIGN_IN_INTERACTIONS_THEME");
    expect(variableBehind(["lifetimes", "idToken"], known)).toBeUndefined();
    expect(
      nameVariables(
        [
          "config.lifetimes.accessToken: must be a whole number, not a string",
          "config.lifetimes.idToken: must be a whole number, not a string",
          "config.interactions.theme.accent: must be a color",
        ],
        known,
      ),
    ).toEqual([
      "config.lifetimes.accessToken: must be a whole number (SIGN_IN_LIFETIMES_ACCESS_TOKEN)",
      "config.lifetimes.idToken: must be a whole number, not a string",
      "config.interactions.theme.accent: must be a color (SIGN_IN_INTERACTIONS_THEME)",
    ]);
  });

  it("are refused with all problems at once, with the nearest known name and without a value", async () => {
    const secretFile = fileWith("secret", SECRET);
    await expect(
      problemsOf(
        read({
          SIGN_IN_STROAGE: SECRET,
          SIGN_IN_KEYS_SECRET_FILE: secretFile,
          SIGN_IN_CONFIG_FILE: secretFile,
          SIGN_IN___PROTO__: SECRET,
          SIGN_IN_CONSTRUCTOR_PROTOTYPE: SECRET,
          "SIGN_IN_\u001B[31m": SECRET,
          [`SIGN_IN_${"X".repeat(10_000)}`]: SECRET,
          SIGN_IN_METRIC_PORT: "9090",
          SIGN_IN_LOGGER: SECRET,
          SIGN_IN_METRICS_TOKEN: SECRET,
          SIGN_IN_METRICS_TOKEN_FILE: secretFile,
          SIGN_IN_MAIL: SECRET,
          SIGN_IN_MAIL_URL: SECRET,
          SIGN_IN_KEYS_SIGNING: `[{"k":"${SECRET}",}]`,
        }),
      ),
    ).resolves.toEqual([
      'environment.SIGN_IN_STROAGE: unknown variable; did you mean "SIGN_IN_STORAGE"?',
      'environment.SIGN_IN_KEYS_SECRET_FILE: unknown variable; did you mean "SIGN_IN_KEYS_SECRETS_FILE"?',
      'environment.SIGN_IN_CONFIG_FILE: unknown variable; did you mean "SIGN_IN_CONFIG"?',
      expect.stringMatching(/^environment\.SIGN_IN___PROTO__: unknown variable; /u),
      expect.stringMatching(/^environment\.SIGN_IN_CONSTRUCTOR_PROTOTYPE: unknown variable; /u),
      expect.stringMatching(/^environment\[a name of 13 characters\]: unknown variable; /u),
      expect.stringMatching(/^environment\[a name of 10008 characters\]: unknown variable; /u),
      'environment.SIGN_IN_METRIC_PORT: unknown variable; did you mean "SIGN_IN_METRICS_PORT"?',
      expect.stringMatching(/^environment\.SIGN_IN_LOGGER: unknown variable; /u),
      "environment.SIGN_IN_KEYS_SIGNING: is not valid JSON: line 1, column 40: expected a key in double quotes",
      "environment.SIGN_IN_METRICS_TOKEN: can't be set together with SIGN_IN_METRICS_TOKEN_FILE",
      "environment.SIGN_IN_MAIL_URL: can't be set together with SIGN_IN_MAIL",
    ]);
    expect(Reflect.get({}, "storage")).toBeUndefined();
    const many = Array.from({ length: 500 }, (_, index) => [`SIGN_IN_X${index}`, SECRET] as const);
    const flood = await problemsOf(read(Object.fromEntries(many)));
    expect([flood.length, flood.at(-1)]).toEqual([21, "environment: 480 more unknown variables"]);
  });

  it("can't be put into something that is not an object", async () => {
    const values = await read({ SIGN_IN_MAIL_FROM: "a@example.com", SIGN_IN_LIFETIMES_SESSION: "60" });
    const given = { mail: "smtp://mail.example", lifetimes: [SECRET] };
    expect(() => withVariables(given, values)).toThrow(
      expect.objectContaining({
        problems: [
          "environment.SIGN_IN_MAIL_FROM: config.mail of the file is not an object",
          "environment.SIGN_IN_LIFETIMES_SESSION: config.lifetimes of the file is not an object",
        ],
      }),
    );
  });

  it("refuse a file that is missing, empty, a folder, a pipe, too large or unreadable, without waiting", async () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    mkdirSync(join(folder, "folder"));
    const hidden = fileWith("hidden", SECRET);
    chmodSync(hidden, 0);
    const isRoot = process.getuid?.() === 0;
    const cases: readonly (readonly [path: string, text: string])[] = [
      [join(folder, "none"), "the file does not exist"],
      [join(hidden, "inside"), "the file does not exist"],
      [fileWith("empty", "\n"), "the file is empty"],
      [join(folder, "folder"), "the file is a folder"],
      [pipe, "the file is not a regular file"],
      ["/dev/zero", "the file is not a regular file"],
      [fileWith("large", `["${"x".repeat(10_000_000)}"]`), "the file is larger than 1 MiB"],
      ["a\0b", "the file can't be read: ERR_INVALID_ARG_VALUE"],
      ...(isRoot ? [] : [[hidden, "the file can't be read: permission denied"] as const]),
    ];
    for (const [path, text] of cases) {
      await expect(problemsOf(read({ SIGN_IN_KEYS_SECRETS_FILE: path }))).resolves.toEqual([
        `environment.SIGN_IN_KEYS_SECRETS_FILE: ${text}`,
      ]);
    }
    const deep = { SIGN_IN_INTERACTIONS_COPY: `{"en":${"[".repeat(200_000)}` };
    await expect(problemsOf(read(deep))).resolves.toEqual([
      expect.stringMatching(/SIGN_IN_INTERACTIONS_COPY: is not valid JSON: .*nested too deeply$/u),
    ]);
    const long = { SIGN_IN_KEYS_COOKIES: "x".repeat(1_100_000) };
    await expect(problemsOf(read(long))).resolves.toEqual([
      "environment.SIGN_IN_KEYS_COOKIES: is larger than 1 MiB",
    ]);
  });

  it("begin with SIGN_IN_: others are not looked at", () => {
    const env = { SIGN_IN_STORAGE: "a", SIGN_IN: "b", PORT: "1", SIGN_IN_MAIL: undefined };
    expect(configurationVariables(env)).toEqual(new Map([["SIGN_IN_STORAGE", "a"]]));
  });
});
