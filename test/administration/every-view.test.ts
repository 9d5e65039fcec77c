/**
 * Each operation from the example of its row, as a call of the library, as a command, over HTTP and by the typed client: the same comes
 * back and the audit says the same. And what comes over HTTP is what the OpenAPI document promises.
 */
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { describe, expect, it } from "@jest/globals";
import { z } from "zod";
import { type AnyRow, changes, invoke, isOn } from "../../accounts/operations/operation.ts";
import { createAdministrationClient } from "../../administration/index.ts";
import { openApiDocument } from "../../administration/open-api.ts";
import { CALLS, kebab, type Noun, routeOf, rowsOf, segmentOf, TABLES } from "../../administration/tables.ts";
import { exampleOf } from "../../cli/program/operation-options.ts";
import { openOffice } from "../cli/administration-stage.ts";
import { atEnd, beforeTests } from "../closing.ts";

type Json = Readonly<Record<string, unknown>>;
interface Place {
  readonly noun: Noun;
  readonly verb: string;
  readonly row: AnyRow;
  readonly target: readonly string[];
  readonly input: Json;
}
type View = (place: Place) => Promise<unknown>;

/** What is only a call of the library has no other view; and a command writes an export as its format says. */
const ROWS = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
  Object.entries(rowsOf(noun))
    .filter(([verb, row]) => (isOn(row, "rest") || isOn(row, "command")) && verb !== "export")
    .map(([verb, row]) => [`${noun}.${verb}`, noun, verb, row] as const),
);
const wordsOf = (noun: string, verb: string, { words }: AnyRow): string => words ?? `${noun} ${kebab(verb)}`;

const stage = beforeTests(async () => {
  const office = await openOffice();
  atEnd(() => office.close());
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const application = new Koa().use(office.service.administration({ url }));
  const answer = application.callback();
  server.on("request", (request, response) => void answer(request, response));
  atEnd(() => server.close().closeAllConnections());
  const tokens = Object.fromEntries(
    await Promise.all(
      (["viewer", "support", "administrator"] as const).map(async (role) => {
        const { token } = await office.service.tokens.create({ role, expires: 86_400 });
        return [role, token] as const;
      }),
    ),
  );
  return {
    office,
    url,
    tokens,
    client: createAdministrationClient({ url, token: tokens["administrator"]! }),
  };
});

/** A request of a row, with the token of an administrator unless it says otherwise. */
async function send(
  { noun, verb, row, target, input }: Place,
  {
    token = stage.tokens["administrator"]!,
    headers = {},
  }: { token?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const { method, path, named, isQuery } = routeOf(noun, verb, row);
  const segments = named.length > 0 ? [] : [...target];
  const address = path.replaceAll(/\{\w+\}/gu, () => segmentOf(segments.shift() ?? ""));
  const body = { ...Object.fromEntries(named.map((name, index) => [name, target[index]])), ...input };
  const query = new URLSearchParams(
    Object.entries(input).flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)])),
  );
  return fetch(`${stage.url}${address}${isQuery && query.size > 0 ? `?${query}` : ""}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...headers },
    ...(!isQuery && { body: JSON.stringify(body) }),
  });
}

/** Of a list the items; nothing for what only says that it was done. */
const resultOf = (row: AnyRow, result: unknown): unknown => {
  if (result === undefined || result === true) return null;
  return row.effect === "list" ? (result as { readonly items: unknown }).items : result;
};

const VIEWS: Readonly<Record<string, { readonly on: (row: AnyRow) => boolean; readonly run: View }>> = {
  library: {
    on: (row) => isOn(row, "library"),
    async run({ noun, verb, row, target, input }) {
      const calls = CALLS[noun](stage.office.service);
      return resultOf(row, await invoke(calls, verb, row, { target, input, options: {} }));
    },
  },
  rest: {
    on: (row) => isOn(row, "rest"),
    async run(place) {
      const response = await send(place);
      const result = await conforming(place, response);
      const { row } = place;
      const isWrapped = row.effect === "list" || row.output instanceof z.ZodReadonly;
      return isWrapped ? (result as { readonly items: unknown }).items : result;
    },
  },
  client: {
    on: (row) => isOn(row, "rest"),
    async run({ noun, verb, row, target, input }) {
      const { positional = [] } = row as { readonly positional?: readonly string[] };
      const others = Object.entries(input).filter(([name]) => !positional.includes(name));
      const takesInput = others.length > 0 || row.effect === "list";
      const args = [
        ...target,
        ...positional.map((name) => input[name]),
        ...(takesInput ? [Object.fromEntries(others)] : []),
      ];
      const call = Reflect.get(stage.client[noun], verb) as (...args: readonly unknown[]) => Promise<unknown>;
      return resultOf(row, await call(...args));
    },
  },
  command: {
    on: (row) => isOn(row, "command"),
    async run({ noun, verb, row, target, input }) {
      const example = { ...row, example: { target, input } } as AnyRow;
      const line = exampleOf(wordsOf(noun, verb, row).split(" "), example);
      const { code, out, err } = await stage.office.example(line.replace(/(?= < |$)/u, " --json"));
      expect([line, code, err]).toEqual([line, 0, expect.any(String)]);
      const lines = out
        .split("\n")
        .filter((each) => each !== "")
        .map((each) => JSON.parse(each) as Json);
      const isMany = row.effect === "list" || row.output instanceof z.ZodReadonly;
      if (Object.keys((row.output as { readonly shape?: object }).shape ?? { some: 1 }).length === 0)
        return null;
      // `keys list` also prints the ids of secrets.
      const own = noun === "keys" ? lines.filter((each) => "kid" in each) : lines;
      return isMany ? own : own[0];
    },
  },
};

const document = openApiDocument();
const schemas = (document["components"] as { readonly schemas: Json }).schemas;
const references = { ...(document["components"] as Json) };

/** The schema of the document as zod has it: no member that it does not name. */
function schemaOf(schema: unknown): z.ZodType {
  const closed = JSON.parse(
    JSON.stringify({ ...(schema as Json), $defs: schemas }).replaceAll("#/components/schemas/", "#/$defs/"),
    (_key, each: unknown) =>
      typeof each === "object" &&
      each !== null &&
      "properties" in each &&
      "type" in each &&
      !("additionalProperties" in each)
        ? { ...each, additionalProperties: false }
        : each,
  ) as Parameters<typeof z.fromJSONSchema>[0];
  return z.fromJSONSchema(closed);
}

interface Promised {
  readonly headers?: Json;
  readonly content?: Readonly<Record<string, { readonly schema: Json }>>;
}

interface Operation {
  readonly responses: Readonly<Record<string, Promised & { readonly $ref?: string }>>;
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

function operationOf({ noun, verb, row }: Omit<Place, "target" | "input">): Operation {
  const { method, path } = routeOf(noun, verb, row);
  return (document["paths"] as Paths)[path]![method.toLowerCase()]!;
}

/** The body of an answer, which is as the document says. */
async function conforming(place: Place, response: Response): Promise<unknown> {
  const { path } = routeOf(place.noun, place.verb, place.row);
  const { responses } = operationOf(place);
  const text = await response.text();
  const given = responses[response.status];
  expect([path, response.status, text, given !== undefined]).toEqual([path, response.status, text, true]);
  const answers = references["responses"] as Readonly<Record<string, Promised>>;
  const promised = given?.$ref === undefined ? given! : answers[given.$ref.split("/").at(-1)!]!;
  expect([path, response.headers.has("ETag")]).toEqual([path, promised.headers?.["ETag"] !== undefined]);
  const [[type, { schema }] = ["", { schema: undefined }]] = Object.entries(promised.content ?? {});
  expect([path, response.headers.get("Content-Type")?.split(";")[0] ?? ""]).toEqual([path, type]);
  if (schema === undefined) {
    expect(text).toBe("");
    return null;
  }
  const body: unknown = JSON.parse(text);
  expect([path, text, schemaOf(schema).safeParse(body).error?.issues]).toEqual([path, text, undefined]);
  return body;
}

/** What differs from one call to the next: identifiers, times, secrets, who asks, and the mark in what must be unique. */
function normal(value: unknown, mark: string): unknown {
  const text = JSON.stringify(value ?? null)
    .replaceAll(mark === "" ? /$/gu : mark, "")
    .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|\btok_[\w-]+|\b\d{16}-[\da-f]{12}\b/gu, "ID")
    .replaceAll(/"[\w-]{32,}"|"[\dA-Z]{5}-[\dA-Z]{5}"/gu, '"SECRET"')
    .replaceAll(/(?<="(?:user_id|sequence|redriven|\w+_ms|kid)":)(?:[\d.]+|"[^"]*")/gu, '"N"')
    .replaceAll(/(?<="(?:actor|invited_by)":)\{[^}]*\}/gu, '"SOMEBODY"')
    .replaceAll(/(?<=:)1[6-9]\d{8}\b/gu, '"TIME"');
  return JSON.parse(text);
}

/** What a change needs besides what the examples name, so that there is something to change each time. */
async function prepare({ noun, verb }: Pick<Place, "noun" | "verb">, sub: string): Promise<void> {
  const { accounts, clients, directory, keys } = stage.office.service;
  if (noun === "clients") await clients.remove("news");
  await stage.office.prepare();
  if (verb === "enable") await (noun === "clients" ? clients.disable("news") : accounts.disable(sub));
  if (verb === "assign") await accounts.unassign(sub, "news");
  if (verb === "update" || verb === "put")
    for (const part of [directory.services, directory.groups, directory.portals])
      for (const { key } of (await part.list()).items) await part.update(key, { name: "Another" });
  if (verb === "rotate")
    for (const { kid, state } of (await keys.list()).items) if (state === "published") await keys.retire(kid);
}

/** Puts what the example names where it expects it, and gives what is made a name of its own. */
async function placed(noun: Noun, verb: string, row: AnyRow, mark: string): Promise<Place> {
  const { office } = stage;
  const text = JSON.stringify(row.example)
    .replaceAll(/"(?:shop|radio|1\d{20})(?=")/gu, `$&${mark}`)
    .replaceAll(/(?:grace|hedy)(?=@)|(?<=https:\/\/)new(?=\.)/gu, `$&${mark}`)
    .replaceAll(/(?<="since":)\d+/gu, String(Math.floor(Date.now() / 1_000) - 7 * 86_400))
    .replaceAll(/"receiver":\{[^}]*\}/gu, `"receiver":${JSON.stringify(office.receiver)}`);
  const words = wordsOf(noun, verb, row);
  const all = await office.placed(`${words} ${text}`);
  const { target, input } = JSON.parse(all.slice(words.length + 1)) as Pick<Place, "target" | "input">;
  if (changes(row)) await prepare({ noun, verb }, target[0] ?? "");
  return { noun, verb, row, target, input };
}

/** What the audit has recorded since, but for the looks at a person. */
async function recordedBy(
  run: () => Promise<unknown>,
): Promise<readonly [result: unknown, actions: readonly string[]]> {
  const { audit } = stage.office.service;
  const [last] = (await audit.list({ limit: 1 })).items;
  const result = await run();
  const { items } = await audit.list({ limit: 100 });
  const at = items.findIndex(({ id }) => id === last?.id);
  const actions = items.slice(0, at === -1 ? undefined : at).map(({ action }) => action);
  return [result, actions.filter((action) => action !== "account.viewed").toSorted()];
}

/** What finds nothing to do here: no attribute has gone, and nothing is held after a restore. */
const UNCHANGED: ReadonlySet<string> = new Set(["accounts.pruneAttributes", "deliveries.resume"]);

describe.each(ROWS)("%s", (_name, noun, verb, row) => {
  const views = Object.entries(VIEWS).filter(([, { on }]) => on(row));

  it("does the same in every view, and says the same in the audit [D-ADM-291]", async () => {
    let place = await placed(noun, verb, row, "");
    const seen: { readonly view: string; readonly result: unknown; readonly actions: readonly string[] }[] =
      [];
    for (const [view, { run }] of views) {
      const mark = changes(row) ? `q${view}` : "";
      if (mark !== "") place = await placed(noun, verb, row, mark);
      const [result, actions] = await recordedBy(() => run(place));
      seen.push({ view, result: normal(result, mark), actions });
    }
    const [{ result, actions } = { result: undefined, actions: [] }] = seen;
    expect(seen).toEqual(seen.map(({ view }) => ({ view, result, actions })));
    // A change that happens is recorded, and a look is not.
    const others = actions.filter((action) => !row.audit.some((each) => each === action));
    const isRecorded = !UNCHANGED.has(`${noun}.${verb}`) && row.audit.length > 0;
    expect([noun, verb, actions.length > 0, others]).toEqual([noun, verb, isRecorded, []]);
  });
});

describe.each(ROWS.filter(([, , , row]) => isOn(row, "rest")))("%s over HTTP", (_name, noun, verb, row) => {
  it("refuses as the document says [D-ADM-292]", async () => {
    const place = await placed(noun, verb, row, "qrefused");
    const { headers: stale } = { headers: { "If-Match": '"another state"' } };
    const nothing = {
      ...place,
      target: row.target.map((name) => (name === "sub" ? "00000000-0000-4000-8000-000000000000" : "nothing")),
    };
    const unknown = { ...place, input: { ...place.input, colour: "red" } };
    const cases: readonly (readonly [what: string, sent: Promise<Response>, statuses: readonly number[]])[] =
      [
        ["no token", send(place, { token: "sis_nobody" }), [401]],
        ["an unknown member", send(unknown), [422]],
        ...(row.role === "viewer"
          ? []
          : [["another role", send(place, { token: stage.tokens["viewer"]! }), [403]] as const]),
      ];
    for (const [what, sent, statuses] of cases) {
      const response = await sent;
      expect([what, statuses.includes(response.status)]).toEqual([what, true]);
      await conforming(place, response);
    }
    if (row.target.length > 0 && routeOf(noun, verb, row).named.length === 0)
      await conforming(place, await send(nothing));
    const isPromised = "412" in operationOf(place).responses;
    if (!changes(row)) return expect(isPromised).toBe(false);
    const answer = await send(place, { headers: stale });
    expect([noun, verb, answer.status === 412]).toEqual([noun, verb, isPromised]);
    await conforming(place, answer);
  });

  if (routeOf(noun, verb, row).method === "POST" && changes(row))
    it("answers a repeat as the document says, and the typed client as its types [D-ADM-293]", async () => {
      const place = await placed(noun, verb, row, "qagain");
      const headers = { "Idempotency-Key": `${noun}.${verb}` };
      const first = await send(place, { headers });
      await conforming(place, first);
      const again = await send(place, { headers });
      const { status } = again;
      const body = await conforming(place, again);
      if (row.secret !== undefined)
        return expect([status, body]).toEqual([
          409,
          expect.objectContaining({ code: "secret_already_shown" }),
        ]);
      // It runs again, and finds that there is nothing to do.
      if (row.store === "elsewhere")
        return expect([noun, verb, [first.status, 409].includes(status)]).toEqual([noun, verb, true]);
      const hasForgotten = "204" in operationOf(place).responses && first.status !== 204;
      expect([noun, verb, status]).toEqual([noun, verb, hasForgotten ? 204 : first.status]);
    });
});
