/** The effect of the size of a storage: the same work on storages of several sizes, alternating. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StorageUnavailable } from "../../core/errors.ts";
import { type BenchPostgres, startPostgres } from "../postgres.ts";
import type { Measurement, Row } from "../result.ts";
import { type Effort, median, QUICK, ratioOf, shownInterval } from "../rounds.ts";
import { readFigures, type Sized, writeFigures } from "./figures.ts";
import { filler } from "./fill.ts";
import { type Cost, type Costs, type Measured, preparedOperations } from "./operations.ts";
import type { Backend } from "./sizes.ts";
import { addressOf, type GrowingStorage, openGrowing } from "./storage.ts";
import type { Structures } from "./structures.ts";

/** The highest allowed ratio to the smallest storage. */
const MARK = 1.5;

/** Calls of each operation in a round, as a share of the requests of other measurements. */
const SHARE = 1 / 10;

/** A storage that is measured. */
interface Growing {
  readonly size: number;
  readonly place: GrowingStorage;
  close(): Promise<void>;
  readonly measure: Measured;
}

const shownCost = ({ cpu, serverCpu, reads, written }: Cost): string =>
  `${Math.round((cpu + serverCpu) * 1_000)} µs, ${reads.toFixed(1)} pages, ${(written / 1_024).toFixed(1)} KB`;

const shownSize = (size: number): string => size.toLocaleString("en");

/** The median of each figure. */
function medianCosts(rounds: readonly Costs[]): Costs {
  const middle = (work: string, figure: keyof Cost): number =>
    Number(median(rounds.map((costs) => costs[work]?.[figure] ?? Number.NaN)).toPrecision(4));
  const works = Object.keys(rounds[0] ?? {}).map((work) => {
    const figures = Object.keys(rounds[0]?.[work] ?? {}) as (keyof Cost)[];
    return [work, Object.fromEntries(figures.map((figure) => [figure, middle(work, figure)]))] as const;
  });
  return Object.fromEntries(works) as unknown as Costs;
}

function costRows(backend: Backend, sizes: readonly number[], rounds: readonly (readonly Costs[])[]): Row[] {
  const [first = 0, ...larger] = sizes;
  const medians = sizes.map((_size, index) => medianCosts(rounds.map((costs) => costs[index] as Costs)));
  return Object.keys(medians[0] ?? {}).flatMap((work) =>
    larger.map((size, index): Row => {
      const cpu = (costs: Costs | undefined): number => {
        const { cpu: own, serverCpu } = costs?.[work] ?? { cpu: Number.NaN, serverCpu: 0 };
        return own + serverCpu;
      };
      const { ratio, interval } = ratioOf(
        rounds.map((costs) => [costs[index + 1], costs[0]] as const),
        cpu,
      );
      const [smallest, here] = [medians[0], medians[index + 1]].map((costs) =>
        shownCost(costs?.[work] as Cost),
      );
      return {
        work,
        against: `${backend}, ${shownSize(size)} to ${shownSize(first)} accounts`,
        value: ratio,
        unit: "×",
        target: MARK,
        atMost: true,
        interval,
        raw: `${here} to ${smallest}; ${shownInterval(interval)}`,
      };
    }),
  );
}

function byteRows(backend: Backend, size: number, { kinds, structures }: Structures): Row[] {
  const against = `${backend}, ${shownSize(size)} accounts`;
  return [
    ...structures.map(({ name, bytes, depth }) => ({
      work: name,
      against,
      value: bytes / 1_000_000,
      unit: "MB" as const,
      raw: depth === undefined ? "" : `${depth} levels`,
    })),
    ...Object.entries(kinds)
      .filter(([, { records }]) => records >= size)
      .map(([kind, { records, bytes }]) => ({
        work: `one ${kind}`,
        against,
        value: bytes / records,
        unit: "bytes" as const,
        raw: "with its index entries",
      })),
  ];
}

/** Opens a storage, and fills it if it is new. */
async function openFilled(
  backend: Backend,
  size: number,
  where: { readonly folder: string; readonly postgres: BenchPostgres },
): Promise<Growing & { readonly structures: Structures }> {
  const address = await addressOf(backend, String(size), where);
  const marker = join(where.folder, `${backend}-${size}.filled`);
  if (!existsSync(marker)) {
    console.error(`${backend}: filling ${shownSize(size)} accounts …`);
    const empty = await openGrowing(address);
    const fill = await filler(empty, size);
    await empty.close();
    await fill(await address.bulk());
    writeFileSync(marker, "");
  }
  console.error(`${backend}: looking at ${shownSize(size)} accounts …`);
  const structures = await address.structures();
  const place = await openGrowing(address);
  const close = async (): Promise<void> => {
    await place.close();
    await address.close();
  };
  return { size, place, close, structures, measure: await preparedOperations(place, size) };
}

async function measure(
  backend: Backend,
  { rounds, requests }: Effort,
  sizes: readonly number[],
  where: { readonly folder: string; readonly postgres: BenchPostgres },
): Promise<{ readonly rows: readonly Row[]; readonly figures: readonly Sized[] }> {
  const all: (Growing & { readonly structures: Structures })[] = [];
  try {
    for (const size of sizes) all.push(await openFilled(backend, size, where));
    const seen: Costs[][] = [];
    console.error(`${backend}: measuring …`);
    // The first round does not count.
    for (let round = 0; round <= 2 * rounds; round += 1) {
      const costs = new Map<Growing, Costs>();
      try {
        // Each storage is first in some rounds.
        for (const [at] of all.entries()) {
          const one = all[(at + round) % all.length] as Growing;
          costs.set(one, await one.measure(requests * SHARE));
        }
      } catch (error) {
        if (!(error instanceof StorageUnavailable)) throw error;
        console.error(`a round does not count: ${error.message}`);
        continue;
      }
      if (round > 0) seen.push(all.map((one) => costs.get(one) as Costs));
    }
    const figures = all.map(({ size, structures }, index) => ({
      accounts: size,
      costs: medianCosts(seen.map((costs) => costs[index] as Costs)),
      ...structures,
    }));
    const bytes = figures.flatMap(({ accounts, ...structures }) => byteRows(backend, accounts, structures));
    return { rows: [...costRows(backend, sizes, seen), ...bytes], figures };
  } finally {
    for (const each of all) await each.close();
  }
}

/** What to measure, and where. */
export interface Growth {
  /** Number of accounts of each storage, the smallest first. */
  readonly sizes: readonly number[];
  readonly backends: readonly Backend[];
  /** A folder whose filled storages are used again, and stay. Default: they are removed. */
  readonly kept: string | undefined;
}

export function growth({ sizes, backends, kept }: Growth): Measurement {
  return {
    name: "growth",
    async run(effort, temporary) {
      const folder = kept ?? temporary;
      mkdirSync(folder, { recursive: true });
      const postgres = await startPostgres(folder, "any", ["shared_preload_libraries=pg_stat_statements"]);
      try {
        const rows: Row[] = [];
        for (const backend of backends) {
          const measured = await measure(backend, effort, sizes, { folder, postgres });
          if (effort !== QUICK) writeFigures({ ...readFigures(), [backend]: measured.figures });
          rows.push(...measured.rows);
        }
        return rows;
      } finally {
        await postgres.stop();
      }
    },
  };
}
