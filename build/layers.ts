/** The layers of this repository. `test/architecture` checks imports against them, and `build/picture.ts` draws them. */
import { dirname, join } from "node:path/posix";
import type { Import, Source } from "./syntax.ts";

/** The folders of the product, from the top. Imports point down, and not to another folder of the same floor. */
const FLOORS: readonly Readonly<Record<string, string>>[] = [
  { cli: "commands, and the bundled server" },
  { testing: "what sign-in-service/testing exports" },
  { lib: "public names, composition root, seed" },
  { interactions: "pages and steps", compat: "the documented endpoints" },
  { provider: "oidc-provider: settings, policy, grants", notifier: "sends notifications and mail" },
  { accounts: "rules: accounts, clients, passwords, limits" },
  { records: "everything that is stored" },
  { adapters: "the storage contract, a folder per backend" },
  { config: "reads and checks the configuration" },
  { core: "clock, errors, events, metrics, texts" },
];

/** A folder at the root. */
export interface Layer {
  readonly name: string;
  readonly floor: number;
  /** What it is about, in the picture. Folders outside the product have no text, and are not drawn. */
  readonly about?: string;
}

const PRODUCT: readonly Layer[] = FLOORS.flatMap((folders, index) =>
  Object.entries(folders).map(([name, about]) => ({ name, about, floor: FLOORS.length - index })),
);

/** The folders outside the product. */
const AROUND: readonly Layer[] = [
  { name: "examples", floor: FLOORS.length + 1 },
  { name: "bench", floor: FLOORS.length + 2 },
];

/** `test/`, `build/`, `.ci/` and the files at the root use each other. */
const TOOLS: Layer = { name: "tests and tools", floor: FLOORS.length + 3 };

const LAYERS: ReadonlyMap<string, Layer> = new Map([
  ...[...PRODUCT, ...AROUND].map((layer) => [layer.name, layer] as const),
  ...["test", "build", ".ci", "."].map((name) => [name, TOOLS] as const),
]);

/** The layer of a file. */
export function layerOf(path: string): Layer | undefined {
  return LAYERS.get(path.includes("/") ? path.slice(0, path.indexOf("/")) : ".");
}

/** Whether a path is part of the published package. */
export function isProduct(path: string): boolean {
  return layerOf(path)?.about !== undefined;
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
