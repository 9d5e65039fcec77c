/** `providers` and `signIn`: the defaults of the presets, and a message for each wrong key that says what it must be. */
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { nodesOf } from "../../config/documented-schema.ts";
import { readConfiguration } from "../../config/read.ts";
import { configurationSchema, defaults } from "../../config/schema.ts";
import { nameVariables, readVariables, withVariables } from "../../config/variables.ts";
import { newFolder } from "../closing.ts";
import { NAMED, problemsIn, problemsWith, PRODUCTION, SMALLEST } from "./refusals.ts";

function pem(curve: string): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: curve });
  return String(privateKey.export({ format: "pem", type: "pkcs8" }));
}

const KEY = pem("P-256");
const TENANT = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490";
const CLIENT = { client_id: "sign-in", client_secret: "s3cret" };
const APPLE = { client_id: "example.sign-in", team_id: "TEAM123456", key_id: "KEY1234567", private_key: KEY };
const MICROSOFT = { ...CLIENT, tenants: [TENANT] };
const CORP = { ...CLIENT, issuer: "https://login.corp.example", name: "Corp" };

/** What a configuration with these providers says, without the path to them. */
const problemsOf = (providers: unknown): readonly string[] =>
  problemsWith({ providers }).map((line) => line.replace(/^config\.providers\.?/u, ""));
const corp = (settings: object): readonly string[] => problemsOf({ corp: { ...CORP, ...settings } });
const read = (providers: object) => readConfiguration({ ...SMALLEST, providers }).providers;

const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`a${n}`, { ...CORP, client_id: `${n}` }]));

/** As `JSON.parse` gives it. */
const withProto = JSON.parse(`{ "__proto__": ${JSON.stringify(CORP)} }`) as unknown;

const COMMON = {
  ...CLIENT,
  trustsEmail: false,
  trustsMfa: false,
  registration: true,
  allowPrivate: false,
  domains: [],
  only: false,
  scopes: ["openid", "email", "profile"],
};

describe("the providers of the configuration", () => {
  it("are complete with the defaults of their presets, in their order [D-PROV-1]", () => {
    const { client_secret: _none, ...common } = COMMON;
    const { team_id, key_id, private_key, client_id } = APPLE;
    expect(
      read({
        corp: { ...CORP, domains: ["corp.example"], only: true },
        google: { ...CLIENT, hd: ["corp.example"] },
        microsoft: MICROSOFT,
        apple: APPLE,
        github: { ...CLIENT, name: { en: "GitHub", pl: "GitHub" } },
        more: { ...CLIENT, client_id: "other", preset: "google", trustsEmail: false },
      }),
    ).toEqual([
      {
        ...COMMON,
        key: "corp",
        preset: "openid",
        issuer: CORP.issuer,
        name: "Corp",
        domains: ["corp.example"],
        only: true,
        sessionMax: 86_400,
      },
      {
        ...COMMON,
        key: "google",
        preset: "google",
        issuer: "https://accounts.google.com",
        name: "Google",
        trustsEmail: true,
        hd: ["corp.example"],
      },
      {
        ...COMMON,
        key: "microsoft",
        preset: "microsoft",
        issuer: "https://login.microsoftonline.com/{tenantid}/v2.0",
        name: "Microsoft",
        tenants: [TENANT],
      },
      {
        ...common,
        client_id,
        key: "apple",
        preset: "apple",
        issuer: "https://appleid.apple.com",
        name: "Apple",
        scopes: ["openid", "email"],
        trustsEmail: true,
        apple: { team_id, key_id, private_key },
      },
      {
        ...COMMON,
        key: "github",
        preset: "github",
        issuer: "https://github.com",
        name: { en: "GitHub", pl: "GitHub" },
        scopes: ["read:user", "user:email"],
      },
      {
        ...COMMON,
        client_id: "other",
        key: "more",
        preset: "google",
        issuer: "https://accounts.google.com",
        name: "Google",
      },
    ]);
    expect(defaults.providers).toEqual({});
    expect(defaults.signIn).toEqual({ emailCode: false });
  });

  it("can't be changed after reading", () => {
    const [provider] = read({ google: { ...CLIENT, domains: ["corp.example"] } });
    expect(Object.isFrozen(provider)).toBe(true);
    expect(Object.isFrozen(provider?.domains)).toBe(true);
  });

  it.each<[string, object]>([
    ["a public client", { client_secret: undefined }],
    ["an issuer with a slash at its end", { issuer: "https://corp.example/" }],
    ["an issuer on loopback", { issuer: "http://127.0.0.1:4000/realms/corp" }],
    ["a domain without a dot", { domains: ["corp"] }],
    ["a time of its own", { domains: ["corp.example"], only: true, sessionMax: 3600 }],
    ["scopes of its own", { scopes: ["openid", "https://corp.example/scope"] }],
  ])("may have %s", (_what, settings) => {
    expect(corp(settings)).toEqual([]);
  });

  it.each<[string, unknown, readonly string[]]>([
    ["Google", CORP, ["Google: is not a key for a provider"]],
    ["1st", CORP, ["[a name of 3 characters]: is not a key for a provider"]],
    ["a_b", CORP, ["a_b: is not a key for a provider"]],
    ["", CORP, ["[a name of 0 characters]: is not a key for a provider"]],
    ["a".repeat(33), CORP, ["[a name of 33 characters]: is not a key for a provider"]],
    ["constructor", CORP, ["constructor: must not have a name that every object has"]],
    ["google", true, ["google: must be an object that describes a provider, not a boolean"]],
    ["google", [], ["google: must be an object that describes a provider, not a list"]],
    ["google", {}, ["google.client_id: is required and must be a text of 1 to 1024"]],
    ["google", { client_id: "a" }, ["google.client_secret: is required: the secret of the client"]],
    [
      "google",
      { client_id: "a", client_secert: "s3cret" },
      [
        'google.client_secert: unknown key; did you mean "config.providers.google.client_secret"?',
        "google.client_secret: is required: the secret of the client",
      ],
    ],
    // The key of that name elsewhere is not meant.
    [
      "corp",
      { ...CORP, domain: ["corp.example"] },
      ['corp.domain: unknown key; did you mean "config.providers.corp.domains"?'],
    ],
    [
      "google",
      { cliend_id: "a", client_secret: "s3cret" },
      [
        "google.client_id: is required and must be a text",
        'google.cliend_id: unknown key; did you mean "config.providers.google.client_id"?',
      ],
    ],
    [
      "goggle",
      CLIENT,
      [
        "goggle.issuer: is required: the address of the provider; or should the key be `google`?",
        "goggle.name: is required: what people call the provider",
      ],
    ],
    [
      "corp",
      CLIENT,
      ["corp.issuer: is required: the address of the provider", "corp.name: is required: what people call"],
    ],
    ["corp", { ...CORP, preset: "gogle" }, ["corp.preset: must be `openid`, `google`, `microsoft`, `apple`"]],
    ["google", { ...CLIENT, tenants: [TENANT] }, ["google.tenants: must be left out: it is only for"]],
    ["google", { ...CLIENT, hd: "corp.example" }, ["google.hd: must be a list of different entries"]],
    ["google", { ...CLIENT, hd: ["Corp.example"] }, ["google.hd[0]: must be a domain in lower case"]],
    ["google", { ...CLIENT, hd: ["constructor"] }, ["google.hd[0]: must be a domain in lower case"]],
    ["microsoft", CLIENT, ["microsoft.tenants: is required: a list of the IDs of tenants, or"]],
    ["microsoft", { ...CLIENT, tenants: "all" }, ["microsoft.tenants: must be `any`, or a list of the IDs"]],
    ["microsoft", { ...CLIENT, tenants: [] }, ["microsoft.tenants: must be `any`, or a list of the IDs"]],
    [
      "microsoft",
      { ...CLIENT, tenants: ["corp.example"] },
      ["microsoft.tenants[0]: must be the ID of a tenant: a UUID in lower case"],
    ],
    [
      "microsoft",
      { ...CLIENT, tenants: "any", trustsEmail: true },
      ['microsoft.trustsEmail: must not be `true` with `tenants: "any"`'],
    ],
    [
      "microsoft",
      { ...MICROSOFT, issuer: "https://login.microsoftonline.com/common/v2.0" },
      ["microsoft.issuer: must have `{tenantid}` in place of the tenant"],
    ],
    ["microsoft", { ...MICROSOFT, hd: ["corp.example"] }, ["microsoft.hd: must be left out: it is only"]],
    [
      "apple",
      { client_id: "a" },
      [
        "apple.team_id: is required: the ID of the team",
        "apple.key_id: is required: the ID of the key",
        "apple.private_key: is required: the content of the key file",
      ],
    ],
    ["apple", { ...APPLE, client_secret: "s3cret" }, ["apple.client_secret: must be left out: it is only"]],
    ["apple", { ...APPLE, team_id: "team123456" }, ["apple.team_id: must be 10 letters and digits"]],
    ["apple", { ...APPLE, key_id: "AuthKey_KEY1234567" }, ["apple.key_id: must be 10 letters and digits"]],
    ["apple", { ...APPLE, private_key: "s3cret" }, ["apple.private_key: must be a private key on P-256"]],
    ["apple", { ...APPLE, private_key: pem("P-384") }, ["apple.private_key: must be a private key on P-256"]],
    [
      "apple",
      { ...APPLE, private_key: "AuthKey_KEY1234567.p8" },
      ["apple.private_key: must be a private key on P-256 in PEM form"],
    ],
    ["github", { ...CLIENT, trustsMfa: true }, ["github.trustsMfa: must be left out: it is only for"]],
    ["github", { ...CLIENT, issuer: "https://github.corp.example" }, ["github.issuer: must be left out"]],
    ["github", { client_id: "a" }, ["github.client_secret: is required: the secret of the client"]],
    ["corp", { ...CORP, private_key: KEY }, ["corp.private_key: must be left out: it is only for"]],
  ])("explain %s: %j [D-PROV-2, D-PROV-3]", (key, settings, problems) => {
    expect(problemsOf({ [key]: settings })).toEqual(
      problems.map((each): unknown => expect.stringContaining(each)),
    );
  });

  it.each<[object, readonly string[]]>([
    [{ issuer: "http://login.corp.example" }, ["issuer: must be an https address, or http on loopback"]],
    [{ issuer: "https://a:s3cret@corp.example" }, ["issuer: must be an https address"]],
    [{ issuer: "https://corp.example/?s3cret" }, ["issuer: must be an https address"]],
    [{ issuer: "login.corp.example" }, ["issuer: must be an https address"]],
    [{ issuer: "https://corp.example/{tenantid}" }, ["issuer: must not have `{tenantid}`"]],
    [{ client_id: "" }, ["client_id: must be a text of 1 to 1024 characters, without spaces"]],
    [{ client_id: "a b" }, ["client_id: must be a text of 1 to 1024 characters, without spaces"]],
    [{ client_id: 5 }, ["client_id: must be a text of 1 to 1024 characters, without spaces, not a number"]],
    [{ client_secret: "s3cret\n" }, ["client_secret: must be a text of 1 to 1024 characters"]],
    [{ name: "{name}" }, ["name: must be a text of 1 to 80 characters"]],
    [{ name: { en: "Corp" } }, ["name.pl: is required: a text for each of config.interactions.locales"]],
    [{ name: { en: "Corp", pl: "Corp", de: "Corp" } }, ["name.de: is never shown"]],
    [{ scopes: [] }, ["scopes: must be a list of different entries, each a scope"]],
    [{ scopes: ["openid email"] }, ["scopes[0]: must be a scope, without spaces"]],
    [{ scopes: ["email"] }, ["scopes: must have `openid`"]],
    [{ trustsEmail: "yes" }, ["trustsEmail: must be `true` or `false`, not a string"]],
    [{ trustsMfa: 1 }, ["trustsMfa: must be `true` or `false`, not a number"]],
    [{ registration: "no" }, ["registration: must be `true` or `false`"]],
    [{ domains: "corp.example" }, ["domains: must be a list of different entries"]],
    [{ domains: ["@corp.example"] }, ["domains[0]: must be a domain in lower case"]],
    [{ domains: ["*.corp.example"] }, ["domains[0]: must be a domain in lower case"]],
    [{ domains: ["a.example", "a.example"] }, ["domains: must be a list of different entries"]],
    [{ only: true }, ["only: needs `domains`: whose accounts sign in only there"]],
    [{ sessionMax: 3600 }, ["sessionMax: needs `only: true`"]],
    [{ domains: ["a.example"], only: true, sessionMax: 0 }, ["sessionMax: must be a whole number from 1"]],
    [{ domians: ["a.example"] }, ['domians: unknown key; did you mean "config.providers.corp.domains"?']],
    [{ trustEmail: true }, ['trustEmail: unknown key; did you mean "config.providers.corp.trustsEmail"?']],
  ])("explain %j [D-PROV-2]", (settings, problems) => {
    expect(corp(settings)).toEqual(problems.map((each): unknown => expect.stringContaining(`corp.${each}`)));
  });

  it("have a client and domains of their own [D-PROV-4, D-PROV-5]", () => {
    const domains = ["corp.example"];
    expect(problemsOf({ a: { ...CORP, domains }, b: { ...CORP, domains, client_id: "other" } })).toEqual([
      "b.domains: must not have a domain that config.providers.a has as well",
    ]);
    expect(problemsOf({ google: CLIENT, more: { ...CLIENT, preset: "google" } })).toEqual([
      "more.client_id: must not be a client of an issuer that config.providers.google has as well",
    ]);
    // The same text as a client ID is another client at another issuer.
    expect(problemsOf({ google: CLIENT, github: CLIENT })).toEqual([]);
  });

  it("are at most 30, and no object's prototype", () => {
    expect(problemsOf(many(30))).toEqual([]);
    expect(problemsOf(many(31))).toEqual([": must have at most 30 providers"]);
    expect(problemsOf(withProto)).toEqual(["__proto__: is not a key of the configuration"]);
  });

  it("may be on loopback in production only with allowPrivate", () => {
    const issuer = "http://localhost:4000";
    const inProduction = (settings: object) =>
      problemsIn({ ...PRODUCTION, providers: { corp: { ...CORP, issuer, ...settings } } });
    expect(inProduction({})).toEqual([
      "config.providers.corp.issuer: is on loopback, which needs `allowPrivate: true` in production",
    ]);
    expect(inProduction({ allowPrivate: true })).toEqual([]);
  });

  it("are checked all at once, and no message has a value", () => {
    const problems = problemsOf({
      Wrong: { ...CORP, client_secret: "s3cret two" },
      google: { client_id: "s3cret id", client_secret: 5 },
      corp: { ...CORP, issuer: "s3cret", domains: ["S3cret"], s3cret: true },
    });
    expect(problems.map((line) => line.split(":")[0])).toEqual([
      "Wrong.client_secret",
      "google.client_id",
      "google.client_secret",
      "corp.issuer",
      "corp.domains[0]",
      "corp.s3cret",
      "Wrong",
    ]);
    expect(problems.join().replaceAll("corp.s3cret:", "")).not.toMatch(/s3cret/iu);
  });
});

const valuesOf = (variables: Record<string, string>) =>
  readVariables(nodesOf(configurationSchema), new Map(Object.entries(variables)));

describe("the variables of providers", () => {
  const SETTINGS: Record<string, string> = {
    SIGN_IN_PROVIDERS_MY_CORP_CLIENT_ID: "sign-in",
    SIGN_IN_PROVIDERS_MY_CORP_ISSUER: "https://login.corp.example",
    SIGN_IN_PROVIDERS_MY_CORP_NAME: "Corp",
    SIGN_IN_PROVIDERS_MY_CORP_DOMAINS: "corp.example, corp",
    SIGN_IN_PROVIDERS_MY_CORP_ONLY: "true",
    SIGN_IN_PROVIDERS_MY_CORP_SESSION_MAX: "3600",
    SIGN_IN_PROVIDERS_MICROSOFT_TENANTS: "any",
    SIGN_IN_PROVIDERS_MICROSOFT_CLIENT_ID: "m",
  };
  it("are one for each key of each provider, and secrets may be in files [D-PROV-15]", async () => {
    const folder = newFolder();
    const path = join(folder, "secret");
    writeFileSync(path, "s3cret\n");
    writeFileSync(join(folder, "key"), `${KEY}\n`);
    const values = await valuesOf({
      ...SETTINGS,
      SIGN_IN_PROVIDERS_MY_CORP_CLIENT_SECRET_FILE: path,
      SIGN_IN_PROVIDERS_APPLE_PRIVATE_KEY_FILE: join(folder, "key"),
    });
    const file = { providers: { google: CLIENT, "my-corp": { trustsEmail: true } } };
    expect(withVariables(file, values)).toEqual({
      providers: {
        google: CLIENT,
        "my-corp": {
          ...CORP,
          domains: ["corp.example", "corp"],
          only: true,
          sessionMax: 3600,
          trustsEmail: true,
        },
        microsoft: { client_id: "m", tenants: "any" },
        apple: { private_key: KEY },
      },
    });
    const { providers } = withVariables(file, values);
    const problems = problemsWith({ providers });
    expect(nameVariables(problems, values)).toContain(
      "config.providers.microsoft.client_secret: is required: the value of the client secret",
    );
    const wrong = await valuesOf({ SIGN_IN_PROVIDERS_MY_CORP_ONLY: "yes" });
    expect(nameVariables(problemsWith(withVariables({}, wrong)), wrong)).toContainEqual(
      "config.providers.my-corp.only: must be `true` or `false` (SIGN_IN_PROVIDERS_MY_CORP_ONLY)",
    );
  });

  it.each<[Record<string, string>, string]>([
    [
      { SIGN_IN_PROVIDERS_GOOGLE_CLIENT_SECERT: "s3cret" },
      'unknown variable; did you mean "SIGN_IN_PROVIDERS_GOOGLE_CLIENT_SECRET"?',
    ],
    [{ SIGN_IN_PROVIDERS_CONSTRUCTOR_CLIENT_ID: "s3cret" }, "unknown variable"],
    [{ SIGN_IN_PROVIDERS___PROTO___CLIENT_ID: "s3cret" }, "unknown variable"],
    [
      { SIGN_IN_PROVIDERS: "{}", SIGN_IN_PROVIDERS_GOOGLE_CLIENT_ID: "s3cret" },
      "can't be set together with SIGN_IN_PROVIDERS",
    ],
  ])("are refused: %j", async (variables, problem) => {
    const error = (await valuesOf(variables).catch((each: unknown) => each)) as {
      readonly problems: readonly string[];
    };
    expect(error.problems).toEqual([expect.stringContaining(problem)]);
    expect(error.problems.join()).not.toContain("s3cret");
  });
});

describe("a code by mail", () => {
  it("is refused with the strict profile, and needs mail in production [D-MAILCODE-1]", () => {
    const signIn = { emailCode: true };
    expect(readConfiguration({ ...SMALLEST, signIn }).signIn.emailCode).toBe(true);
    expect(problemsWith({ signIn, profile: "strict" })).toEqual([
      expect.stringContaining('config.signIn.emailCode: must be left out with config.profile "strict"'),
    ]);
    expect(problemsIn({ ...PRODUCTION, interactions: NAMED, signIn })).toEqual([
      "config.signIn.emailCode: needs config.mail in production: the codes come by mail",
    ]);
    expect(problemsIn({ ...PRODUCTION, signIn, mail: "smtps://mail.example" })).toEqual([]);
  });
});
