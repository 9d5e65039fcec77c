/** Each operation is one row: its columns, and every view that reads them. */
import { createServer, type RequestListener } from "node:http";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { z } from "zod";
import { exactly } from "../../accounts/arguments.ts";
import {
  type AnyRow,
  type AnyTable,
  facade,
  inputOf,
  invoke,
  isOn,
  membersOf,
  NONE,
  operation,
  operations,
  pageOf,
  type Role,
} from "../../accounts/operations/operation.ts";
import { COMMANDS } from "../../cli/commands.ts";
import { commandOf } from "../../cli/program/operation-command.ts";
import { CALLS, kebab, type Noun, routeOf, rowsOf, TABLES } from "../../administration/tables.ts";
import { ERRORS, type InvalidArgument, type SignInError } from "../../core/errors.ts";
import { AUDIT_ACTIONS } from "../../records/audit/actions.ts";
import { type Office, openOffice } from "../cli/administration-stage.ts";
import { here } from "../cli/here.ts";

let office: Office;
beforeAll(async () => {
  office = await openOffice();
}, 60_000);
afterAll(() => office.close());

const NOUNS = Object.keys(TABLES) as Noun[];
const ROWS = NOUNS.flatMap((noun) =>
  Object.entries(rowsOf(noun)).map(([verb, row]) => [`${noun}.${verb}`, noun, verb, row] as const),
);
const ROLES: readonly Role[] = ["viewer", "support", "administrator"];

const changes = ({ effect }: AnyRow): boolean => effect !== "read" && effect !== "list";
const wordsOf = (noun: string, verb: string, { words }: AnyRow): string =>
  words ?? `${noun} ${verb.replaceAll(/[A-Z]/gu, (letter) => `-${letter.toLowerCase()}`)}`;
const commandFor = (noun: string, verb: string, row: AnyRow) =>
  COMMANDS.commands.find(({ words }) => `${wordsOf(noun, verb, row)} `.startsWith(`${words.join(" ")} `));

describe.each(ROWS)("the operation %s", (name, noun, verb, row) => {
  it("has columns that agree", () => {
    expect(row.example.target).toHaveLength(row.target.length);
    expect(inputOf(row).safeParse(row.example.input).error).toBeUndefined();
    expect(row.audit.length > 0).toBe(changes(row));
    for (const action of row.audit) expect(AUDIT_ACTIONS).toHaveProperty([action]);
    expect(new Set(row.errors).size).toBe(row.errors.length);
    // Nobody needs a right to change for looking, and nobody is asked.
    if (!changes(row)) expect([row.role, row.confirm]).toEqual(["viewer", "none"]);
    if (row.effect === "remove") expect(["final", "typed"]).toContain(row.confirm);
    if (row.confirm === "typed") expect(row.target).not.toEqual([]);
    const shown = row.output instanceof z.ZodObject ? Object.keys(row.output.shape) : undefined;
    if (shown !== undefined)
      expect(shown).toEqual(expect.arrayContaining([...row.columns, ...(row.secret ?? [])]));
    if (row.effect === "list") expect(row.columns).not.toEqual([]);
    // A limited token never may what its role may not, and it sets only members that there are.
    const { role, only = [] }: { role: Role; only?: readonly string[] } =
      row.limited === false ? row : row.limited;
    expect(ROLES.indexOf(role)).toBeGreaterThanOrEqual(ROLES.indexOf(row.role));
    for (const member of only) expect(membersOf(row)).toHaveProperty([member]);
    // Only what changes can be confirmed, and what support may do with accounts it never may with those of operators.
    if (!changes(row)) expect(row).not.toHaveProperty("recent");
    if (noun === "accounts" && row.role === "support") expect(row.errors).toContain("operator_protected");
    if (row.secret !== undefined && isOn(row, "rest")) expect(row.errors).toContain("secret_already_shown");
  });

  it("is a call of the library", () => {
    expect(CALLS[noun](office.service)).toHaveProperty(verb, expect.any(Function));
  });

  it("is a command with an option for each member, and in the reference", () => {
    const command = commandFor(noun, verb, row);
    // `accounts import` reads a file, and calls the operation for each line.
    const expected =
      name === "accounts.import" ? expect.objectContaining({ operands: expect.any(Array) }) : undefined;
    if (!isOn(row, "command")) return expect(command).toEqual(expected);
    expect(command).toMatchObject({ summary: expect.stringMatching(/^\S.+[^.]$/u) });
    const forms = command?.options?.map(({ form }) => form).join(" ");
    for (const [member, schema] of Object.entries(membersOf(row))) {
      // What is required and a secret is asked for.
      const isAsked = schema.meta()?.["holds"] === "secret" && !schema.safeParse(undefined).success;
      const option = new RegExp(`--${kebab(member).replace(/s$/u, "s?")}\\b`, "u");
      const isOperand = command?.operands?.some(({ form }) => `${form.toLowerCase()}s`.startsWith(member));
      expect([member, option.test(forms ?? "")]).toEqual([member, !isAsked && isOperand !== true]);
    }
    for (const { about } of command?.options ?? []) expect(about).not.toBe("");
    const page = `../../docs/reference/command-line/${command?.words[0]}.md`;
    const reference = readFileSync(join(import.meta.dirname, page), "utf8");
    expect(reference).toContain(`\nsign-in-service ${command?.examples[0]}\n`);
  });
});

it.each(["keys list --help", "completion bash -- keys li"])("%s loads no service", (typed) => {
  const told = pathToFileURL(join(import.meta.dirname, "../notifier/loaded-packages.ts")).href;
  const words = ["--import", told, join(import.meta.dirname, "../../cli/main.ts"), ...typed.split(" ")];
  const said = spawnSync(process.execPath, words, { encoding: "utf8" });
  expect(said.stdout).toMatch(/^loaded: commander zod\.$/mu);
});

it("no two operations have the same route", () => {
  const routes = ROWS.filter(([, , , row]) => isOn(row, "rest")).map(([, noun, verb, row]) => {
    const { method, path, named } = routeOf(noun, verb, row);
    // What is no segment is a member of the body.
    for (const target of row.target) expect(path.includes(`{${target}}`)).toBe(!named.includes(target));
    expect(path).toMatch(/^\/v1(?:\/(?:[a-z][a-z-]*|\{[a-z_]+\}))+$/u);
    return `${method} ${path.replaceAll(/\{\w+\}/gu, "{}")}`;
  });
  expect(routes.toSorted()).toEqual([...new Set(routes)].toSorted());
  expect(routes).toEqual(
    expect.arrayContaining([
      "POST /v1/services",
      "PATCH /v1/apis/{}",
      "POST /v1/accounts/{}/set-roles",
      "DELETE /v1/accounts/{}/factors/{}",
      "POST /v1/accounts/{}/identities",
      "GET /v1/accounts/{}/acknowledgements",
      "POST /v1/keys/rotate",
    ]),
  );
});

/** A kind of object that no service has. */
const toys = operations("toy", {
  list: operation({
    effect: "list",
    target: [],
    input: exactly({ soft: z.boolean().optional() }),
    output: exactly({ key: z.string(), soft: z.boolean() }),
    role: "viewer",
    limited: false,
    confirm: "none",
    audit: [],
    errors: [],
    columns: ["key", "soft"],
    example: { target: [], input: { soft: true } },
  }),
  paint: operation({
    effect: "change",
    target: ["key"],
    input: exactly({
      color: z.enum(["red", "blue"], { error: "must be red or blue" }).nullable().optional(),
      layers: z.int({ error: "must be an integer" }).optional(),
      tags: z.array(z.string()).optional(),
    }),
    output: NONE,
    role: "support",
    limited: false,
    confirm: "final",
    audit: ["service.updated"],
    errors: ["not_found"],
    columns: [],
    example: { target: ["bear"], input: { color: "red", layers: 2, tags: ["a", "b c"] } },
  }),
  find: operation({
    effect: "read",
    target: ["key"],
    input: NONE,
    output: exactly({ key: z.string(), wheel: z.string().nullable() }),
    role: "viewer",
    limited: false,
    confirm: "none",
    audit: [],
    errors: [],
    columns: [],
    example: { target: ["bear"], input: {} },
  }),
  mend: operation({
    effect: "change",
    target: ["key"],
    input: exactly({ wheel: z.string().nullable().optional(), color: z.string().nullable().optional() }),
    output: NONE,
    role: "support",
    limited: false,
    confirm: "none",
    final: ["wheel"],
    audit: ["service.updated"],
    errors: ["not_found"],
    columns: [],
    example: { target: ["car"], input: { wheel: "left" } },
  }),
});

describe("a row that is added", () => {
  const painted: unknown[] = [];
  const bear = { key: "bear", soft: true };
  const calls = facade(toys, {
    list: async ({ input: { soft, ...page } }) =>
      pageOf(
        [bear, { key: "car", soft: false }].filter((each) => soft === undefined || each.soft === soft),
        ({ key }) => key,
        page,
      ),
    paint: async (call) => void painted.push(call),
    find: async ({ target: [key] }) => ({ key, wheel: key === "car" ? "left" : null }),
    mend: async (call) => void painted.push(call),
  });
  const table = {
    nouns: { toys: "toys" },
    commands: Object.keys(toys.rows).map((verb) => commandOf("toys", verb, toys, () => calls)),
  };

  const toy = (...words: readonly string[]) => here(["toys", ...words, "--config", office.config], {}, table);

  it("is a call that checks its arguments and the caller", async () => {
    await expect(calls.list({ soft: true })).resolves.toEqual({ items: [bear], next: null });
    await expect(calls.list({ limit: 1 })).resolves.toEqual({ items: [bear], next: "bear" });
    await expect(calls.list({ after: "bear" })).resolves.toMatchObject({ items: [{ key: "car" }] });
    await expect(calls.list({ limit: 0 })).rejects.toThrow(/^filter\.limit: must be an integer from 1/u);
    await calls.paint("bear", { color: null }, { actor: { kind: "operator", id: "ada" } });
    const caller = { actor: { kind: "operator", id: "ada" } };
    expect(painted.pop()).toEqual({ target: ["bear"], input: { color: null }, caller });
    for (const [wrong, says] of [
      [[1, {}], /^key: must be a string$/u],
      [["bear", { color: "pink" }], /^toy\.color: must be red or blue$/u],
      [["bear", { colour: "red" }], /^toy: unknown key colour; did you mean color\?$/u],
      [["bear", null], /^toy: must be an object$/u],
      [["bear", {}, { actor: { kind: "anonymous" } }], /^options\.actor\.kind: /u],
    ] as const)
      await expect(Reflect.apply(calls.paint, calls, wrong)).rejects.toThrow(says);
    expect(painted).toEqual([]);
  });

  it("is a command that reads the same input, asks, and fails alike", async () => {
    const { examples } = table.commands[1]!;
    expect(examples).toEqual(["toys paint bear --color red --layers 2 --tag a --tag 'b c' --yes"]);
    const done = await toy("paint", "bear", "--color", "red", "--layers", "2", "--tag", "a", "--yes");
    expect(done).toEqual({ code: 0, out: "Painted: bear\n", err: "" });
    expect(painted.pop()).toMatchObject({
      target: ["bear"],
      input: { color: "red", layers: 2, tags: ["a"] },
    });
    await toy("paint", "bear", "--remove", "color", "--remove", "tag", "--yes");
    expect(painted.pop()).toMatchObject({ input: { color: null, tags: [] } });
    for (const [words, says] of [
      [["--color", "red"], /--yes/u],
      [["--yes"], /There is nothing to change/u],
      [["--color", "pink", "--yes"], /^toy\.color: must be red or blue/u],
      [["--layers", "2.5", "--yes"], /^toy\.layers: must be an integer/u],
      [["--color", "red", "--remove", "color", "--yes"], /--color is both set and removed/u],
      [["--remove", "layers", "--yes"], /--remove takes one of color, tag/u],
    ] as const) {
      const { code, err } = await toy("paint", "bear", ...words);
      expect([words, code, err]).toEqual([words, 2, expect.stringMatching(says)]);
    }
    expect(painted).toEqual([]);
    const { examples: mend } = table.commands[3]!;
    expect(mend).toEqual(["toys mend car --wheel left"]);
    expect(await toy("mend", "car", "--remove", "wheel")).toMatchObject({
      code: 2,
      err: expect.stringContaining("--yes"),
    });
    expect(painted).toEqual([]);
    for (const words of [
      ["car", "--remove", "wheel", "--yes"],
      ["car", "--wheel", "right"],
      ["car", "--remove", "color"],
      ["bear", "--remove", "wheel"],
    ])
      expect([words, await toy("mend", ...words)]).toMatchObject([words, { code: 0 }]);
    expect(painted.splice(0)).toHaveLength(4);
    const listed = await toy("list", "--soft", "no", "--json");
    expect(listed.out).toBe('{"key":"car","soft":false}\n');
  });
});

const queryOf = (params: URLSearchParams): Record<string, unknown> =>
  Object.fromEntries([...params].map(([name, text]) => [name, /^\d+$/u.test(text) ? Number(text) : text]));

const METHODS = { read: "GET", list: "GET", put: "PUT", change: "PATCH", remove: "DELETE" } as const;

/** Twenty lines of HTTP for every noun. */
const viewOf =
  (tables: Readonly<Record<string, AnyTable>>, callsOf: (noun: string) => object): RequestListener =>
  (request, response) => {
    async function answer(): Promise<readonly [status: number, body?: unknown]> {
      const { pathname, searchParams } = new URL(request.url ?? "", "http://toy");
      const [, noun = "", ...target] = pathname.split("/").map(decodeURIComponent);
      const rows = Object.entries(tables[noun]?.rows ?? {});
      const [verb, row] =
        rows.find(
          ([, { effect, target: wanted }]) =>
            Reflect.get(METHODS, effect) === request.method &&
            wanted.length === target.length &&
            // One of many has a target.
            (effect === "read") === (request.method === "GET" && target.length > 0),
        ) ?? [];
      if (verb === undefined || row === undefined) return [404];
      const input =
        request.method === "GET"
          ? queryOf(searchParams)
          : ((await json(request).catch(() => ({}))) as Record<string, unknown>);
      const options = { actor: { kind: "operator", id: "toy" } } as const;
      const result = await invoke(callsOf(noun), verb, row, { target, input, options });
      return result === undefined || result === false ? [404] : [200, result === true ? undefined : result];
    }
    void answer()
      .catch((error: unknown) => {
        const { code, message } = error as SignInError | InvalidArgument;
        return [ERRORS[code], { detail: message }] as const;
      })
      .then(([status, body]) =>
        response.writeHead(status).end(body === undefined ? undefined : JSON.stringify(body)),
      );
  };

/** Serves a view during a `describe`. */
function served(view: RequestListener) {
  const server = createServer(view);
  let base: string;
  beforeAll(async () => {
    await once(server.listen(0, "127.0.0.1"), "listening");
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await once(server.close(), "close");
  });
  return async (method: string, path: string, body?: object): Promise<readonly [number, unknown]> => {
    const answer = await fetch(base + path, { method, ...(body && { body: JSON.stringify(body) }) });
    const text = await answer.text();
    return [answer.status, text === "" ? undefined : JSON.parse(text)];
  };
}

describe.each(["accounts", "clients", "deliveries", "receivers"] as const)(
  "a row that is planted in the table of %s",
  (noun) => {
    const planted: unknown[] = [];
    const { noun: about, rows } = TABLES[noun] as AnyTable;
    const own = operations(about, {
      paint: operation({
        effect: "put",
        target: ["key"],
        input: exactly({ color: z.enum(["red", "blue"], { error: "must be red or blue" }) }),
        output: exactly({ key: z.string(), color: z.string() }),
        role: "support",
        limited: false,
        confirm: "none",
        audit: ["service.updated"],
        errors: [],
        columns: [],
        example: { target: ["bear"], input: { color: "red" } },
      }),
    });
    const table: AnyTable = { noun: about, rows: { ...rows, ...own.rows } };
    const { paint } = facade(own, {
      async paint({ target: [key], input: { color } }) {
        planted.push(key, color);
        return { key, color };
      },
    });
    const callsOf = (): object => ({ ...CALLS[noun](office.service), paint });
    const http = served(viewOf({ [noun]: table }, callsOf));
    const commands = { nouns: { [noun]: noun }, commands: [commandOf(noun, "paint", table, callsOf)] };
    const command = (color: string) =>
      here([noun, "paint", "bear", "--color", color, "--json", "--config", office.config], {}, commands);

    it("is in the library, on the command line and over HTTP", async () => {
      const bear = { key: "bear", color: "red" };
      expect(await paint("bear", { color: "red" })).toEqual(bear);
      expect(await command("red")).toEqual({ code: 0, out: `${JSON.stringify(bear)}\n`, err: "" });
      expect(await http("PUT", `/${noun}/bear`, { color: "red" })).toEqual([200, bear]);
      expect(planted.splice(0)).toEqual(["bear", "red", "bear", "red", "bear", "red"]);
    });

    it("breaks its rule alike everywhere", async () => {
      const message = `${about}.color: must be red or blue`;
      await expect(paint("bear", { color: "pink" as never })).rejects.toThrow(message);
      expect(await command("pink")).toEqual({ code: 2, out: "", err: `${message}.\n` });
      expect(await http("PUT", `/${noun}/bear`, { color: "pink" })).toEqual([422, { detail: message }]);
      expect(planted).toEqual([]);
    });
  },
);

describe("a view by the table alone", () => {
  const call = served(viewOf(TABLES, (noun) => CALLS[noun as Noun](office.service)));

  it("refuses what breaks the rule of a member as the library and the command line do", async () => {
    const wrong = { name: "a\nb" };
    const put = office.service.directory.groups.put("toys", wrong);
    const message = await put.then(String, (error: unknown) => (error as Error).message);
    expect(message).toMatch(/^group\.name: /u);
    expect(await call("PUT", "/groups/toys", wrong)).toEqual([422, { detail: message }]);
    const command = await office.here([
      "groups",
      "put",
      "toys",
      "--name",
      wrong.name,
      "--config",
      office.config,
    ]);
    expect(command).toEqual({ code: 2, out: "", err: `${message}.\n` });
  });

  it.each([
    ["audit", "action", "sing_in", /^filter\.action: unknown action sing_in; did you mean sign_in\?$/u],
    ["audit", "action", "Ada!", /^filter\.action: unknown action$/u],
    ["deliveries", "type", "UNASSIGNED", /^filter\.type: must be one of DELETE_ACCOUNT, /u],
    ["deliveries", "receiver", "news", /^filter\.receiver: must be service:KEY, /u],
    ["deliveries", "state", "lost", /^filter\.state: must be one of waiting, /u],
  ] as const)("refuses a filter that nothing can match alike everywhere: %s by %s %s", async (...given) => {
    const [noun, member, value, says] = given;
    const list = Reflect.get(CALLS[noun](office.service), "list") as (filter: object) => Promise<unknown>;
    const message = await list({ [member]: value }).then(
      String,
      (error: unknown) => (error as Error).message,
    );
    expect(message).toMatch(says);
    expect(await call("GET", `/${noun}?${member}=${value}`)).toEqual([422, { detail: message }]);
    const command = await office.here([noun, "list", `--${member}`, value, "--config", office.config]);
    const end = message.endsWith("?") ? "" : ".";
    expect(command).toMatchObject({ code: 2, err: expect.stringContaining(message + end) });
  });

  it("lists and shows receivers and deliveries", async () => {
    const id = await office.waiting(await office.prepare());
    const { notifications } = office.service;
    expect(await call("GET", "/receivers?limit=1")).toEqual([
      200,
      await notifications.receivers({ limit: 1 }),
    ]);
    const receiver = await notifications.receiver("service:news");
    expect(await call("GET", "/receivers/service%3Anews")).toEqual([200, receiver]);
    expect(await call("GET", "/receivers/service%3Anone")).toEqual([404, undefined]);
    expect(await call("GET", "/deliveries?limit=1")).toEqual([200, await notifications.list({ limit: 1 })]);
    expect(await call("GET", `/deliveries/${id}`)).toEqual([200, await notifications.find(id)]);
  });

  it("lists, shows and changes accounts", async () => {
    const { accounts } = office.service;
    const sub = await office.prepare();
    expect(await call("GET", "/accounts?limit=1")).toEqual([200, await accounts.list({ limit: 1 })]);
    const before = await accounts.find(sub);
    expect(await call("GET", `/accounts/${sub}`)).toEqual([200, before]);
    const [status, changed] = await call("PATCH", `/accounts/${sub}`, { surname: "Hopper", gender: null });
    expect([status, changed]).toEqual([200, await accounts.find(sub)]);
    expect(changed).toMatchObject({ sub, surname: "Hopper", gender: null });
    expect(await call("PATCH", `/accounts/${sub}`, { email: 1 })).toEqual([
      422,
      { detail: expect.stringMatching(/^account\.email: /u) },
    ]);
    expect(await call("GET", "/accounts/nobody")).toEqual([404, undefined]);
  });

  it("lists, shows, changes and removes, and fails as the library does", async () => {
    await office.prepare();
    const groups = await office.service.directory.groups.list({ limit: 1 });
    expect(await call("GET", "/groups?limit=1")).toEqual([200, groups]);
    expect(await call("PUT", "/groups/toys", { name: "Toys" })).toEqual([
      200,
      { key: "toys", name: "Toys", receiver: null },
    ]);
    expect(await call("GET", "/groups/toys")).toEqual([
      200,
      await office.service.directory.groups.find("toys"),
    ]);
    expect(await call("PUT", "/groups/toys", { nam: "Toys" })).toEqual([
      422,
      { detail: expect.stringContaining("did you mean name?") },
    ]);
    expect(await call("DELETE", "/groups/media")).toEqual([
      409,
      { detail: expect.stringContaining("service:news") },
    ]);
    expect(await call("DELETE", "/groups/toys")).toEqual([200, undefined]);
    expect(await call("DELETE", "/groups/toys")).toEqual([404, undefined]);
    expect(await call("GET", "/nothing")).toEqual([404, undefined]);
    const { items: records } = await office.service.audit.list({ action: "group.removed" });
    expect(records[0]).toMatchObject({ subject: "toys", actor: { kind: "operator", id: "toy" } });
  });
});
