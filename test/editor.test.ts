/** What somebody who uses the package sees in an editor: the published declarations, not the sources. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "@jest/globals";
import { isObjectLiteralExpression, isPropertyAssignment } from "typescript/unstable/ast";
import { API, type Project } from "typescript/unstable/sync";
import { type Documented, withComments } from "../build/comments.ts";
import { ARGUMENTS, CONFIGURATION } from "../build/configuration.ts";
import { walk } from "../build/syntax.ts";
import { leavesOf } from "../config/documented-schema.ts";
import { configurationSchema } from "../config/schema.ts";
import { closing, newFolder } from "./closing.ts";
import { installPacked, manifest, packInto } from "./installed.ts";

const root = join(import.meta.dirname, "..");
const work = newFolder();
const consumer = join(work, "consumer");
const main = join(consumer, "main.ts");

/** Calls with these keys. */
const CALLS = `
import { createSignInService } from "sign-in-service";

const service = await createSignInService({
  deployments: { openid: { url: "http://localhost:3000", post: true } },
  lifetimes: { authorizationCode: 60 },
  interactions: { theme: { radius: 3 } },
  metrics: { port: 1 },
});
await service.clients.register({
  name: "News",
  service: "1",
  redirect_uris: ["https://news.example/callback"],
  refresh_tokens: { reuseWindow: 3 },
});
await service.accounts.create({ email: "ada@example.com", date_of_birth: "1990-12-10", gender: "female", app: { secret: "A" } });
await service.directory.apis.put("https://a.example", { name: "A", service: "1", scopes: {}, lifetime: 60 });
`;

/** Their names with a mistake, and what the compiler says. */
const MISTAKES: readonly (readonly [right: string, wrong: string, means: string])[] = [
  ["lifetimes", "lifetime", "Did you mean to write 'lifetimes'"],
  ["authorizationCode", "authorisationCode", "Did you mean to write 'authorizationCode'"],
  ["redirect_uris", "redirect_uri", "does not exist in type"],
  ["date_of_birth", "birth_date", "does not exist in type"],
  ["lifetime:", "life_time:", "does not exist in type"],
];

const TSCONFIG = {
  compilerOptions: { module: "nodenext", target: "es2024", strict: true, noEmit: true, skipLibCheck: true },
  include: ["*.ts"],
};

const mistakeOf = (wrong: string): string =>
  join(consumer, `mistake-${MISTAKES.findIndex((each) => each[1] === wrong)}.ts`);

/** Reads what is written there once: all its calls, and one file for each mistake. */
let project: Project;

beforeAll(() => {
  mkdirSync(consumer);
  installPacked(packInto(work), consumer);
  writeFileSync(join(consumer, "package.json"), JSON.stringify({ name: "consumer", type: "module" }));
  writeFileSync(join(consumer, "tsconfig.json"), JSON.stringify(TSCONFIG));
  writeFileSync(main, CALLS);
  for (const [right, wrong] of MISTAKES)
    writeFileSync(mistakeOf(wrong), CALLS.replace(new RegExp(`\\b${right}`, "u"), wrong));
  const api = closing(new API());
  project = api.updateSnapshot({ openProjects: [join(consumer, "tsconfig.json")] }).getProjects()[0]!;
}, 120_000);

it.each([
  ["authorizationCode", "Lifetime of an authorization code, in seconds. Default 60."],
  ["radius", "Radius of corners, in pixels. Default 10."],
  ["post", "The authorization endpoint also accepts POST; https only. Default `false`."],
  ["reuseWindow", "Seconds for which a rotated token, used again, gets the same response. Default: "],
  ["redirect_uris", "Where the authorization endpoint may redirect; compared character by character."],
  ["date_of_birth", "Date of birth, `YYYY-MM-DD`. Default: none."],
  ["gender", "Gender. Default: none."],
  ["secret", "The secret of an authenticator app"],
  ["lifetime", "Lifetime of access tokens, in seconds. Default: 36000, for a `jwt` 600."],
])("%s shows its meaning, unit and default where it is written", (key, meaning) => {
  const { program, checker } = project;
  const shown: string[] = [];
  walk(program.getSourceFile(main)!, (node) => {
    if (!isPropertyAssignment(node) || !isObjectLiteralExpression(node.parent)) return;
    if (node.name.getText() !== key) return;
    const type = checker.getContextualType(node.parent);
    const property = (type?.isUnionType() ? type.getTypes() : [type])
      .map((each) => each && checker.getPropertyOfType(each, key))
      .find((each) => each !== undefined);
    if (property !== undefined)
      shown.push(checker.getDocumentationCommentOfSymbol(property).replaceAll(/\s+/gu, " "));
  });
  expect(shown).toEqual([expect.stringContaining(meaning)]);
});

it("every key has the comment of its declaration", () => {
  const all = [["the configuration", configurationSchema, CONFIGURATION] as const, ...ARGUMENTS];
  const commentsIn = (folder: string, fileOf: (file: string) => string) =>
    withComments(folder, (commentsOf) =>
      all.map(([, schema, { file, name }]: readonly [string, unknown, Documented]) =>
        commentsOf(
          { file: fileOf(file), name },
          leavesOf(schema).map(({ path }) => path),
        ),
      ),
    );
  const dist = join("node_modules", manifest.name, "dist");
  expect(commentsIn(consumer, (file) => join(dist, file.replace(/\.ts$/u, ".d.ts")))).toEqual(
    commentsIn(root, (file) => file),
  );
});

it("the calls have no other mistake", () => {
  expect(project.program.getSemanticDiagnostics(main)).toEqual([]);
});

it.each(MISTAKES)("%s, written %s, is an error that names it", (_right, wrong, says) => {
  const texts = JSON.stringify(project.program.getSemanticDiagnostics(mistakeOf(wrong)));
  expect(texts).toContain(`'${wrong.replace(":", "")}'`);
  expect(texts).toContain(says);
});
