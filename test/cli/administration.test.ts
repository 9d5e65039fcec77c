import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { CommandContext } from "../../cli/program/command.ts";
import { z } from "zod";
import { type AnyRow, NONE } from "../../accounts/operations/operation.ts";
import { COMMANDS } from "../../cli/commands.ts";
import { bare } from "../../config/documented-schema.ts";
import { TABLES } from "../../administration/tables.ts";
import { examplesOf, type Office, ON_SERVICE, openOffice, rowOf, SECRETS } from "./administration-stage.ts";

let office: Office;
let folder: string;

/** What does not fit in what a command printed as JSON: it is the output of the row, as the library returns it. */
function misfit(row: AnyRow, out: string): unknown {
  const { effect, output } = row;
  const printed = out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as object)
    // `keys list` also prints the ids of secrets.
    .filter((each) => output !== TABLES.keys.rows.list.output || "kid" in each);
  // What has no output is named by its target; a file is as its format says.
  if (row === TABLES.audit.rows.export) return undefined;
  if (output === NONE) return printed.length === 1 ? undefined : printed;
  const isArray = bare(output) instanceof z.ZodArray;
  const [all, schema] = isArray ? [printed, output] : [printed, z.array(output)];
  const { error } = schema.safeParse(all);
  return error ?? (effect === "list" || isArray || printed.length === 1 ? undefined : printed);
}

beforeAll(async () => {
  office = await openOffice();
  ({ folder } = office);
}, 60_000);
afterAll(() => office.close());

describe("the commands on a service", () => {
  it.each(ON_SERVICE)(
    "do what the examples of %s say, beside a running service [D-CLI-1, D-CLI-2]",
    async (noun) => {
      for (const example of examplesOf(noun)) {
        const isEndless = example.startsWith("audit tail");
        const row = rowOf(example);
        const placed = await office.placed(example);
        const line = row === undefined ? placed : placed.replace(/(?= < |$)/u, " --json");
        const outcome = await office.example(line, isEndless ? 200 : undefined);
        // No secret is lost here, and the seed is another one.
        const code = isEndless ? 130 : Number(/^(?:keys reset --lost|seed diff sign-in)/u.test(example));
        expect([example, outcome]).toEqual([example, expect.objectContaining({ code })]);
        if (row !== undefined) expect([example, misfit(row, outcome.out)]).toEqual([example, undefined]);
      }
    },
  );

  it("work as a program: with arguments, standard input and a signal", async () => {
    const sub = await office.prepare();
    const lines: readonly (readonly [code: number, line: string])[] = [
      [0, "sign-in-service accounts find ada@example.com"],
      [0, `sign-in-service accounts set-password ${sub} < password.txt`],
      [130, "timeout --preserve-status -s INT 2 sign-in-service audit tail --json"],
      [1, "sign-in-service accounts find nobody"],
    ];
    for (const [code, line] of lines)
      expect([line, await office.shell(line)]).toEqual([line, expect.objectContaining({ code })]);
  });

  it("each have an example, and every option has a form that can be read", () => {
    for (const { words, examples, options = [] } of COMMANDS.commands) {
      expect([words, examples.length > 0]).toEqual([words, true]);
      for (const example of examples) expect(example.startsWith(words.join(" "))).toBe(true);
      for (const { form } of options)
        expect(form).toMatch(/^--[a-z][a-z-]*(?: [A-Z]+(?:=TEXT)?| yes\|no)?$/u);
    }
  });

  it("refuse what is wrong, with a sentence and an exit code [D-CLI-4]", async () => {
    await office.prepare();
    const found = await office.service.accounts.findByLogin("ada@example.com");
    const config = ["--config", office.config];
    writeFileSync(join(folder, "broken.json"), `{ "metrics": "${SECRETS.metrics}", }`);
    writeFileSync(join(folder, "list.json"), "[]");
    writeFileSync(join(folder, "memory.json"), '{"storage":"sqlite::memory:"}');
    writeFileSync(join(folder, "wrong.json"), `{"deployments":{},"metrics":{"tokn":"${SECRETS.metrics}"}}`);
    const reach = { deployments: { oauth2: { url: "http://127.0.0.1:39998/oauth2" } } };
    const missing = { ...reach, storage: `sqlite:${join(folder, "none.db")}` };
    writeFileSync(join(folder, "missing.json"), JSON.stringify(missing));
    const gone = {
      ...reach,
      storage: `postgresql://ada:${SECRETS.mail}@127.0.0.1:9/x`,
      keys: { secrets: [SECRETS.sealing] },
    };
    writeFileSync(join(folder, "gone.json"), JSON.stringify(gone), { mode: 0o600 });
    const file = (name: string): string[] => ["--config", join(folder, name)];
    for (const [code, says, words] of wrong(found?.sub ?? "", config, file)) {
      const { code: ended, out, err } = await office.here(words);
      expect([words, ended, out, err]).toEqual([words, code, "", expect.stringMatching(says)]);
    }
  }, 60_000);

  it("find an account by username, e-mail address, sub and user_id, and print only its public members [D-CLI-6]", async () => {
    const made = await office.service.accounts.create({
      email: "Alan@example.com",
      username: "770077",
      name: "Alan",
    });
    for (const name of ["770077", "alan@EXAMPLE.com", made.sub, String(made.user_id)]) {
      await expect(office.objects("accounts", "find", name)).resolves.toEqual([made]);
    }
    await expect(office.service.accounts.findByUserId(made.user_id)).resolves.toEqual(made);
    await expect(office.service.accounts.findByUserId(2 ** 40)).resolves.toBeUndefined();
    await expect(office.service.accounts.findByUserId(0)).rejects.toThrow(TypeError);
  });

  it("list all accounts in pages, or as many as were asked for [D-CLI-3]", async () => {
    await Promise.all([1, 2, 3].map(() => office.prepare()));
    const { items: all } = await office.service.accounts.list({ limit: 200 });
    await expect(office.objects("accounts", "list")).resolves.toEqual(all);
    await expect(office.objects("accounts", "list", "--limit", "2")).resolves.toEqual(all.slice(0, 2));
    const { out } = await office.here(["accounts", "list", "--limit", "1", "--config", office.config]);
    expect(out).toMatch(/^user_id .* surname +disabled\n\d+ +[\w-]{36}( +\S+){3} +false\n$/u);
  });

  it("set a password that is typed twice, or comes from standard input, and never show it [D-CLI-2]", async () => {
    const sub = await office.prepare();
    const words = ["accounts", "set-password", sub, "--config", office.config];
    const differ = await office.here(words, typed("one long password", "another password"));
    expect(differ).toMatchObject({ code: 1, err: expect.stringMatching(/^The passwords differ/u) });
    expect(await office.here(words)).toMatchObject({ code: 2 });
    const short = await office.here(words, typed("short", "short"));
    expect(short).toMatchObject({ code: 2, err: expect.stringMatching(/characters/u) });
    const set = await office.here(words, typed("a brand new password", "a brand new password"));
    expect(set).toMatchObject({ code: 0, err: "" });
    await expect(office.service.accounts.verifyPassword(sub, "a brand new password")).resolves.toBe(true);
    const read = await office.here(words, { readInput: async () => `${SECRETS.password}\r\nmore` });
    expect(read).toMatchObject({ code: 0 });
    await expect(office.service.accounts.verifyPassword(sub, SECRETS.password)).resolves.toBe(true);
  });

  it("ask before an account is deleted: the answer no, and an interruption, change nothing [D-CLI-1, D-CLI-4]", async () => {
    const sub = await office.prepare();
    const words = ["accounts", "delete", sub, "--config", office.config];
    const no = await office.here(words, { ask: async () => "no" });
    expect(no).toMatchObject({ code: 1, err: "Nothing was changed.\n" });
    const stop = new AbortController();
    const interrupt = async (): Promise<string> => {
      stop.abort();
      throw stop.signal.reason;
    };
    const interrupted = await office.here(words, { ask: interrupt, signal: stop.signal });
    expect(interrupted).toEqual({ code: 130, out: "", err: "Interrupted.\n" });
    await expect(office.service.accounts.find(sub)).resolves.toBeDefined();
    const yes = await office.here(words, { ask: async () => sub });
    expect(yes).toMatchObject({ code: 0, out: `Deleted: ${sub}\n` });
    await expect(office.service.accounts.find(sub)).resolves.toBeUndefined();
    const { items: records } = await office.service.audit.list({ account: sub, action: "account.deleted" });
    expect(records).toMatchObject([{ actor: { kind: "command_line" } }]);
  });

  it("ask on standard error at a terminal, and print the result alone [D-CLI-3]", async () => {
    const sub = await office.prepare();
    const words = `sign-in-service accounts delete ${sub} --config ${office.config}`;
    // `script` gives the command a terminal, which is its standard input.
    const asked = `printf '${sub}\\n' | script --quiet --command "${words} >out.txt 2>err.txt" /dev/null >&2`;
    const { out, err } = await office.shell(`${asked}; cat out.txt; cat err.txt >&2`);
    expect(out).toBe(`Deleted: ${sub}\n`);
    expect(err).toContain(`Type ${sub} to confirm`);
    await expect(office.service.accounts.find(sub)).resolves.toBeUndefined();
  });

  it("set the rules for refresh tokens of a client, and keep its other settings", async () => {
    const { clients } = office.service;
    const redirect_uris = ["https://shop.example.com/callback"];
    const { client_id } = await clients.register({ name: "Shop", service: "news", redirect_uris });
    for (const rotate of [true, false]) {
      const refresh_tokens = { rotate, reuseWindow: 5 };
      const words = ["clients", "update", client_id, "--refresh-tokens", "-", "--config", office.config];
      const done = await office.here(words, { readInput: async () => JSON.stringify(refresh_tokens) });
      expect(done).toMatchObject({ code: 0 });
      expect(await clients.find(client_id)).toMatchObject({ refresh_tokens, redirect_uris });
    }
  });

  it("show text of other people without what a terminal would obey", async () => {
    const { sub } = await office.service.accounts.create({ email: "eve@example.com", name: "Eve\u200Etxt" });
    const { out } = await office.here(["accounts", "find", sub, "--config", office.config]);
    expect(out).toMatch(/^name +Eve\uFFFDtxt$/mu);
    const json = await office.here(["accounts", "find", sub, "--json", "--config", office.config]);
    expect(json.out).toContain(String.raw`Eve\u200etxt`);
  });

  it("ask before a client's secret stops working, and before a receiver is removed, alone or with what is left out", async () => {
    await office.prepare();
    const config = ["--config", office.config];
    for (const words of [
      ["clients", "rotate-secret", "news"],
      ["services", "put", "news", "--name", "News"],
      ["services", "update", "news", "--remove", "receiver"],
    ])
      expect([words, await office.here([...words, ...config])]).toMatchObject([words, { code: 2, out: "" }]);
    const before = await office.service.directory.services.find("news");
    expect(before).toMatchObject({ group: "media", receiver: { client_id: "sign-in" } });
    const [rotated] = await office.objects("clients", "rotate-secret", "news", "--keep-old-for", "1d");
    expect(rotated).toEqual({ client_id: "news", client_secret: expect.stringMatching(/^\S{32,}$/u) });
    const replaced = [..."services put news --name News --receiver - --yes".split(" "), ...config];
    const readInput = async (): Promise<string> => JSON.stringify(office.receiver);
    expect(await office.here(replaced, { readInput })).toMatchObject({ code: 0 });
    await expect(office.service.directory.services.find("news")).resolves.toMatchObject({ group: null });
    const removed = "services update news --remove receiver --yes".split(" ");
    expect(await office.objects(...removed)).toMatchObject([{ receiver: null }]);
  });

  it("print the times of deliveries in seconds, and say why a delivery can't be sent again [D-CLI-3]", async () => {
    const sub = await office.prepare();
    const id = await office.waiting(sub);
    const [listed] = await office.objects("deliveries", "list", "--account", sub, "--state", "waiting");
    expect(listed).toMatchObject({ id, sub, state: "waiting", receiver: "service:news" });
    expect(Math.abs(Number(listed?.["stored_at"]) - Date.now() / 1000)).toBeLessThan(60);
    const [found] = await office.objects("deliveries", "find", id);
    expect(found).toEqual({ ...listed, history: [] });
    expect(await office.objects("deliveries", "list", "--account", sub, "--state", "parked")).toEqual([]);
    const deletion = ["--account", sub, "--type", "DELETE_ACCOUNT"];
    const [told] = await office.objects("deliveries", "explain", ...deletion);
    expect(told).toMatchObject({ receiver: "service:news", reason: "notified", services: ["news"] });
  });

  it("list records of the audit by account and age, and print new ones once while they come", async () => {
    const sub = await office.prepare();
    await office.objects("sessions", "end", sub);
    const records = await office.objects("audit", "list", "--account", sub, "--since", "7d");
    expect(records).toMatchObject([
      { action: "account.sessions_ended", actor: { kind: "command_line" }, subject: sub },
      { action: "account.assigned" },
      { action: "account.created" },
    ]);
    expect(await office.objects("audit", "list", "--account", sub, "--limit", "1")).toEqual(
      records.slice(0, 1),
    );
    const stop = new AbortController();
    let said = "";
    const tail = office.here(["audit", "tail", "--account", sub, "--json", "--config", office.config], {
      signal: stop.signal,
      out: { write: (part: string) => void (said += part) },
    });
    for (const action of ["disabled", "enabled"]) {
      await office.service.accounts[action === "disabled" ? "disable" : "enable"](sub);
      while (!said.includes(`account.${action}`)) await pause(50);
    }
    stop.abort();
    expect(await tail).toMatchObject({ code: 130 });
    const lines = said.trim().split("\n");
    expect(lines.filter((line) => line.includes("account.disabled")).length).toBe(1);
  }, 60_000);

  it("print a configuration with the source of each value and without secrets", async () => {
    const file = join(folder, "printed.json");
    const mail = {
      url: `smtps://ada:${SECRETS.mail}@mail.example.com?auth=${SECRETS.mail}`,
      from: "a@example.com",
    };
    const keys = { secrets: [SECRETS.sealing], cookies: [SECRETS.cookies] };
    const storage = `postgresql://ada:p@${SECRETS.mail}@db.example.com/x?application_name=a@${SECRETS.mail}`;
    const artifacts = `redis://:${SECRETS.mail}@cache.example.com/1`;
    const config = {
      deployments: { openid: { url: "http://127.0.0.1:1/openid" } },
      storage,
      artifacts,
      mail,
      keys,
      metrics: { token: SECRETS.metrics },
      providers: { google: { client_id: "sign-in", client_secret: SECRETS.provider } },
    };
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    const printed = await office.here(["config", "print", "--json", "--config", file]);
    expect(printed).toMatchObject({ code: 0, err: "" });
    const lines = printed.out.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(
      expect.arrayContaining([
        {
          key: "storage",
          value: "postgresql://[redacted]",
          source: "file",
          otherwise: null,
        },
        {
          key: "artifacts",
          value: "redis://[redacted]@cache.example.com/1",
          source: "file",
          otherwise: null,
        },
        {
          key: "mail.url",
          value: "smtps://[redacted]@mail.example.com?[redacted]",
          source: "file",
          otherwise: null,
        },
        { key: "keys.secrets", value: "[redacted]", source: "file", otherwise: null },
        { key: "metrics.token", value: "[redacted]", source: "file", otherwise: null },
        { key: "providers.google.client_secret", value: "[redacted]", source: "file", otherwise: null },
        { key: "lifetimes.authorizationCode", value: expect.any(Number), source: "default", otherwise: null },
        { key: "stripPrefix", value: null, source: "default", otherwise: "none" },
      ]),
    );
    const checked = await office.here(["config", "check", "--config", office.config]);
    expect(checked).toEqual({ code: 0, out: "The configuration is valid.\n", err: "" });
  });

  it("take every key from a variable of the environment, with or without a file", async () => {
    const mailUrl = join(folder, "mail-url.txt");
    writeFileSync(mailUrl, `smtps://ada:${SECRETS.mail}@mail.example.com\n`);
    const variables = new Map([
      ["SIGN_IN_DEPLOYMENTS_OAUTH2_URL", "http://127.0.0.1:1"],
      ["SIGN_IN_KEYS_SECRETS", SECRETS.sealing],
      ["SIGN_IN_METRICS_TOKEN", SECRETS.metrics],
      ["SIGN_IN_MAIL_URL_FILE", mailUrl],
      ["SIGN_IN_LIFETIMES_ACCESS_TOKEN", "60"],
      ["SIGN_IN_PORT", "8080"],
      ["SIGN_IN_SEED", JSON.stringify({ services: { news: { name: SECRETS.receiver } } })],
    ]);
    const alone = await office.here(["config", "print", "--json"], { variables });
    expect(alone).toMatchObject({ code: 0, err: "" });
    const lines = alone.out.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(
      expect.arrayContaining([
        {
          key: "mail.url",
          value: "smtps://[redacted]@mail.example.com",
          source: "SIGN_IN_MAIL_URL_FILE",
          otherwise: null,
        },
        { key: "keys.secrets", value: "[redacted]", source: "SIGN_IN_KEYS_SECRETS", otherwise: null },
        {
          key: "lifetimes.accessToken",
          value: 60,
          source: "SIGN_IN_LIFETIMES_ACCESS_TOKEN",
          otherwise: null,
        },
        { key: "lifetimes.idToken", value: 3600, source: "default", otherwise: null },
        { key: "port", value: 8080, source: "SIGN_IN_PORT", otherwise: null },
        { key: "seed", value: "[redacted]", source: "SIGN_IN_SEED", otherwise: null },
      ]),
    );
    const named = new Map([
      ["SIGN_IN_CONFIG", office.config],
      ["SIGN_IN_LIFETIMES_ACCESS_TOKEN", "60"],
    ]);
    const both = await office.here(["config", "print"], { variables: named });
    expect(both.out).toMatch(/^storage +file /mu);
    expect(both.out).toMatch(/^lifetimes\.accessToken +SIGN_IN_LIFETIMES_ACCESS_TOKEN +60 /mu);
    expect(await office.here(["accounts", "list", "--limit", "1"], { variables: named })).toMatchObject({
      code: 0,
    });
    expect(await office.here(["storage", "check"], { variables: named })).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^No problems found/u),
    });
    expect(
      await office.here(["storage", "check", "--artifacts", "redis://h"], { variables: named }),
    ).toMatchObject({ code: 2, err: "ADDRESS is missing. See --help.\n" });
    const broken = new Map([...variables, ["SIGN_IN_LIFETIMES_ACCESS_TOKEN", SECRETS.mail]]);
    for (const words of [
      ["config", "check"],
      ["accounts", "list"],
    ]) {
      expect(await office.here(words, { variables: broken })).toEqual({
        code: 2,
        out: "",
        err: "config.lifetimes.accessToken: must be a whole number from 1 to 315360000 (SIGN_IN_LIFETIMES_ACCESS_TOKEN)\n",
      });
    }
    const process = new Map([...variables, ["SIGN_IN_PORT", "x"], ["SIGN_IN_SEED", '{"services":[]}']]);
    expect(await office.here(["config", "check"], { variables: process })).toMatchObject({
      code: 2,
      err: expect.stringMatching(
        /^config\.port: must be .* 65535 \(SIGN_IN_PORT\)\nconfig\.seed\.services: must be .* \(SIGN_IN_SEED\)\n$/u,
      ),
    });
    expect(await office.here(["config", "check"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^There is no configuration: .*--config/u),
    });
    const { code, out } = await office.shell(
      `ln sign-in.json other.json && SIGN_IN_CONFIG=other.json SIGN_IN_FEATURES_DPOP=true sign-in-service config print`,
    );
    expect([code, out]).toEqual([0, expect.stringMatching(/^features\.dpop +SIGN_IN_FEATURES_DPOP +true/mu)]);
    // The file of the current folder.
    const usual = await office.shell("sign-in-service config check");
    expect(usual).toMatchObject({ code: 0, out: "The configuration is valid.\n" });
  });

  // The last test: it looks at what all others have printed.
  it("never print a secret [D-CLI-3]", () => {
    expect(office.printed).not.toBe("");
    for (const [name, secret] of Object.entries(SECRETS))
      expect([name, office.printed.includes(secret)]).toEqual([name, false]);
    expect(office.printed).not.toMatch(/\$argon2|password_hash|sessions_generation|\n {4}at /u);
  });
});

/** A person who types these answers. */
function typed(...answers: string[]): Pick<CommandContext, "askSecret"> {
  return { askSecret: async () => answers.shift() ?? "" };
}

type Wrong = readonly [code: number, says: RegExp, words: readonly string[]];

function wrong(
  sub: string,
  config: readonly string[],
  file: (name: string) => readonly string[],
): readonly Wrong[] {
  const find = ["accounts", "find", "ada@example.com"];
  return [
    [2, /^Unknown command; did you mean accounts\? See --help\.$/mu, ["acounts"]],
    [2, /^Unknown command; did you mean find\?/u, ["accounts", "fnd", "ada@example.com", ...config]],
    [2, /^Unknown command\. See/u, ["frobnicate"]],
    [2, /^Unknown option '--jsn'; did you mean --json\? See/u, [...find, "--jsn", ...config]],
    [2, /^Unknown option '--frobnicate'\. See/u, [...find, "--frobnicate", ...config]],
    [2, /^accounts needs one of find, list, /u, ["accounts"]],
    [2, /^Unknown command/u, ["accounts", "remove", sub]],
    [2, /^Name the account once: /u, ["accounts", "find", ...config]],
    [
      2,
      /^Too many arguments: 'more'\. accounts find takes \[NAME\]; put quotes/u,
      [...find, "more", ...config],
    ],
    [2, /^Unknown option '--password'\./u, [...find, `--password=${SECRETS.password}`, ...config]],
    [2, /^There is no configuration: /u, find],
    [2, /^--config needs a value|^--config FILE needs/u, [...find, "--config"]],
    [2, /none\.json does not exist/u, [...find, ...file("none.json")]],
    [2, /is a folder/u, [...find, "--config", folder]],
    [2, /broken\.json is not valid JSON/u, [...find, ...file("broken.json")]],
    [2, /must contain a JSON object/u, [...find, ...file("list.json")]],
    [2, /^The storage is in memory/u, [...find, ...file("memory.json")]],
    [2, /config\.metrics.*\n.*config\.deployments/su, [...find, ...file("wrong.json")]],
    [3, /none\.db can't be opened: ENOENT/u, [...find, ...file("missing.json")]],
    [3, /./u, [...find, ...file("gone.json")]],
    [2, /^config\.metrics.*\n.*config\.deployments/su, ["config", "check", ...file("wrong.json")]],
    [2, /^config\.metrics/u, ["config", "print", ...file("wrong.json")]],
    [1, /^There is no such account/u, ["accounts", "find", "nobody", ...config]],
    [1, /^There is no such account/u, ["accounts", "disable", "nobody", ...config]],
    [1, /^There is no such account/u, ["accounts", "delete", "__proto__", ...config, "--yes"]],
    [2, /^There is no terminal to ask on/u, ["accounts", "delete", sub, ...config]],
    [2, /^--limit must be a whole number/u, ["accounts", "list", "--limit", "-1", ...config]],
    [2, /^--email is missing/u, ["accounts", "create", ...config]],
    [2, /^account\.email: /u, ["accounts", "create", "--email", "nobody", ...config]],
    [1, /belongs to another account/u, ["accounts", "create", "--email", "ADA@example.com", ...config]],
    [2, /^Service unknown is not known/u, ["accounts", "assign", sub, "unknown", ...config]],
    [
      2,
      /^account\.user_id_in_service: must be/u,
      ["accounts", "assign", sub, "news", "--user-id-in-service", "x", ...config],
    ],
    [1, /^There is no such assignment/u, ["accounts", "unassign", sub, "other", "--yes", ...config]],
    [1, /^There is no such client/u, ["clients", "find", "nobody", ...config]],
    [2, /^--name is missing/u, ["clients", "register", ...config]],
    [
      2,
      /^client\.redirect_uris: is required/u,
      ["clients", "register", "--name", "N", "--service", "news", ...config],
    ],
    [
      2,
      /^--keep-old-for must be a duration/u,
      ["clients", "rotate-secret", "news", "--keep-old-for", "1w", ...config],
    ],
    [2, /^--native must be/u, ["clients", "update", "news", "--native", "maybe", ...config]],
    [2, /none\.png does not exist/u, ["clients", "update", "news", "--logo", "none.png", ...config]],
    [1, /still referenced/u, ["services", "remove", "news", "--yes", ...config]],
    [
      2,
      /^service\.receiver/u,
      [..."services put weather --name W --receiver".split(" "), ...file("wrong.json").slice(1), ...config],
    ],
    [
      2,
      /must contain a JSON object/u,
      ["services", "put", "news", "--name", "News", "--receiver", ...file("list.json").slice(1), ...config],
    ],
    [1, /^This receiver does not exist/u, ["receivers", "test", "portal:old", ...config]],
    [1, /^This delivery does not exist/u, ["deliveries", "redrive", "nothing", ...config]],
    [1, /^There is no such delivery/u, ["deliveries", "discard", "nothing", "--yes", ...config]],
    [2, /^--type is missing/u, ["deliveries", "explain", "--account", sub, ...config]],
    [2, /^--since must be a duration/u, ["audit", "list", "--since", "yesterday", ...config]],
    [2, /^keys rotate takes signing/u, ["keys", "rotate", "cookies", ...config]],
    [2, /--yes/u, ["keys", "retire", "nothing", ...config]],
    [1, /does not exist/u, ["keys", "retire", "nothing", "--yes", ...config]],
  ];
}
