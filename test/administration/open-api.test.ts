/** The OpenAPI document: it follows from the rows, and tools for OpenAPI take it. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it } from "@jest/globals";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { generateSource } from "oazapfts";
import { type AnyRow, type AnyTable, isOn, membersOf } from "../../accounts/operations/operation.ts";
import { type Json, openApiDocument } from "../../administration/open-api.ts";
import { type Noun, routeOf, rowsOf, TABLES } from "../../administration/tables.ts";
import { openAdministration } from "./stage.ts";

const ROOT = join(import.meta.dirname, "../..");
const FILE = join(ROOT, "docs/administration.openapi.json");
const EVENTS = join(ROOT, "docs/events.schema.json");
const REST = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
  Object.entries(rowsOf(noun))
    .filter(([, row]) => isOn(row, "rest"))
    .map(([verb, row]) => [noun, verb, row] as const),
);

interface Operation {
  readonly operationId: string;
  readonly "x-role": string;
  readonly parameters?: readonly { readonly name?: string; readonly in?: string; readonly $ref?: string }[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: Schema } } };
  readonly responses: Readonly<Record<string, unknown>>;
}
interface Schema {
  readonly properties: Readonly<Record<string, Json>>;
  readonly required?: readonly string[];
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const pathsOf = (document: Json): Paths => document["paths"] as Paths;
const document = openApiDocument();

function operationFor(noun: string, verb: string, row: AnyRow): Operation | undefined {
  const { method, path } = routeOf(noun, verb, row);
  return pathsOf(document)[path]?.[method.toLowerCase()];
}

/** Every schema of a document, with its place. */
function* schemasIn(value: unknown, at: readonly string[] = []): Generator<readonly [string, Json]> {
  if (typeof value !== "object" || value === null) return;
  const holder =
    at.at(-2) === "properties" || ["schema", "items", "additionalProperties"].includes(at.at(-1) ?? "");
  if (holder && !Array.isArray(value)) yield [at.join("/"), value as Json];
  for (const [key, each] of Object.entries(value)) yield* schemasIn(each, [...at, key]);
}

it("has every operation that REST has, and is the published file [D-ADM-1]", () => {
  expect(REST.length).toBeGreaterThan(60);
  for (const [noun, verb, row] of REST) {
    const operation = operationFor(noun, verb, row);
    expect(operation).toMatchObject({ operationId: `${noun}.${verb}`, "x-role": row.role });
    const named = [
      ...(operation?.parameters ?? []).map(({ name }) => name),
      ...Object.keys(operation?.requestBody?.content["application/json"].schema.properties ?? {}),
    ];
    expect(named).toEqual(expect.arrayContaining([...row.target]));
  }
  const ids = Object.values(pathsOf(document)).flatMap((each) =>
    Object.values(each).map(({ operationId }) => operationId),
  );
  expect(ids.toSorted()).toEqual([...new Set(ids)].toSorted());
  const only = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
    Object.entries(rowsOf(noun)).flatMap(([verb, row]) => (isOn(row, "rest") ? [] : [`${noun}.${verb}`])),
  );
  expect(ids.filter((id) => only.includes(id))).toEqual([]);
  // Answers that hold codes, or sign in for somebody, are on no page and in no script.
  expect(only).toEqual(expect.arrayContaining(["accounts.addApp", "accounts.resetRecoveryCodes"]));
  expect(JSON.parse(readFileSync(FILE, "utf8"))).toEqual(document);
});

it("says of every value what it is, and nothing that our schemas say to themselves", () => {
  const all = [...schemasIn(document)];
  expect(all.length).toBeGreaterThan(300);
  const says = ["type", "$ref", "anyOf", "oneOf", "enum", "const"];
  expect(all.filter(([, schema]) => !says.some((each) => each in schema)).map(([at]) => at)).toEqual([]);
  const ours = ["form", "option", "holds", "unit", "values", "readOnly", "id"];
  expect(
    all.filter(([, schema]) => ours.some((each) => typeof schema[each] === "string")).map(([at]) => at),
  ).toEqual([]);
  const whole = JSON.stringify(document);
  expect(whole).not.toMatch(/9007199254740991|\$defs/u);
  // What is kept secret is in no answer.
  const { schemas } = document["components"] as { readonly schemas: Readonly<Record<string, Schema>> };
  for (const [name, { properties = {} }] of Object.entries(schemas))
    if (name !== "ClientCredentials" && name !== "RegisteredClient")
      expect([
        name,
        Object.keys(properties).filter((each) => /secret|password(?!_grant)|hash|seed/u.test(each)),
      ]).toEqual([name, []]);
});

it("names what travels in snake_case, but for three members that the interface of the library names [D-ADM-340]", () => {
  const inputs = (Object.keys(TABLES) as Noun[]).flatMap((noun) =>
    Object.values(rowsOf(noun)).flatMap((row) => Object.keys(membersOf(row))),
  );
  const answers = [...schemasIn(document), ...schemasIn(JSON.parse(readFileSync(EVENTS, "utf8")))].flatMap(
    ([, { properties = {} }]) => Object.keys(properties as object),
  );
  const wrong = [...inputs, ...answers].filter((name) => !/^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/u.test(name));
  expect([...new Set(wrong)].toSorted()).toEqual(["keepOldFor", "maxAge", "reuseWindow"]);
});

it("is what a linter finds nothing in [D-ADM-2]", async () => {
  const config = await createConfig({ extends: ["recommended-strict"] });
  const lint = async (source: string) =>
    (await lintFromString({ source, absoluteRef: "openapi.json", config })).map(
      ({ ruleId, message }) => `${ruleId}: ${message}`,
    );
  expect(await lint(JSON.stringify(document))).toEqual([]);
  expect(await lint(JSON.stringify({ ...document, security: undefined }))).not.toEqual([]);
});

it("has an operation that is added to a table, with its role, input, output and refusals", () => {
  const clients = TABLES.clients as unknown as AnyTable;
  const toys: AnyTable = {
    noun: "toy",
    rows: { paint: clients.rows["update"]!, list: clients.rows["list"]! },
  };
  const paths = pathsOf(openApiDocument({ toys }));
  expect(Object.keys(paths)).toEqual(["/v1/toys", "/v1/toys/{client_id}"]);
  expect(paths["/v1/toys/{client_id}"]?.["patch"]).toMatchObject({
    operationId: "toys.paint",
    "x-role": "administrator",
    responses: { 200: {}, 403: {}, 404: {}, 422: {}, 429: {} },
  });
});

it("makes a client that compiles, and works [D-ADM-2]", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sign-in-openapi-"));
  try {
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "client.ts"), await generateSource(FILE, {}));
    await writeFile(
      join(folder, "use.ts"),
      `import { accountsFind, accountsUpdate, type Account } from "./client.ts";
       export async function rename(sub: string): Promise<Account | undefined> {
         const found = await accountsFind(sub);
         if (found.status !== 200) return undefined;
         await accountsUpdate(sub, { name: found.data.surname });
         return found.data;
       }`,
    );
    await writeFile(
      join(folder, "wrong.ts"),
      'import { accountsUpdate } from "./client.ts";\nvoid accountsUpdate("SUB", { nom: "Ada" });',
    );
    const options = ["--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext", "--target", "es2024"];
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const words = [tsc, ...options, "--allowImportingTsExtensions", "--types", "", "use.ts", "wrong.ts"];
    const { stdout, status } = spawnSync(process.execPath, words, { cwd: folder, encoding: "utf8" });
    // Only what is wrong does not compile.
    expect(
      stdout
        .trim()
        .split("\n")
        .filter((line) => /^\S/u.test(line)),
    ).toEqual([expect.stringMatching(/^wrong\.ts\(2,30\): error TS2353: .*'nom'/u)]);
    expect(status).not.toBe(0);
    const stage = await openAdministration();
    await writeFile(
      join(folder, "run.ts"),
      `import { accountsCreate, accountsFind, accountsUnassign, defaults, servicesCreate } from "./client.ts";
       const [, , baseUrl, token] = process.argv;
       Object.assign(defaults, { baseUrl, headers: { Authorization: \`Bearer \${token}\` } });
       const service = await servicesCreate({ key: "news", name: "News" });
       const made = await accountsCreate({ email: "ada@example.com" });
       const found = await accountsFind(made.data.sub);
       const again = await accountsCreate({ email: "ada@example.com" });
       const gone = await accountsUnassign(made.data.sub, ["news", "other"]);
       console.log(JSON.stringify([service.status, made.status, found.data, again.data.code, gone.status]));`,
    );
    const token = stage.tokenOf({ role: "administrator" });
    const child = spawn(process.execPath, [join(folder, "run.ts"), stage.base, token]);
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(err).not.toMatch(/Error/u);
    const [account] = (await stage.accounts.list()).items;
    expect(JSON.parse(out)).toEqual([201, 201, account, "name_taken", 404]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
