/** `docs/images/architecture.svg`: draws the layers as boxes, and the imports between them as arrows. */
import { edgesOf, isProduct, type Layer, layerOf } from "./layers.ts";
import type { Page } from "./page.ts";
import { type Files, parse } from "./syntax.ts";
import { readTree } from "./tree.ts";

const WIDTH = 960;
const BOX_HEIGHT = 52;
const ROW_HEIGHT = 84;
const MARGIN = 20;
const GAP = 24;

/** The layers that each layer imports from. */
export type Imports = ReadonlyMap<Layer, ReadonlySet<Layer>>;

/** An item in a row: a box, or a gap for a long arrow. */
interface Item {
  readonly layer?: Layer;
  readonly width: number;
  readonly above: Item[];
  readonly below: Item[];
  x: number;
}

/** The imports between the layers that are drawn. */
export function importsBetween(files: Files): Imports {
  const product = new Map([...files].filter(([path]) => isProduct(path)));
  const found = new Map<Layer, Set<Layer>>();
  for (const { from, to } of edgesOf(parse(product))) {
    const [start, end] = [layerOf(from), layerOf(to)];
    if (start === undefined || end?.about === undefined) continue;
    found.set(end, found.get(end) ?? new Set());
    found.set(start, found.get(start) ?? new Set());
    if (start !== end) found.get(start)?.add(end);
  }
  return found;
}

/** Removes arrows whose target is also reached through another box. With them, the picture would be unreadable. */
export function reduced(imports: Imports): Imports {
  const reaches = (from: Layer, to: Layer): boolean =>
    from === to || [...(imports.get(from) ?? [])].some((next) => reaches(next, to));
  return new Map(
    [...imports].map(([from, direct]) => [
      from,
      new Set([...direct].filter((to) => ![...direct].some((other) => other !== to && reaches(other, to)))),
    ]),
  );
}

/** Arranges the boxes by floor, from the top. Arrows that cross a row get a gap there. */
function rowsOf(imports: Imports): Item[][] {
  const layers = [...imports.keys()];
  const floors = [...new Set(layers.map(({ floor }) => floor))].toSorted((a, b) => b - a);
  const boxes = new Map<Layer, Item>();
  const rows = floors.map((floor) => {
    const row = layers
      .filter((layer) => layer.floor === floor)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return row.map((layer) => {
      const width = Math.max(190, 26 + 7.4 * Math.max(layer.name.length + 1, layer.about?.length ?? 0));
      const item: Item = { layer, width, above: [], below: [], x: 0 };
      boxes.set(layer, item);
      return item;
    });
  });
  for (const [from, targets] of imports) {
    for (const to of targets) {
      let last = boxes.get(from);
      for (const row of rows.slice(floors.indexOf(from.floor) + 1, floors.indexOf(to.floor) + 1)) {
        const end = row === rows[floors.indexOf(to.floor)] ? boxes.get(to) : undefined;
        const next = end ?? { width: 12, above: [], below: [], x: 0 };
        if (end === undefined) row.push(next);
        last?.below.push(next);
        if (last !== undefined) next.above.push(last);
        last = next;
      }
    }
  }
  return rows;
}

function mean(items: readonly Item[]): number {
  return items.length === 0 ? WIDTH / 2 : items.reduce((sum, { x }) => sum + x, 0) / items.length;
}

/** Orders each row so that connected items are close to each other, and centers it. */
function place(rows: readonly Item[][]): void {
  const order = (row: Item[], side: "above" | "below"): void => {
    const wanted = new Map(row.map((item) => [item, item[side].length === 0 ? item.x : mean(item[side])]));
    row.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
    const total = row.reduce((sum, { width }) => sum + width + GAP, -GAP);
    let left = (WIDTH - total) / 2;
    for (const item of row) {
      item.x = left + item.width / 2;
      left += item.width + GAP;
    }
  };
  for (let round = 0; round < 4; round += 1) {
    for (const row of rows) order(row, "above");
    for (const row of rows.toReversed()) order(row, "below");
  }
  for (const row of rows) order(row, "above");
}

/** The x position where an arrow touches a box. Arrows on one side are ordered like their other ends. */
function port(item: Item, other: Item, side: "above" | "below"): number {
  const others = item[side].toSorted((a, b) => a.x - b.x);
  const step = Math.min(40, item.width / (others.length + 1));
  return Math.round(item.x + (others.indexOf(other) - (others.length - 1) / 2) * step);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function arrows(rows: readonly Item[][]): string[] {
  return rows.flatMap((row, index) =>
    row.flatMap((item) =>
      item.below.map((next) => {
        const top = MARGIN + index * ROW_HEIGHT;
        const [x1, y1] = [port(item, next, "below"), top + BOX_HEIGHT];
        const [x2, y2] = [port(next, item, "above"), top + ROW_HEIGHT - (next.layer === undefined ? 0 : 3)];
        const passes = next.layer === undefined ? ` V${top + ROW_HEIGHT + BOX_HEIGHT}` : "";
        const head = next.layer === undefined ? "" : ' marker-end="url(#head)"';
        const bend = Math.round((y1 + y2) / 2);
        return `<path d="M${x1} ${y1} C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}${passes}"${head}/>`;
      }),
    ),
  );
}

function boxesOf(rows: readonly Item[][]): string[] {
  return rows.flatMap((row, index) =>
    row.flatMap(({ layer, width, x }) => {
      if (layer?.about === undefined) return [];
      const top = MARGIN + index * ROW_HEIGHT;
      return [
        `<rect x="${Math.round(x - width / 2)}" y="${top}" width="${Math.round(width)}" height="${BOX_HEIGHT}" rx="6"/>`,
        `<text class="where" x="${Math.round(x)}" y="${top + 22}">${escaped(titleOf(layer))}</text>`,
        `<text x="${Math.round(x)}" y="${top + 40}">${escaped(layer.about)}</text>`,
      ];
    }),
  );
}

function titleOf({ name }: Layer): string {
  return `${name}/`;
}

/** Describes the arrows for screen readers. */
function sentences(imports: Imports): string {
  return [...imports]
    .filter(([, targets]) => targets.size > 0)
    .toSorted(([a], [b]) => b.floor - a.floor || (a.name < b.name ? -1 : 1))
    .map(
      ([from, targets]) =>
        `${titleOf(from)} imports from ${[...targets].map(titleOf).toSorted().join(" and ")}.`,
    )
    .join(" ");
}

/** Draws the layers of a tree. Always the same for the same tree. */
export function drawArchitecture(files: Files): string {
  const imports = reduced(importsBetween(files));
  const rows = rowsOf(imports);
  place(rows);
  const height = 2 * MARGIN + (rows.length - 1) * ROW_HEIGHT + BOX_HEIGHT;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title desc">
<title id="title">The folders of sign-in-service and the imports between them</title>
<desc id="desc">${escaped(sentences(imports))}</desc>
<style>
  svg { --paper: #ffffff; --box: #f3f5f8; --line: #5b6472; --ink: #1c2128; --name: #0b4f9e; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #14181d; --box: #222932; --line: #9aa5b4; --ink: #e6eaef; --name: #8cc2ff; }
  }
  .paper { fill: var(--paper); stroke: none; }
  rect { fill: var(--box); stroke: var(--line); }
  path { fill: none; stroke: var(--line); stroke-width: 1.5; }
  #head path { fill: var(--line); stroke: none; }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); text-anchor: middle; }
  .where { font-weight: 600; fill: var(--name); }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="paper" width="${WIDTH}" height="${height}"/>
${[...arrows(rows), ...boxesOf(rows)].join("\n")}
</svg>
`;
}

/** The picture in `docs/architecture.md`. */
export const architecturePicture: Page = {
  file: "docs/images/architecture.svg",
  generate: () => drawArchitecture(readTree()),
};
