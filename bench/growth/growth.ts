/** The effect of the size of a storage: the same work on storages of several sizes, alternating. */
import { type BenchPostgres, startPostgres } from "../postgres.ts";
import type { Measurement, Row } from "../result.ts";
import { type Effort, median, ratioOf, shownInterval } from "../rounds.ts";
import { type Bytes, fill } from "./fill.ts";
import { type Costs, type Measured, preparedOperations } from "./operations.ts";
import { type Backend, BACKENDS, openGrowing, type GrowingStorage } from "./storage.ts";

/** The highest allowed ratio to the smallest storage. */
const MARK = 1.5;

/** Calls of each operation in a round, as a share of the requests of other measurements. */
const SHARE = 1 / 10;

interface Sized {
  readonly size: number;
  readonly place: GrowingStorage;
  readonly bytes: Bytes;
  readonly measure: Measured;
}

const shownCost = (milliseconds: number): string =>
  milliseconds < 10 ? `${Math.round(milliseconds * 1_000)} µs` : `${Math.round(milliseconds)} ms`;

const shownSize = (size: number): string => size.toLocaleString("en");

function costRows(backend: Backend, sizes: readonly number[], rounds: readonly (readonly Costs[])[]): Row[] {
  const [first = 0, ...larger] = sizes;
  return Object.keys(rounds[0]?.[0] ?? {}).flatMap((work) =>
    larger.map((size, index): Row => {
      const cost = (costs: Costs | undefined): number => costs?.[work] ?? Number.NaN;
      const pairs = rounds.map((costs) => [costs[index + 1], costs[0]] as const);
      const { ratio, interval } = ratioOf(pairs, cost);
      const [here, smallest] = [0, 1].map((side) => shownCost(median(pairs.map((pair) => cost(pair[side])))));
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

function byteRows(backend: Backend, { size, bytes }: Sized): Row[] {
  return Object.entries(bytes).map(([kind, value]) => ({
    work: `one ${kind}`,
    against: `${backend}, ${shownSize(size)} accounts`,
    value,
    unit: "bytes",
    raw: "with its index entries",
  }));
}

async function measure(
  backend: Backend,
  { rounds, requests }: Effort,
  sizes: readonly number[],
  where: { readonly folder: string; readonly postgres: BenchPostgres },
): Promise<Row[]> {
  const all: Sized[] = [];
  try {
    for (const size of sizes) {
      console.error(`${backend}: filling ${shownSize(size)} accounts …`);
      const place = await openGrowing(backend, String(size), where);
      const bytes = await fill(place, size);
      all.push({ size, place, bytes, measure: await preparedOperations(place, size, requests * SHARE) });
    }
    const seen: Costs[][] = [];
    console.error(`${backend}: measuring …`);
    // The first round does not count.
    for (let round = 1; round <= 4 * rounds + 1; round += 1) {
      const costs = new Map<Sized, Costs>();
      // Each storage is first in some rounds.
      for (const [at] of all.entries()) {
        const one = all[(at + round) % all.length] as Sized;
        costs.set(one, await one.measure(round));
      }
      if (round > 1) seen.push(all.map((one) => costs.get(one) as Costs));
    }
    const largest = all.at(-1) as Sized;
    return [...costRows(backend, sizes, seen), ...byteRows(backend, largest)];
  } finally {
    for (const { place } of all) await place.close();
  }
}

/** @param sizes number of accounts of each storage, the smallest first. */
export function growth(sizes: readonly number[]): Measurement {
  return {
    name: "growth",
    async run(effort, folder) {
      const postgres = await startPostgres(folder);
      try {
        const rows: Row[] = [];
        for (const backend of BACKENDS)
          rows.push(...(await measure(backend, effort, sizes, { folder, postgres })));
        return rows;
      } finally {
        await postgres.stop();
      }
    },
  };
}
