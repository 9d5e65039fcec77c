/** The OpenAPI document of `/v1`: paths, parameters, bodies and answers follow from the rows of the operations. */
import { z } from "zod";
import {
  type AnyRow,
  type AnyTable,
  changes,
  inputOf,
  isOn,
  membersOf,
  type PositionName,
} from "../accounts/operations/operation.ts";
import { isRequired, textsOf } from "../config/documented-schema.ts";
import { ERRORS } from "../core/errors.ts";
import { OPERATION_TEXTS } from "./operation-texts.ts";
import { PROBLEMS } from "./rest/problems.ts";
import { isForgotten, type Route, routeOf, searchPathOf, TABLES } from "./tables.ts";

/** A part of the document. */
export type Json = Readonly<Record<string, unknown>>;

/** What our schemas say besides JSON Schema. */
const OURS = ["form", "writtenForm", "otherwise", "holds", "unit", "option", "restart", "values", "readOnly"];

const SUB_TEXT = "The `sub` of the account.";
const SEGMENT_TEXT =
  "In a path, an identifier is percent-encoded, or written as `b64:` and its Base64url where a proxy changes encoded slashes.";

/** What any operation may answer. */
const EVERYWHERE: readonly number[] = [400, 401, 403, 422, 429, 503];

const sentence = (text: string): string => (/[.:]$/u.test(text) ? text : `${text}.`);

/** Without what is about the command line, or about values that a reader of answers never sets. */
function withoutCommands(text: string): string {
  return text
    .split(/(?<=\.)\s+/u)
    .filter((each) => !/\b(?:command|Exits)\b/u.test(each))
    .join(" ");
}

/** Drops what says nothing: the bounds of every integer; and of an answer that it never gets more members. */
function simpler(value: unknown, io: "input" | "output"): unknown {
  if (Array.isArray(value)) return value.map((each) => simpler(each, io));
  if (typeof value !== "object" || value === null) return value;
  const isSaid = ([keyword, each]: readonly [string, unknown]): boolean =>
    Math.abs(Number(each)) === Number.MAX_SAFE_INTEGER ||
    keyword === "propertyNames" ||
    (keyword === "additionalProperties" && each === false && io === "output");
  return Object.fromEntries(
    Object.entries(value)
      .filter((entry) => !isSaid(entry))
      .map(([keyword, each]) => [
        keyword,
        keyword === "$ref" ? String(each).replace("#/$defs/", "#/components/schemas/") : simpler(each, io),
      ]),
  );
}

function convert(schema: z.ZodType, io: "input" | "output"): Record<string, unknown> {
  return z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override({ jsonSchema }) {
      const { values, option, holds } = jsonSchema as Record<string, unknown>;
      for (const key of OURS) Reflect.deleteProperty(jsonSchema, key);
      if (values instanceof z.ZodType)
        Object.assign(jsonSchema, {
          type: "object",
          additionalProperties: withoutDialect(convert(values, io)),
        });
      if (option === "bytes") {
        Reflect.deleteProperty(jsonSchema, "anyOf");
        Object.assign(jsonSchema, { type: ["string", "null"], contentEncoding: "base64" });
      }
      if (holds === "secret") jsonSchema.format = "password";
    },
  }) as Record<string, unknown>;
}

function withoutDialect({ $schema: _dialect, ...schema }: Record<string, unknown>): Record<string, unknown> {
  return schema;
}

/** The schemas of answers that have a name. */
class Components {
  readonly schemas: Record<string, Json> = {};

  /** The schema of an answer; what has an id is a reference. */
  answer(schema: z.ZodType): Json {
    const { properties, $defs = {} } = convert(z.object({ answer: schema }), "output");
    for (const [id, each] of Object.entries($defs as Record<string, Record<string, unknown>>)) {
      const { id: _id, ...definition } = each;
      this.schemas[id] ??= described(
        simpler(definition, "output") as Json,
        OPERATION_TEXTS.outputs[id] ?? {},
      );
    }
    return simpler((properties as { readonly answer: unknown }).answer, "output") as Json;
  }

  /** A named schema, made once. */
  named(id: string, schema: Json): Json {
    this.schemas[id] ??= schema;
    return { $ref: `#/components/schemas/${id}` };
  }
}

/** An object with the texts of its members. Of a default of inputs an answer says nothing. */
function described(schema: Json, texts: Readonly<Record<string, string>>): Json {
  const { properties = {} } = schema;
  const all = Object.entries(properties as Record<string, Json>).map(([name, each]) => {
    const text = (Object.hasOwn(texts, name) ? texts[name] : "")?.replace(/ Default: .*$/u, "") ?? "";
    return [name, text === "" ? each : { ...each, description: text }] as const;
  });
  return { ...schema, properties: Object.fromEntries(all) };
}

/** Name → schema of everything that an operation takes besides its target, with the texts. */
function inputMembers(operation: string, row: AnyRow): Record<string, Json> {
  const { properties = {} } = simpler(convert(inputOf(row), "input"), "input") as {
    properties?: Record<string, Json>;
  };
  const texts: Readonly<Record<string, string>> = {
    ...OPERATION_TEXTS.operations[operation]?.members,
    ...(row.effect === "list" && {
      limit: "The most items of a page, 1 to 200. Default: 50.",
      after: "`next` of the page before. Default: the first page.",
    }),
  };
  const members = membersOf(row);
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      const { form } = textsOf(members[name]);
      // Links lead from one page of the documentation to another.
      const rule =
        form === undefined || form.includes("](")
          ? []
          : [`${form.slice(0, 1).toUpperCase()}${form.slice(1)}`];
      const description = [withoutCommands(texts[name] ?? ""), ...rule]
        .filter((each) => each !== "")
        .map(sentence);
      const limits = name === "limit" && row.effect === "list" ? { maximum: 200, default: 50 } : {};
      return [
        name,
        { ...schema, ...limits, ...(description.length > 0 && { description: description.join(" ") }) },
      ];
    }),
  );
}

const operandText = (name: PositionName): string =>
  name === "sub" ? SUB_TEXT : sentence(OPERATION_TEXTS.operands[name] ?? "");

/** The body with these members: `undefined` if the operation takes none. */
function bodyOf(
  row: AnyRow,
  members: Readonly<Record<string, Json>>,
  named: readonly PositionName[],
): Json | undefined {
  const properties = {
    ...Object.fromEntries(named.map((name) => [name, { type: "string", description: operandText(name) }])),
    ...members,
  };
  if (Object.keys(properties).length === 0) return undefined;
  const schemas = membersOf(row);
  const required = Object.keys(members).filter((name) => name in schemas && isRequired(schemas[name]));
  const schema = {
    type: "object",
    properties,
    ...(named.length + required.length > 0 && { required: [...named, ...required] }),
    additionalProperties: false,
  };
  const isNeeded = named.length + required.length > 0 || row.effect === "change";
  return { required: isNeeded, content: { "application/json": { schema } } };
}

/** A parameter of the query. A list repeats its name. */
function parameterOf(name: string, { description, ...schema }: Json, isNeeded: boolean): Json {
  return {
    name,
    in: "query",
    ...(isNeeded && { required: true }),
    ...(description !== undefined && { description }),
    schema,
  };
}

function queryOf(row: AnyRow, members: Readonly<Record<string, Json>>): Json[] {
  const schemas = membersOf(row);
  return Object.entries(members).map(([name, schema]) =>
    parameterOf(name, schema, name in schemas && isRequired(schemas[name])),
  );
}

const header = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });

const REPEATED: Json = {
  description:
    "An earlier request with this `Idempotency-Key` has done it. What that one answered is not kept, and can't be read again.",
};

/** Whether its answer is the record with its tag. */
function isTagged(row: AnyRow, { rows }: AnyTable): boolean {
  const find = rows["find"];
  return (
    find !== undefined && find.deliveries !== true && row.effect !== "list" && row.output === find.output
  );
}

/** Whether the change can be meant for one state of a record. */
function isConditional(row: AnyRow, { rows: { find } }: AnyTable, { named }: Route): boolean {
  return changes(row) && row.target.length > named.length && find !== undefined && find.deliveries !== true;
}

/** What the operation answers when it works. */
function answerOf(row: AnyRow, { noun, table, components }: Place): readonly [status: number, answer: Json] {
  const isNothing = row.output instanceof z.ZodObject && Object.keys(row.output.shape).length === 0;
  if (row.effect === "remove" || isNothing) return [204, { description: "Done." }];
  const item = components.answer(row.output);
  const schema =
    row.effect === "list"
      ? components.named(`${nameOf(item, noun)}Page`, page(item))
      : item["type"] === "array"
        ? { type: "object", properties: { items: item }, required: ["items"] }
        : item;
  return [
    row.effect === "create" ? 201 : 200,
    {
      description: row.effect === "create" ? "It is made." : "Done.",
      ...(isTagged(row, table) && { headers: { ETag: { $ref: "#/components/headers/ETag" } } }),
      content: { "application/json": { schema } },
    },
  ];
}

/** The name of a schema that is a reference; of another one that of the noun. */
function nameOf({ $ref }: Json, noun: string): string {
  const name = typeof $ref === "string" ? $ref.split("/").at(-1) : undefined;
  return name ?? `${noun.slice(0, 1).toUpperCase()}${noun.slice(1)}`;
}

function page(item: Json): Json {
  return {
    type: "object",
    properties: {
      items: { type: "array", items: item },
      next: {
        type: ["string", "null"],
        description:
          "`after` of the next page; `null` at the end. A page may be short, even empty, although there is a next one.",
      },
    },
    required: ["items", "next"],
  };
}

/** The refusals of an operation, by status. */
function refusals(row: AnyRow, hasBody: boolean, { named }: Route): Json {
  const statuses = new Set([
    ...EVERYWHERE,
    ...(row.target.length > 0 ? [404] : []),
    ...(changes(row) && row.target.length > named.length ? [412] : []),
    ...(hasBody ? [413, 415] : []),
    // A repeat of what is gone, and two of one key at a time.
    ...(["create", "verb"].includes(row.effect) ? [409, 410] : []),
    ...row.errors.map((code) => ERRORS[code]),
  ]);
  return Object.fromEntries(
    [...statuses]
      .toSorted((a, b) => a - b)
      .map((status) => [status, { $ref: `#/components/responses/Problem${status}` }]),
  );
}

/** Where an operation stands. */
interface Place {
  readonly noun: string;
  readonly table: AnyTable;
  readonly components: Components;
}

function operationOf(place: Place, verb: string, row: AnyRow): readonly [string, string, Json] {
  const { noun, table } = place;
  const name = `${noun}.${verb}`;
  const { summary = "", about = "" } = OPERATION_TEXTS.operations[name] ?? {};
  const route = routeOf(noun, verb, row);
  const { method, path, named, isQuery } = route;
  const members = inputMembers(name, row);
  const conditional = isConditional(row, table, route);
  const parameters = [
    ...row.target
      .filter((each) => !named.includes(each))
      .map((each) => ({
        name: each,
        in: "path",
        required: true,
        description: operandText(each),
        schema: { type: "string" },
      })),
    ...(isQuery ? queryOf(row, members) : []),
    ...(conditional ? [header("IfMatch")] : []),
    ...(method === "POST" ? [header("IdempotencyKey")] : []),
  ];
  const body = isQuery ? undefined : bodyOf(row, members, named);
  const [status, answer] = answerOf(row, place);
  const description = about
    .split("\n\n")
    .map(withoutCommands)
    .filter((each) => each !== "")
    .join("\n\n");
  const operation = {
    operationId: name,
    tags: [noun],
    summary: summary.replace(/\.$/u, ""),
    ...(description !== "" && { description }),
    "x-role": row.role,
    ...(row.deliveries === true && { "x-deliveries": true }),
    ...(row.limited !== false && { "x-limited": row.limited }),
    ...(row.errors.length > 0 && { "x-problems": row.errors }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: {
      [status]: answer,
      ...(status !== 204 && isForgotten(noun, row, table.rows["find"]) && { 204: REPEATED }),
      ...refusals(row, body !== undefined, route),
    },
  };
  return [path, method.toLowerCase(), operation];
}

/** The same list as a POST, so that what somebody looks for stands in no address. */
function searchOf(noun: string, row: AnyRow, path: string, list: Json): readonly [string, string, Json] {
  const { parameters: _query, operationId: _id, ...shared } = list;
  const body = bodyOf(row, inputMembers(`${noun}.list`, row), []);
  const operation = {
    operationId: `${noun}.search`,
    ...shared,
    description:
      "As the list with the same filters. What is looked for is not in the address, which proxies log.",
    ...(body !== undefined && { requestBody: body }),
  };
  return [path, "post", operation];
}

const problem: Json = {
  type: "object",
  description: "RFC 9457. Switch over `code`: it is never renamed. Later versions may have further codes.",
  properties: {
    type: { type: "string", description: "`urn:sign-in-service:problem:` and the code." },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string", description: "For people. It repeats no value." },
    code: { type: "string", examples: ["name_taken"] },
    errors: {
      type: "array",
      description: "What is wrong with the input.",
      items: {
        type: "object",
        properties: {
          pointer: { type: "string", description: "A JSON Pointer into the body." },
          parameter: { type: "string", description: "A parameter of the query." },
          header: { type: "string", description: "A header." },
          detail: { type: "string" },
        },
        required: ["detail"],
      },
    },
    references: { type: "array", items: { type: "string" }, description: "What still refers to it." },
    request_id: { type: "string", description: "As in the log and in the audit." },
  },
  required: ["type", "title", "status", "code", "request_id"],
};

const TITLES: Readonly<Record<number, string>> = {
  400: "The request is not readable.",
  401: "There is no valid token.",
  403: "Not allowed.",
  404: "There is no such thing.",
  409: "Not in this state.",
  410: "What the first request made is gone.",
  412: "The record has changed since it was read.",
  413: "The body is too large.",
  415: "The body is no JSON.",
  422: "The input is wrong.",
  429: "Too much in an hour.",
  503: "Try again later.",
};

function codesOf(status: number): readonly string[] {
  return Object.entries(PROBLEMS)
    .filter(([, each]) => each === status)
    .map(([code]) => `\`${code}\``);
}

function responses(): Json {
  return Object.fromEntries(
    Object.entries(TITLES).map(([status, title]) => [
      `Problem${status}`,
      {
        description: [
          title,
          ...(codesOf(Number(status)).length > 0 ? [`Codes: ${codesOf(Number(status)).join(", ")}.`] : []),
        ].join(" "),
        ...(["429", "503"].includes(status) && {
          headers: { "Retry-After": { description: "Seconds.", schema: { type: "integer" } } },
        }),
        content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
      },
    ]),
  );
}

/** OpenAPI 3.1 of everything that has the surface `rest`. @param tables by noun. Default: all. */
export function openApiDocument(tables: Readonly<Record<string, AnyTable>> = TABLES): Json {
  const components = new Components();
  components.named("Problem", problem);
  const paths: Record<string, Record<string, Json>> = {};
  const nouns: string[] = [];
  for (const [noun, table] of Object.entries(tables)) {
    const rows = Object.entries(table.rows).filter(([, row]) => isOn(row, "rest"));
    if (rows.length > 0) nouns.push(noun);
    for (const [verb, row] of rows) {
      const made = [operationOf({ noun, table, components }, verb, row)];
      const searchPath = searchPathOf(noun, row);
      if (searchPath !== undefined) made.push(searchOf(noun, row, searchPath, made[0]![2]));
      for (const [path, method, operation] of made) paths[path] = { ...paths[path], [method]: operation };
    }
  }
  return {
    openapi: "3.1.1",
    info: {
      title: "Administration of sign-in-service",
      version: "1",
      description: `Times are whole seconds since the epoch. An unknown member or parameter is refused. ${SEGMENT_TEXT} \`x-role\` is the least role of a token; \`x-limited\` says what a token that is limited to a service may do.`,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The listener of `admin.url`." }],
    security: [{ token: [] }],
    tags: nouns.map((name) => ({ name, description: `The operations on ${name}.` })),
    paths: Object.fromEntries(Object.entries(paths).toSorted(([one], [other]) => (one < other ? -1 : 1))),
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "A token of `sign-in-service tokens create`." },
      },
      parameters: {
        IfMatch: {
          name: "If-Match",
          in: "header",
          description:
            "The `ETag` of a read. The change is refused with 412 if the record has changed since.",
          schema: { type: "string" },
        },
        IdempotencyKey: {
          name: "Idempotency-Key",
          in: "header",
          description: "1 to 255 printable ASCII characters. A repeat within 24 hours changes nothing again.",
          schema: { type: "string", minLength: 1, maxLength: 255 },
        },
      },
      headers: {
        ETag: { description: "The state of the record, for `If-Match`.", schema: { type: "string" } },
      },
      responses: responses(),
      schemas: Object.fromEntries(
        Object.entries(components.schemas).toSorted(([one], [other]) => (one < other ? -1 : 1)),
      ),
    },
  };
}
