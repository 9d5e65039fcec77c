import { type Edge, edgesOf, isProduct, layerOf } from "../../build/layers.ts";
import type { Import, Source } from "../../build/syntax.ts";
import type { Rule, Tree } from "./rule.ts";

const PUBLIC =
  /^(?:core\/html|(?:adapters|administration|api|interactions|lib|notifier|testing)\/index|notifier\/main|config\/(?:environment|read))\.ts$|^interactions\/browser\.js$|^cli\//;
/** Programs, which may ask for the environment. */
const PROGRAMS = /^cli\/main\.ts$/;
/** The examples that are in the package, for the demo. */
const DEMO = /^examples\/(?:client|receiver)\//;
/** Benchmarks that fill storages with records, or measure single attempts of deliveries. */
const INNER_BENCHMARKS = /^bench\/(?:growth\/|passkeys\/|statements\/|servers\/sender\.ts$)/;
/** The file that reads `process.env`. Only entry points, examples and tools import it. */
const ENVIRONMENT = /^config\/environment\.ts$/;

/** The packages that are loaded when something needs them, and the folders that may name them. */
const DRIVERS: Readonly<Record<string, RegExp>> = {
  mongodb: /^adapters\/mongodb\//,
  pg: /^adapters\/postgresql\//,
  ioredis: /^(?:adapters\/redis|notifier\/bullmq)\//,
  "openid-client": /^upstream\//,
  bullmq: /^notifier\/bullmq\//,
  "@opentelemetry/api": /^core\/telemetry\.ts$/,
};

function edges(tree: Tree): Edge[] {
  return edgesOf(tree.sources);
}

const at = (edge: Edge): string => `${edge.from}:${edge.import.line}`;

function points(edge: Edge): string | undefined {
  const from = layerOf(edge.from);
  const to = layerOf(edge.to);
  if (from === undefined || to === undefined) return `${at(edge)} ${edge.to} is in no layer`;
  if (from === to || to.floor < from.floor) return undefined;
  if (edge.from.startsWith("cli/demo/") && DEMO.test(edge.to)) return undefined;
  return `${at(edge)} ${from.name} → ${to.name}: ${edge.to}`;
}

/** The folder of a backend: `adapters/sqlite` of `adapters/sqlite/storage.ts`. */
function backend(path: string): string | undefined {
  return /^(adapters\/[^/]+)\//.exec(path)?.[1];
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function wrongDriver(source: Source, { specifier, kind, line }: Import): string | undefined {
  const folder = DRIVERS[packageOf(specifier)];
  if (folder === undefined || !isProduct(source.path)) return undefined;
  if (!folder.test(source.path))
    return `${source.path}:${line} ${specifier} outside the folder of its backend`;
  return kind === "value" ? `${source.path}:${line} ${specifier} is loaded before it is chosen` : undefined;
}

const present = (found: string | undefined): found is string => found !== undefined;

export const layerRules: readonly Rule[] = [
  {
    says: "imports point down, never up or sideways, type imports and dynamic ones included; but the demo runs two examples",
    check: (tree) => edges(tree).map(points).filter(present),
    planted: {
      "compat/a.ts": 'import type { X } from "../interactions/b.ts";\nimport "../accounts/c.ts";',
      "interactions/b.ts": 'const later = () => import("../lib/service.ts");',
      "accounts/c.ts": 'import "../core/clock.ts";\ntype X = import("../compat/a.ts").X;',
      "notifier/d.ts": 'export { x } from "../provider/e.ts";\nimport "./f.ts";',
      "lib/service.ts": 'import "../compat/a.ts";\nimport type { T } from "../testing/g.ts";',
      "core/errors.ts": 'import "../config/h.ts";\nimport "./clock.ts";',
      "config/h.ts": 'import type { S } from "../adapters/i.ts";',
      "adapters/i.ts": 'import "../config/h.ts";\nimport "../somewhere/j.ts";',
      "cli/demo/k.ts": 'import "../../examples/client/application.ts";',
      "cli/l.ts": 'import "../examples/embed.ts";',
    },
    finds: [
      "compat/a.ts:1 compat → interactions: interactions/b.ts",
      "interactions/b.ts:1 interactions → lib: lib/service.ts",
      "accounts/c.ts:2 accounts → compat: compat/a.ts",
      "notifier/d.ts:1 notifier → provider: provider/e.ts",
      "lib/service.ts:2 lib → testing: testing/g.ts",
      "core/errors.ts:1 core → config: config/h.ts",
      "config/h.ts:1 config → adapters: adapters/i.ts",
      "adapters/i.ts:2 somewhere/j.ts is in no layer",
      "cli/l.ts:1 cli → examples: examples/embed.ts",
    ],
  },
  {
    says: "a storage backend does not know another one",
    check: (tree) =>
      edges(tree)
        .filter(({ from, to }) => backend(from) !== undefined && backend(to) !== undefined)
        .filter(({ from, to }) => backend(from) !== backend(to))
        .map((edge) => `${at(edge)} ${edge.to}`),
    planted: {
      "adapters/redis/a.ts": 'import "../sqlite/b.ts";\nimport "./c.ts";\nimport "../storage.ts";',
      "adapters/open.ts": 'import("./sqlite/b.ts");',
    },
    finds: ["adapters/redis/a.ts:1 adapters/sqlite/b.ts"],
  },
  {
    says: "the plan of notifications imports nothing but types and the fields of a person",
    check: (tree) =>
      tree.sources
        .filter(({ path }) => path === "accounts/plan.ts")
        .flatMap(({ path, imports }) =>
          imports
            .filter(({ kind, specifier }) => kind !== "type" && specifier !== "./profile-fields.ts")
            .map((each) => `${path}:${each.line} ${each.specifier}`),
        ),
    planted: {
      "accounts/plan.ts":
        'import type { A } from "../adapters/a.ts";\nimport { type B } from "node:fs";\nimport { c, type D } from "zod";\nimport { E } from "./profile-fields.ts";',
    },
    finds: ["accounts/plan.ts:2 node:fs", "accounts/plan.ts:3 zod"],
  },
  {
    says: "examples and benchmarks use the public interface and the bundled server only, but for benchmarks of inner parts",
    check: (tree) =>
      edges(tree)
        .filter(({ from }) => /^(?:examples|bench)\//.test(from) && !INNER_BENCHMARKS.test(from))
        .filter(({ to }) => isProduct(to) && !PUBLIC.test(to))
        .map((edge) => `${at(edge)} ${edge.to}`),
    planted: {
      "examples/a/main.ts":
        'import "../../lib/index.ts";\nimport "../../lib/service.ts";\nimport "./own.ts";',
      "bench/b.ts": 'import type { X } from "../adapters/storage.ts";\nimport "../adapters/index.ts";',
      "bench/growth/c.ts": 'import "../../records/storage.ts";',
    },
    finds: ["examples/a/main.ts:2 lib/service.ts", "bench/b.ts:1 adapters/storage.ts"],
  },
  {
    says: "only programs ask for the environment",
    check: (tree) =>
      edges(tree)
        .filter((edge) => ENVIRONMENT.test(edge.to) && edge.import.kind !== "type")
        .filter(({ from }) => isProduct(from))
        .filter(({ from }) => !PROGRAMS.test(from))
        .map(at),
    planted: {
      "lib/service.ts": 'import "../config/environment.ts";\nimport "../config/read.ts";',
      "config/read.ts": 'export * from "./environment.ts";',
      "cli/main.ts": 'import "../config/environment.ts";',
      "cli/program/a.ts":
        'import "../../config/environment.ts";\nimport type { A } from "../../config/environment.ts";',
      "examples/a/main.ts": 'import "../../config/environment.ts";',
    },
    finds: ["lib/service.ts:1", "config/read.ts:1", "cli/program/a.ts:1"],
  },
  {
    says: "driver packages are named in the folders of their backends only, and loaded when they are chosen",
    check: (tree) =>
      tree.sources.flatMap((source) =>
        source.imports.map((each) => wrongDriver(source, each)).filter(present),
      ),
    planted: {
      "adapters/mongodb/a.ts":
        'import { MongoClient } from "mongodb";\nimport type { Db } from "mongodb";\nconst open = () => import("mongodb");',
      "adapters/redis/a.ts": 'const open = () => import("ioredis");\nimport "bullmq";',
      "lib/service.ts":
        'import type { Redis } from "ioredis";\nimport("mongodb/lib/x.js");\nimport "mongodb-uri";',
      "test/a.test.ts": 'import { MongoClient } from "mongodb";',
    },
    finds: [
      "adapters/mongodb/a.ts:1 mongodb is loaded before it is chosen",
      "adapters/redis/a.ts:2 bullmq outside the folder of its backend",
      "lib/service.ts:1 ioredis outside the folder of its backend",
      "lib/service.ts:2 mongodb/lib/x.js outside the folder of its backend",
    ],
  },
];
