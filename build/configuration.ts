/**
 * `docs/reference/configuration.md`, `docs/reference/seed.md` and the JSON Schema of the configuration file: texts are written by hand, tables and
 * schema are generated from the schemas. What the keys of the configuration mean is in the comments of their interfaces.
 */
import { z } from "zod";
import { defaultOf, keyTable, type KeyNotes, type Leaf, leavesOf } from "../config/documented-schema.ts";
import { attributeSchema } from "../config/attributes.ts";
import { eventReceiverSchema } from "../config/events.ts";
import { providerSchema } from "../config/providers.ts";
import { configurationSchema } from "../config/schema.ts";
import { documentedVariable } from "../config/variables.ts";
import { fileSchema } from "../config/file-schema.ts";
import { importedAccount } from "../accounts/account-schema.ts";
import { CLIENT_ROWS, type ClientRows } from "../accounts/clients/client-settings.ts";
import { apiSettings } from "../accounts/operations/apis.ts";
import { seededEntry, seededService } from "../accounts/operations/directory.ts";
import { seedClient, seedSchema } from "../lib/seed.ts";
import { type Comment, type Documented, readComment, ROOT, withComments } from "./comments.ts";
import { type Page, pageWithTables } from "./page.ts";
import { kindTable } from "./tables.ts";

export const CONFIGURATION: Documented = { file: "config/input.ts", name: "SignInServiceConfig" };

/** What stands below names of one's own: a table of its own each. */
const NAMED = {
  "an attribute": {
    below: "accounts.attributes.",
    schema: attributeSchema,
    of: { file: "config/attributes.ts", name: "AttributeSettings" },
  },
  "a provider": {
    below: "providers.",
    schema: providerSchema,
    of: { file: "config/providers.ts", name: "ProviderSettings" },
  },
  "a receiver of events": {
    below: "events.receivers.",
    schema: eventReceiverSchema,
    of: { file: "config/events.ts", name: "EventReceiverSettings" },
  },
} as const satisfies Readonly<Record<string, { below: string; schema: z.ZodType; of: Documented }>>;

const pathsOf = (schema: z.ZodType): readonly (readonly string[])[] =>
  leavesOf(schema).map(({ path }) => path);

/** The comments of the configuration, with those of the keys that stand below names of one's own. */
function configurationComments(): ReadonlyMap<string, Comment> {
  return withComments(
    ROOT,
    (commentsOf) =>
      new Map([
        ...commentsOf(CONFIGURATION, pathsOf(configurationSchema)),
        ...Object.values(NAMED).flatMap(({ below, schema, of }) =>
          [...commentsOf(of, pathsOf(schema))].map(([key, comment]) => [below + key, comment] as const),
        ),
      ]),
  );
}

function plain(text: string): string {
  return text.replaceAll("`", "");
}

/**
 * The tables of the configuration, and of what stands below names of one's own.
 * @throws Error if a comment is missing, or has another default than the schema.
 */
function configurationTables(): Readonly<Record<string, string>> {
  const comments = configurationComments();
  const problems: string[] = [];

  function notesOf(leaf: Leaf): KeyNotes {
    const { path } = leaf;
    const [key, outer] = [path.join("."), comments.get(path.slice(0, -1).join("."))];
    const { description, byDefault } = comments.get(key) ?? readComment("");
    const variable = documentedVariable(leaf);
    if (leaf.description !== undefined) return { variable };
    if (description === "") problems.push(`${key}: has no comment`);
    if (path[0] === "rateLimits" && /\.(?:points|seconds)$/u.test(key)) {
      // All rate limits have the same keys: the comment of the limit says what they count.
      const number = (outer?.byDefault ?? "").split(" in ")[key.endsWith(".points") ? 0 : 1];
      compare(key, String(leaf.byDefault), number?.replace(" seconds", ""));
      return { variable, description: `${outer?.description}: ${description}` };
    }
    compare(key, defaultOf(leaf), byDefault);
    return { variable, description };
  }

  function compare(key: string, actual: string, written = "none"): void {
    const isShort = written.endsWith(" and others");
    if (actual !== "required" && !isShort && plain(actual) !== plain(written))
      problems.push(`${key}: the default is ${actual}, and the comment says ${written}`);
  }

  const tables = {
    "all keys": keyTable(configurationSchema, notesOf),
    ...Object.fromEntries(
      Object.entries(NAMED).map(([title, { below, schema }]) => [
        title,
        keyTable(schema, (leaf) => {
          const { description, byDefault } = notesOf({ ...leaf, path: [below + leaf.path.join(".")] });
          return { description, byDefault };
        }),
      ]),
    ),
  };
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return tables;
}

/** All keys of the configuration. */
export const configurationPage: Page = pageWithTables("docs/reference/configuration.md", configurationTables);

/** A JSON Schema, as far as it is changed here. */
interface JsonSchema {
  description?: string;
  properties?: Record<string, JsonSchema>;
  [keyword: string]: unknown;
}

/** What a schema says for our own tables. */
const OWN_KEYWORDS = ["form", "writtenForm", "otherwise", "holds", "unit", "restart", "readOnly"];

function schemaOf(type: z.ZodType): JsonSchema {
  return z.toJSONSchema(type, { io: "input", unrepresentable: "any" }) as JsonSchema;
}

/** Replaces our keywords by a text for people, which an editor shows. */
function describeKey(schema: JsonSchema, description: string | undefined): void {
  const { form, writtenForm = form, otherwise } = schema;
  for (const ours of OWN_KEYWORDS) delete schema[ours];
  const sentences = [
    description,
    // Numbers, flags and objects are described by their keywords.
    typeof writtenForm === "string" && [undefined, "string", "array"].includes(schema["type"] as undefined)
      ? `Allowed: ${writtenForm}`
      : undefined,
    typeof otherwise === "string" ? `Default: ${otherwise}` : undefined,
  ];
  const text = sentences.filter((each) => each !== undefined && each !== "").join(". ");
  if (text !== "") schema.description = `${plain(text)}.`;
}

/** Every key of the file, with its texts. Editors complete and check a file that names it as `$schema`. */
export const configurationSchemaFile: Page = {
  file: "docs/sign-in.schema.json",
  generate() {
    const comments = configurationComments();
    function describe(schema: JsonSchema, path: readonly string[], description = schema.description): void {
      describeKey(schema, description);
      for (const [key, child] of Object.entries(schema.properties ?? {})) {
        const inner = [...path, key];
        // A file holds no objects of a program.
        if (child["holds"] === "code") delete schema.properties?.[key];
        else describe(child, inner, comments.get(inner.join("."))?.description);
      }
      for (const below of [
        schema["items"],
        schema["additionalProperties"],
        schema["propertyNames"],
        ...[schema["anyOf"] ?? []].flat(),
      ])
        if (typeof below === "object" && below !== null) describe(below as JsonSchema, path);
    }

    const schema = schemaOf(configurationSchema);
    const { properties = {} } = schema;
    schema.properties = {
      $schema: { type: "string", description: "The path or the address of this schema" },
      ...schemaOf(fileSchema).properties,
      ...properties,
    };
    describe(schema, []);
    return `${JSON.stringify({ title: "Configuration of sign-in-service", ...schema }, undefined, 2)}\n`;
  },
};

/** The arguments of the library that a seed contains. */
export const ARGUMENTS = argumentsWith(CLIENT_ROWS);

function argumentsWith(rows: ClientRows) {
  return [
    ["the seed", seedSchema(rows), { file: "lib/seed.ts", name: "Seed" }],
    ["portals and groups", seededEntry, { file: "accounts/operations/directory.ts", name: "SeededEntry" }],
    ["services", seededService, { file: "accounts/operations/directory.ts", name: "SeededService" }],
    ["APIs", apiSettings, { file: "accounts/operations/apis.ts", name: "ApiSettings" }],
    ["clients", seedClient(rows), { file: "accounts/clients/client-schema.ts", name: "IdentifiedClient" }],
    ["accounts", importedAccount, { file: "accounts/account-schema.ts", name: "ImportedAccount" }],
  ] as const;
}

/** The keys of the configuration file besides the configuration: `port`, and the contents of a seed. */
export const seedPage: Page = pageWithTables("docs/reference/seed.md", () => {
  // Clients have a page of their own, and what portals and groups have is in the table of services.
  const { clients: _clients, "portals and groups": _entries, ...tables } = argumentTables(CLIENT_ROWS);
  return { "the file": keyTable(fileSchema), ...tables };
});

export const clientSettingsPage: Page = pageWithTables("docs/reference/client-settings.md", () => ({
  kinds: kindTable(CLIENT_ROWS.kinds),
  clients: argumentTables(CLIENT_ROWS)["clients"] ?? "",
}));

/** The keys of what a seed contains. */
export function argumentTables(rows: ClientRows): Readonly<Record<string, string>> {
  return withComments(ROOT, (commentsOf) =>
    Object.fromEntries(
      argumentsWith(rows).map(([title, schema, of]) => {
        const comments = commentsOf(
          of,
          leavesOf(schema).map(({ path }) => path),
        );
        return [title, keyTable(schema, (leaf) => notes(of, leaf, comments))];
      }),
    ),
  );
}

/** @throws Error if there is no comment. */
function notes({ name }: Documented, leaf: Leaf, comments: ReadonlyMap<string, Comment>): KeyNotes {
  const key = leaf.path.join(".");
  const { description: comment = "", byDefault } = comments.get(key) ?? {};
  const description = comment === "" ? (leaf.description ?? "") : comment;
  if (description === "") throw new Error(`${name}.${key}: has no comment`);
  return { description, byDefault };
}
