/** The layers of this repository. `test/architecture` checks imports against them. */
import { dirname, join } from "node:path/posix";
import type { Import, Source } from "./syntax.ts";

/** The folders of the product, from the top. Imports point down, and not to another folder of the same floor. */
const FLOORS: readonly (readonly string[])[] = [
  ["cli"],
  ["testing"],
  ["lib"],
  ["administration"],
  ["interactions", "compat"],
  ["provider", "notifier"],
  ["accounts"],
  ["records"],
  ["adapters", "upstream"],
  ["config", "api", "receiver"],
  ["core"],
];

/** A folder at the root. */
export interface Layer {
  readonly name: string;
  readonly floor: number;
  /** Whether it is part of the published package. */
  readonly isProduct: boolean;
}

const PRODUCT: readonly Layer[] = FLOORS.flatMap((folders, index) =>
  folders.map((name) => ({ name, floor: FLOORS.length - index, isProduct: true })),
);

/** The folders outside the product. */
const AROUND: readonly Layer[] = [
  { name: "examples", floor: FLOORS.length + 1, isProduct: false },
  { name: "bench", floor: FLOORS.length + 2, isProduct: false },
];

/** `test/`, `build/`, `site/`, `.ci/` and the files at the root use each other. */
const TOOLS: Layer = { name: "tests and tools", floor: FLOORS.length + 3, isProduct: false };

const LAYERS: ReadonlyMap<string, Layer> = new Map([
  ...[...PRODUCT, ...AROUND].map((layer) => [layer.name, layer] as const),
  ...["test", "build", "site", ".ci", "."].map((name) => [name, TOOLS] as const),
]);

/** The layer of a file. */
export function layerOf(path: string): Layer | undefined {
  return LAYERS.get(path.includes("/") ? path.slice(0, path.indexOf("/")) : ".");
}

/** Whether a path is part of the published package. */
export function isProduct(path: string): boolean {
  return layerOf(path)?.isProduct === true;
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
