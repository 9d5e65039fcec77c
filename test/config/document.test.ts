import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import type { z } from "zod";
import { configurationPages, configurationSchemaFile, seedPage } from "../../build/configuration.ts";
import { clientSettingsPage } from "../../build/tables.ts";
import { pages } from "../../build/docs.ts";
import { withTable } from "../../build/page.ts";
import { configurationSchema, defaults } from "../../config/schema.ts";
import { leavesOf } from "../../config/documented-schema.ts";
import { CLIENT_ROWS } from "../../accounts/clients/client-settings.ts";
import { importedAccount } from "../../accounts/account-schema.ts";
import { seededEntry, seededService } from "../../accounts/operations/directory.ts";
import { seedClient, seedSchema } from "../../lib/seed.ts";
import { readEnvironment } from "../../config/environment.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const documents = configurationPages.map(({ file }) => readFileSync(join(ROOT, file), "utf8"));

/** The rows of a table: key → type, default, meaning. */
function rows(page: string, title: string): ReadonlyMap<string, readonly string[]> {
  const lines = page
    .slice(page.indexOf(`<!-- ${title}: `), page.indexOf(`<!-- end of ${title} -->`))
    .split("\n")
    .filter((line) => line.startsWith("| `"));
  return new Map(
    lines.map((line) => {
      const [, key = "", ...cells] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
      return [key.replaceAll("`", "").replace(/<br>.*$/u, ""), cells.slice(0, -1)];
    }),
  );
}

const RECEIVER = { url: "https://a.example/", client_id: "a", client_secret: "s", types: [] };
const CLIENT = {
  client_id: "news",
  client_secret: "a secret of thirty-two characters",
  name: "News",
  service: "1",
  redirect_uris: ["https://news.example/callback"],
};

/** A copy without the value at a path. */
function without(value: object, [key, ...inner]: readonly string[]): object {
  const copy: Record<string, unknown> = { ...value };
  const child = copy[key ?? ""];
  if (inner.length === 0) delete copy[key ?? ""];
  else if (typeof child === "object" && child !== null) copy[key ?? ""] = without(child, inner);
  return copy;
}

const pathsOf = (schema: z.ZodType): string[] => leavesOf(schema).map(({ path }) => path.join("."));

/** The page of limits has these. */
const isLimit = (key: string): boolean => key.startsWith("rateLimits.");

function leaves(value: unknown, path: string): string[] {
  const isSection =
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
  if (!isSection) return [path];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path === "" ? key : `${path}.${key}`));
}

describe("docs/reference/configuration", () => {
  it("agrees with the schema (npm run docs updates it)", async () => {
    expect(pages).toEqual(expect.arrayContaining([...configurationPages]));
    const generated: string[] = [];
    for (const page of configurationPages) generated.push(await page.generate());
    expect(generated).toEqual(documents);
  });

  it("is rewritten after a change of a default or of its table", () => {
    const document = documents.find((each) => each.includes("| `36000` "))!;
    const changed = document.replace("| `36000` (10 hours) |", "| `3600` |");
    expect(changed).not.toBe(document);
    const [, table = ""] =
      /<!-- keys: written by npm run docs -->\n\n(.*)\n\n<!-- end of keys -->/su.exec(document) ?? [];
    expect(withTable(changed, "keys", table)).toBe(document);
    expect(() => withTable("no markers", "keys", "")).toThrow("once each and in this order");
    expect(() => withTable(document + document, "keys", "")).toThrow("once each and in this order");
  });

  it("has a row with type, default and meaning for every key, by its full path", () => {
    const table = new Map(documents.flatMap((document) => Array.from(rows(document, "keys"))));
    const keys = leavesOf(configurationSchema).map(({ path }) => path.join("."));
    expect([...table.keys()].toSorted()).toEqual(keys.filter((key) => !isLimit(key)).toSorted());
    const empty = new Set(["clients", "deployments", "keys", "interactions.theme", "interactions.links"]);
    const withDefaults = leaves(defaults, "").filter((path) => !empty.has(path));
    expect(withDefaults.filter((path) => !isLimit(path) && !table.has(path))).toEqual([]);
    const others =
      "deployments.oauth2.url clients.metadataDocuments.allow artifacts keys.secrets mail mail.from cookies.domain stripPrefix logger clock mailer fetch";
    expect(others.split(" ").filter((path) => !table.has(path))).toEqual([]);
    const holes = [...table].filter(
      ([, cells]) => cells.length !== 3 || cells.some((cell) => cell === "" || cell === "none: "),
    );
    expect(holes).toEqual([]);
    expect(table.get("lifetimes.accessToken")?.[1]).toBe("`36000` (10 hours)");
    expect(table.get("lifetimes.accessToken")?.[0]).toBe("integer, at least 1");
    expect(table.get("interactions.theme.accent")?.[1]).toBe("built in");
  });
});

describe("docs/sign-in.schema.json", () => {
  interface JsonSchema {
    readonly description?: string;
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly anyOf?: readonly JsonSchema[];
    readonly additionalProperties?: boolean;
  }
  const schema = JSON.parse(readFileSync(join(ROOT, configurationSchemaFile.file), "utf8")) as JsonSchema;

  function keysOf({ properties, anyOf = [] }: JsonSchema): Readonly<Record<string, JsonSchema>> {
    return Object.assign({ ...properties }, ...anyOf.map(keysOf));
  }

  it("describes every key that a file can hold, and refuses others", () => {
    expect(schema.additionalProperties).toBe(false);
    expect(Object.keys(keysOf(schema))).toEqual(expect.arrayContaining(["$schema", "port", "host", "seed"]));
    const inFiles = leavesOf(configurationSchema).filter(({ holds }) => holds !== "code");
    const undescribed = inFiles.filter(({ path }) => {
      const found = path.reduce<JsonSchema | undefined>((at, key) => at && keysOf(at)[key], schema);
      return !found?.description;
    });
    expect(undescribed.map(({ path }) => path.join("."))).toEqual([]);
    expect(Object.keys(keysOf(schema))).not.toEqual(expect.arrayContaining(["logger"]));
  });
});

describe("docs/reference/seed.md", () => {
  it("is generated from the schemas of the file and its seed", () => {
    expect(pages).toContain(seedPage);
    const text = readFileSync(join(ROOT, seedPage.file), "utf8");
    for (const key of ["port", "seed", "receiver.types", "receiver.signing_secret", "password_hash"])
      expect(text).toMatch(new RegExp(`^\\| \`${key.replace(".", "\\.")}\`(?:<br>\`\\w+\`)? \\|`, "mu"));
  });

  it("has what portals and groups have in the table of services", () => {
    const own = pathsOf(seededService).filter((key) => !pathsOf(seededEntry).includes(key));
    expect(own).toEqual(["group", "roles"]);
    expect(pathsOf(seededEntry).every((key) => key === "name" || key.startsWith("receiver."))).toBe(true);
  });

  it.each<[string, z.ZodType, object]>([
    ["services", seededService, { name: "N", receiver: RECEIVER }],
    ["clients", seedClient(CLIENT_ROWS), CLIENT],
    ["accounts", importedAccount, { email: "ada@example.com" }],
    ["the seed", seedSchema(CLIENT_ROWS), {}],
  ])(
    "has the type, default and meaning of every key of %s, and marks required ones",
    (title, schema, least) => {
      const { file } = title === "clients" ? clientSettingsPage : seedPage;
      const table = rows(readFileSync(join(ROOT, file), "utf8"), title);
      expect([...table.keys()]).toEqual(leavesOf(schema).map(({ path }) => path.join(".")));
      expect([...table.values()].filter((cells) => cells.length !== 3 || cells.includes(""))).toEqual([]);
      expect(schema.safeParse(least).success).toBe(true);
      for (const [key, [, byDefault = ""]] of table) {
        const { success } = schema.safeParse(without(least, key.split(".")));
        expect([key, success]).toEqual([key, !/^(?:none: )?required/u.test(byDefault)]);
      }
    },
  );
});

describe("the environment of entry points", () => {
  it("has defaults, also for empty variables", () => {
    const nothing = { logLevel: "info", production: false };
    expect(readEnvironment({})).toEqual(nothing);
    expect(readEnvironment({ PORT: "", HOST: "", LOG_LEVEL: "", NODE_ENV: "" })).toEqual(nothing);
    expect(
      readEnvironment({ PORT: "8080", HOST: "::1", LOG_LEVEL: "DEBUG", NODE_ENV: "production", OTHER: "x" }),
    ).toEqual({ port: 8080, host: "::1", logLevel: "debug", production: true });
    expect(readEnvironment({ npm_lifecycle_event: "start" })).toEqual({ ...nothing, byNpm: true });
    expect(Object.isFrozen(readEnvironment({}))).toBe(true);
    expect(readEnvironment()).toEqual(readEnvironment(process.env));
  });

  it("is refused with all problems at once, without its values", () => {
    expect(() => readEnvironment({ PORT: "80a", HOST: "a b", LOG_LEVEL: "loud" })).toThrow(
      expect.objectContaining({
        code: "invalid_configuration",
        problems: [
          "environment.PORT: must be a whole number from 0 to 65535",
          "environment.HOST: must be an IP address or a host name, without a port",
          "environment.LOG_LEVEL: must be one of fatal, error, warn, info, debug, trace, silent",
        ],
      }),
    );
    for (const PORT of ["65536", "-1", "1.5", "1e3", " 80", "0x50"]) {
      expect(() => readEnvironment({ PORT })).toThrow("environment.PORT");
    }
  });
});
