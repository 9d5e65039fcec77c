/** The figures of the last `npm run bench -- growth`, from which `docs/internals/scale.md` and `capacity` are made. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Cost, Costs } from "./operations.ts";
import type { Backend } from "./sizes.ts";
import type { OfKind, Structures } from "./structures.ts";

/** A storage of one size. */
export interface Sized extends Structures {
  readonly accounts: number;
  /** The median of all rounds. */
  readonly costs: Costs;
}

/** Storages of each backend, the smallest first. */
export type Figures = Readonly<Record<Backend, readonly Sized[]>>;

const FILE = join(import.meta.dirname, "figures.json");

export function readFigures(): Figures {
  return JSON.parse(readFileSync(FILE, "utf8")) as Figures;
}

export function writeFigures(figures: Figures): void {
  writeFileSync(FILE, `${JSON.stringify(figures, undefined, 2)}\n`);
}

/** @param texts the columns that hold no numbers, besides the first. */
export function markdown(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  texts: readonly number[] = [],
): string {
  const line = heads.map((_head, column) => (column === 0 || texts.includes(column) ? "---" : "---:"));
  return [heads, line, ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const whole = (value: number): string => Math.round(value).toLocaleString("en");
const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
const largest = (all: readonly Sized[]): Sized => all.at(-1) as Sized;

type Shown = readonly [head: string, figure: (cost: Cost) => number];
const KB = 1_024;

/** What is counted in each backend. */
const COUNTED: Readonly<Record<Backend, readonly Shown[]>> = {
  SQLite: [
    ["Pages read", ({ reads }) => reads],
    ["KB written", ({ written }) => written / KB],
  ],
  PostgreSQL: [
    ["Blocks", ({ used }) => used],
    ["Not in memory", ({ reads }) => reads],
    ["KB of log", ({ written }) => written / KB],
  ],
};

/** Of CPU, of this process and of the server. */
const microseconds = ({ cpu, serverCpu }: Cost): number => (cpu + serverCpu) * 1_000;

/** What an operation costs on the smallest and on the largest storage of a backend. */
export function costTable(backend: Backend, all: readonly Sized[]): string {
  const [first, last] = [all[0] as Sized, largest(all)];
  const counted = COUNTED[backend];
  const rows = Object.keys(first.costs).map((name) => {
    const [small, large] = [first, last].map(({ costs }) => costs[name]);
    if (small === undefined || large === undefined) throw new Error(`there is no figure of ${name}`);
    const [few, many] = [microseconds(small), microseconds(large)];
    return [capital(name), `${whole(few)} to ${whole(many)}`, `${(many / few).toFixed(1)} ×`].concat(
      counted.map(([, figure]) => `${figure(small).toFixed(1)} to ${figure(large).toFixed(1)}`),
    );
  });
  return markdown(["Operation", "µs of CPU", "Ratio", ...counted.map(([head]) => head)], rows);
}

/** Bytes of each table and index for one account, and how deep they are. */
export function structureTable(figures: Figures): string {
  const backends = Object.keys(figures) as Backend[];
  const names = [
    ...new Set(backends.flatMap((backend) => largest(figures[backend]).structures.map(({ name }) => name))),
  ];
  const rows = names.map((name) =>
    [name].concat(
      backends.flatMap((backend) => {
        const { accounts, structures } = largest(figures[backend]);
        const found = structures.find((each) => each.name === name);
        return found === undefined ? ["", ""] : [whole(found.bytes / accounts), String(found.depth ?? "")];
      }),
    ),
  );
  return markdown(["Table or index", ...backends.flatMap((backend) => [backend, "Levels"])], rows);
}

/** Records that belong together, and how long they are kept. */
const GROUPS: readonly (readonly [what: string, kinds: readonly string[], kept: string])[] = [
  [
    "Account, with its names, its number and nine places in the search",
    ["account", "identifier", "sign-in-name", "user-id", "search-words"],
    "until deleted",
  ],
  ["Session", ["session"], "14 days without use"],
  ["Grant", ["grant"], "while a token or session uses it"],
  ["Access token", ["access-token"], "10 hours"],
  ["Refresh token", ["refresh-token"], "30 days"],
  ["Authorization code", ["authorization-code"], "1 minute"],
  ["Lane (per account and receiver)", ["lane"], "with its last delivery"],
  ["Finished delivery", ["delivery"], "90 days"],
  ["Its payload", ["payload"], "7 days"],
  ["Audit record", ["audit"], "90 days; 400 days of a change"],
];

/** Bytes of one record of some kinds, of which the first one counts. */
export function bytesOf(kinds: readonly string[], { kinds: all }: Pick<Structures, "kinds">): number {
  const [first, ...others] = kinds.map((kind): OfKind => all[kind] ?? { records: 0, bytes: 0 });
  const bytes = others.reduce((sum, each) => sum + each.bytes, first?.bytes ?? 0);
  return bytes / (first?.records ?? 0);
}

export function byteTable(figures: Figures): string {
  const backends = Object.keys(figures) as Backend[];
  const rows = GROUPS.map(([what, kinds, kept]) =>
    [what].concat(
      backends.map((backend) => whole(bytesOf(kinds, largest(figures[backend])))),
      kept,
    ),
  );
  return markdown(["Record", ...backends, "Kept"], rows);
}
