/**
 * `docs/reference/configuration.md`, `docs/reference/seed.md` and the JSON Schema of the configuration file: texts are written by hand, tables and
 * schema are generated from the schemas. What the keys of the configuration mean is in the comments of their interfaces.
 */
import { z } from "zod";
import { type Leaf, leavesOf } from "../config/documented-schema.ts";
import { attributeSchema } from "../config/attributes.ts";
import { eventReceiverSchema } from "../config/events.ts";
import { providerSchema } from "../config/providers.ts";
import { configurationSchema } from "../config/schema.ts";
import { fileSchema } from "../config/file-schema.ts";
import { importedAccount } from "../accounts/account-schema.ts";
import { CLIENT_ROWS, type ClientRows } from "../accounts/clients/client-settings.ts";
import { apiSettings } from "../accounts/operations/apis.ts";
import { seededEntry, seededService } from "../accounts/operations/directory.ts";
import { seedClient, seedSchema } from "../lib/seed.ts";
import { type Comment, type Documented, readComment, ROOT, withComments } from "./comments.ts";
import { defaultOf, keyTable, type KeyNotes } from "./key-table.ts";
import { type Page, pageWithTables, table } from "./page.ts";

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

const FOLDER = "docs/reference/configuration";

/** The pages of the configuration: which keys each explains. Limits have a page of their own. */
const GROUPS: Readonly<
  Record<string, { readonly keys: readonly string[]; readonly named?: keyof typeof NAMED }>
> = {
  deployments: { keys: ["deployments", "proxy", "stripPrefix", "cookies", "profile", "features"] },
  storage: { keys: ["storage", "artifacts", "queue", "keys"] },
  tokens: { keys: ["lifetimes", "refreshTokens", "clients"] },
  "sign-in": { keys: ["passwords", "secondFactor", "signIn", "limits"] },
  pages: { keys: ["interactions"] },
  accounts: { keys: ["accounts"], named: "an attribute" },
  providers: { keys: ["providers"], named: "a provider" },
  notifications: { keys: ["notifications", "events"], named: "a receiver of events" },
  operations: { keys: ["mail", "operators", "admin", "audit", "metrics", "telemetry"] },
  code: { keys: ["logger", "clock", "mailer", "fetch"] },
};

/** Where each key of the top level is explained. */
const PAGE_OF: ReadonlyMap<string, string> = new Map([
  ...Object.entries(GROUPS).flatMap(([name, { keys }]) =>
    keys.map((key) => [key, `configuration/${name}.md`] as const),
  ),
  ["rateLimits", "limits.md"],
]);

/** All rate limits have the same two keys: the comment of the limit says what they count. */
const isRule = ({ path }: Leaf): boolean =>
  path[0] === "rateLimits" && ["points", "seconds"].includes(path.at(-1) ?? "");

/**
 * What the comments say about the keys.
 * @throws Error if a comment is missing, or has another default than the schema.
 */
function configurationNotes(): (leaf: Leaf) => KeyNotes {
  const comments = configurationComments();
  const notes = new Map<string, KeyNotes>();
  const problems: string[] = [];

  function read(leaf: Leaf, below = ""): void {
    const key = below + leaf.path.join(".");
    const { description, byDefault } = comments.get(key) ?? readComment("");
    if (!PAGE_OF.has(leaf.path[0] ?? "") && below === "") problems.push(`${key}: is on no page`);
    if (leaf.description !== undefined) return;
    if (description === "") problems.push(`${key}: has no comment`);
    if (isRule(leaf)) {
      const outer = comments.get(leaf.path.slice(0, -1).join("."));
      const number = (outer?.byDefault ?? "").split(" in ")[key.endsWith(".points") ? 0 : 1];
      compare(key, String(leaf.byDefault), number?.replace(" seconds", ""));
    } else compare(key, defaultOf(leaf), byDefault);
    // Below names of one's own, the comment has the default.
    notes.set(key, below === "" ? { description } : { description, byDefault });
  }

  function compare(key: string, actual: string, written = "none"): void {
    const isShort = written.endsWith(" and others");
    if (actual !== "required" && !isShort && plain(actual) !== plain(written))
      problems.push(`${key}: the default is ${actual}, and the comment says ${written}`);
  }

  for (const leaf of leavesOf(configurationSchema)) read(leaf);
  for (const { below, schema } of Object.values(NAMED))
    for (const leaf of leavesOf(schema)) read(leaf, below);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return ({ path }) => notes.get(path.join(".")) ?? {};
}

/** The pages of the keys. */
export const configurationPages: readonly Page[] = Object.entries(GROUPS).map(([name, { keys, named }]) =>
  pageWithTables(`${FOLDER}/${name}.md`, () => {
    const notesOf = configurationNotes();
    const tables = {
      keys: keyTable(configurationSchema, notesOf, ({ path: [first = ""] }) => keys.includes(first)),
    };
    if (named === undefined) return tables;
    const { below, schema } = NAMED[named];
    const inner = keyTable(schema, (leaf) => notesOf({ ...leaf, path: [below + leaf.path.join(".")] }));
    return { ...tables, [named]: inner };
  }),
);

/** The keys of the top level, and where they are explained. */
export const configurationPage: Page = pageWithTables(`${FOLDER}.md`, () => ({
  "all keys": table(
    ["Page", "Keys"],
    [...Map.groupBy(PAGE_OF, ([, page]) => page)].map(([page, keys]) => [
      `[${page.replace(/^.*\/|\.md$/gu, "")}](${page})`,
      keys.map(([key]) => `\`${key}\``).join(", "),
    ]),
  ),
}));

/** The table of networks, which the page of limits shows. */
export const networksTable = (): string =>
  keyTable(
    configurationSchema,
    configurationNotes(),
    (leaf) => leaf.path[0] === "rateLimits" && !isRule(leaf),
  );

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

/** The keys of what a seed contains. */
export function argumentTables(rows: ClientRows): Readonly<Record<string, string>> {
  return withComments(ROOT, (commentsOf) =>
    Object.fromEntries(
      argumentsWith(rows).map(([title, schema, of]) => {
        const comments = commentsOf(
          of,
          leavesOf(schema).map(({ path }) => path),
        );
        return [title, keyTable(schema, (leaf) => notesIn(of, leaf, comments))];
      }),
    ),
  );
}

/** @throws Error if there is no comment. */
function notesIn({ name }: Documented, leaf: Leaf, comments: ReadonlyMap<string, Comment>): KeyNotes {
  const key = leaf.path.join(".");
  const { description: comment = "", byDefault } = comments.get(key) ?? {};
  const description = comment === "" ? (leaf.description ?? "") : comment;
  if (description === "") throw new Error(`${name}.${key}: has no comment`);
  return { description, byDefault };
}
