/** The layers of this repository. `test/architecture` checks imports against them, and `build/picture.ts` draws them. */
import { dirname, join } from "node:path/posix";
import type { Import, Source } from "./syntax.ts";

/** Files may import from their own layer, and from layers on lower floors. */
export interface Layer {
  readonly name: string;
  readonly floor: number;
  readonly holds: RegExp;
  /** Text of the box in `docs/architecture.md`. Layers without a box aren't drawn. */
  readonly box?: readonly [where: string, what: string];
}

/** A file belongs to the first layer that matches its path. */
const LAYERS: readonly Layer[] = [
  {
    // One layer: the examples use the bundled server, and its demo uses two of the examples.
    name: "command line and examples",
    floor: 10,
    holds: /^(?:cli|examples)\//,
    box: ["cli/", "the command line and the bundled server"],
  },
  { name: "bench", floor: 11, holds: /^bench\// },
  { name: "tests and tools", floor: 12, holds: /^(?:test|build|\.ci)\/|^[^/]+$/ },
  {
    name: "entry points",
    floor: 9,
    holds: /^(?:(?:lib\/(?:index|testing)|adapters\/index)|notifier\/(?:index|main|start-worker))\.ts$/,
  },
  {
    name: "composition root",
    floor: 7,
    holds: /^lib\/(?:health|seed|service|service-http|start-service)\.ts$/,
    box: ["lib/service.ts", "puts everything together"],
  },
  { name: "lib/testing", floor: 8, holds: /^lib\/testing\// },
  {
    name: "plan",
    floor: 3.5,
    holds: /^notifier\/plan\.ts$/,
    box: ["notifier/plan.ts", "which receiver gets what"],
  },
  { name: "compat", floor: 6, holds: /^compat\//, box: ["compat/", "the HTTP endpoints"] },
  { name: "interactions", floor: 6, holds: /^interactions\//, box: ["interactions/", "the pages"] },
  { name: "notifier", floor: 6, holds: /^notifier\//, box: ["notifier/", "sends notifications"] },
  {
    name: "lib/provider",
    floor: 5,
    holds: /^lib\/provider\//,
    box: ["lib/provider/", "configures oidc-provider"],
  },
  {
    name: "lib/people",
    floor: 5.5,
    // The records of confirmations are a layer below.
    holds: /^lib\/people\/(?!records\.ts$)/,
    box: ["lib/people/", "registration, reset, new address"],
  },
  {
    name: "lib/domain",
    floor: 4,
    // The records of the keys are a layer below.
    holds: /^lib\/(?:(?:domain|passwords)\/|keys\/(?!(?:signing-key|sealed)-store\.ts))/,
    box: ["lib/domain/, passwords/, keys/", "the rules for accounts, clients, keys"],
  },
  {
    name: "oidc adapter",
    floor: 3.5,
    holds: /^adapters\/oidc\//,
    box: ["adapters/oidc/", "one request, one commit"],
  },
  {
    name: "records",
    floor: 3,
    holds:
      /^lib\/(?:(?:artifacts|audit|backup|deliveries|directory|keys|mail|records|sign-ins)\/|people\/records\.ts$|storage\.ts$)/,
    box: ["lib/records/, artifacts/, directory/, deliveries/, mail/, audit/", "what is stored"],
  },
  {
    name: "storage contract",
    floor: -1,
    holds: /^adapters\/(?:clock|errors|record-store)\.ts$/,
    box: ["adapters/record-store.ts", "the storage contract"],
  },
  {
    name: "adapters",
    floor: 2,
    holds: /^adapters\//,
    box: ["adapters/sqlite/, postgresql/, mongodb/, redis/", "the storage backends"],
  },
  { name: "config", floor: 1, holds: /^config\//, box: ["config/", "settings, defaults and their checks"] },
  {
    name: "leaves",
    floor: 0,
    holds: /^lib\/(?:(?:outbound|texts)\/)?[^/]+\.ts$/,
    box: ["lib/*.ts, lib/outbound/, texts/", "errors, events, texts, clock"],
  },
];

export function layerOf(path: string): Layer | undefined {
  return LAYERS.find(({ holds }) => holds.test(path));
}

/** An import of one of our files. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly import: Import;
}

/** The imports between our files, with paths from the root. */
export function edgesOf(sources: readonly Source[]): Edge[] {
  return sources.flatMap(({ path, imports }) =>
    imports
      .filter(({ specifier }) => specifier.startsWith("."))
      .map((each) => ({ from: path, to: join(dirname(path), each.specifier), import: each })),
  );
}
