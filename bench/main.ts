/** `npm run bench`: compares the speed of this service with others, side by side. */
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { against, COMPARED_NAMES, notACheckout } from "./against.ts";
import { build } from "./build.ts";
import { BACKENDS, SIZES } from "./growth/sizes.ts";
import { hasWrk } from "./load.ts";
import { authorize } from "./measurements/authorize.ts";
import { deliver } from "./measurements/deliver.ts";
import { delivered } from "./measurements/delivered.ts";
import { exchange } from "./measurements/exchange.ts";
import { hanging } from "./measurements/hanging.ts";
import { machine } from "./measurements/machine.ts";
import { pages } from "./measurements/pages.ts";
import { oneCore } from "./measurements/one-core.ts";
import { parked } from "./measurements/parked.ts";
import { postgresql } from "./measurements/postgresql.ts";
import { processes } from "./measurements/processes.ts";
import { refresh } from "./measurements/refresh.ts";
import { roundTrips } from "./measurements/round-trips.ts";
import { signIns } from "./measurements/sign-in.ts";
import { sizing } from "./measurements/sizing.ts";
import { start } from "./measurements/start.ts";
import { steady } from "./measurements/steady.ts";
import { userinfo } from "./measurements/userinfo.ts";
import { passkeys } from "./passkeys/passkeys.ts";
import { hasToReach, type Measurement, type Row, verdict } from "./result.ts";
import { FULL, QUICK } from "./rounds.ts";
import { canPin } from "./side.ts";

const MEASUREMENTS: readonly Measurement[] = [
  userinfo,
  signIns,
  passkeys,
  pages,
  authorize,
  exchange,
  refresh,
  machine,
  roundTrips,
  postgresql,
  oneCore,
  processes,
  deliver,
  delivered,
  steady,
  parked,
  hanging,
  start,
  sizing,
];

const NAMES: readonly string[] = MEASUREMENTS.map(({ name }) => name);

const USAGE = `npm run bench -- [--quick] [--json] [NAME …]
npm run bench -- [--quick] [--json] against PATH [NAME …]
npm run bench -- statements
npm run bench -- [--quick] [--json] growth [--sizes SIZE,SIZE …] [--folder PATH] [SQLite] [PostgreSQL]
npm run bench -- [--quick] [--json] search [--accounts NUMBER]
npm run bench -- capacity [--accounts NUMBER …]

Measures the service and others alternately, in one run, and prints ratios of medians. The ratios can be compared between
machines and runs; the figures can't.

NAME     one of ${NAMES.join(", ")};
         default: all of them
against  compares with another checkout of this project, with its packages installed:
         ${COMPARED_NAMES.join(", ")};
         "unclear" means that the target is within the 95 % interval, because the machine was busy
growth   the same work on storages of several sizes, on SQLite and PostgreSQL, with the pages that it reads and the bytes that it
         writes, and the sizes of tables and indexes; filling them takes long; without --quick, it writes
         bench/growth/figures.json; then run npm run docs
capacity calculates what a number of accounts needs, hour by hour, from the figures of growth and statements; it measures
         nothing; its first table names the options
search   the search for people, on SQLite and PostgreSQL: the time of a page; filling them takes minutes
statements
         counts statements, round trips, index rows, commits and bytes of each operation on each storage, and
         writes bench/statements/counts.json; then run npm run docs
--sizes  number of accounts of each storage, the smallest first; default: ${SIZES.join(",")}
--folder a folder in which the filled storages stay, for the next run; default: they are removed
--accounts
         number of accounts among which to search; default: 1000000
--quick  fewer and shorter rounds, to check that everything works
--json   prints the table as JSON
--help   shows this text`;

function shown({ value, unit }: Pick<Row, "value" | "unit">): string {
  return unit === "×" ? `${value.toFixed(2)} ×` : `${Math.round(value)} ${unit}`;
}

function line(cells: readonly string[]): string {
  const widths = [29, 42, 10, 12, 7];
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join("  ")
    .trimEnd();
}

function table(rows: readonly Row[]): string {
  const head = line(["work", "against", "is", "to reach", "", "medians"]);
  const body = rows.map((row) => {
    const { target: value } = row;
    const target = value === undefined ? "" : `${hasToReach(row) ? "≥" : "≤"} ${shown({ ...row, value })}`;
    return line([row.work, row.against, shown(row), target, verdict(row), row.raw]);
  });
  return [head, ...body].join("\n");
}

async function measure(measurements: readonly Measurement[], quick: boolean): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { name, run } of measurements) {
    console.error(`measuring ${name} …`);
    const folder = mkdtempSync(join(tmpdir(), "sign-in-bench-"));
    try {
      rows.push(...(await run(quick ? QUICK : FULL, folder)));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return rows;
}

/** The arguments of the command line. */
interface Asked {
  /** Compiles the code to measure. */
  readonly prepare: () => Promise<readonly Measurement[]>;
  readonly quick: boolean;
  readonly json: boolean;
}

function chosen(all: readonly Measurement[], names: readonly string[]): readonly Measurement[] {
  return names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
}

/** @throws Error for an unknown name. */
function checkNames(names: readonly string[], known: readonly string[]): void {
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`there is no measurement ${unknown}`);
}

function readSizes(text: string | undefined): readonly number[] {
  if (text === undefined) return SIZES;
  const sizes = text.split(",").map((each) => (/^\d{4,8}$/.test(each) ? Number(each) : 0));
  const areSizes = sizes.length > 1 && sizes.every((each, index) => each > (sizes[index - 1] ?? 999));
  if (!areSizes) throw new Error("--sizes are several numbers from 1000 to 99999999, the smallest first");
  return sizes;
}

/**
 * @throws Error for wrong arguments.
 * @returns `undefined` if help was requested.
 */
function readArguments(): Asked | undefined {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: "boolean" },
      json: { type: "boolean" },
      help: { type: "boolean" },
      sizes: { type: "string" },
      folder: { type: "string" },
      accounts: { type: "string", default: "1000000" },
    },
  });
  if (values.help === true) return undefined;
  const how = { quick: values.quick === true, json: values.json === true };
  const [first, ...rest] = positionals;
  if (first === "growth") {
    checkNames(rest, BACKENDS);
    const options = {
      sizes: readSizes(values.sizes),
      backends: BACKENDS.filter((backend) => rest.length === 0 || rest.includes(backend)),
      kept: values.folder,
    };
    return { ...how, prepare: async () => [(await import("./growth/growth.ts")).growth(options)] };
  }
  if (first === "search") {
    checkNames(rest, []);
    const size = Number(values.accounts);
    if (!/^\d{4,8}$/.test(values.accounts)) throw new Error("--accounts is a number from 1000 to 99999999");
    return { ...how, prepare: async () => [(await import("./growth/search.ts")).search(size)] };
  }
  if (values.sizes !== undefined || values.folder !== undefined)
    throw new Error("--sizes and --folder are for growth");
  if (first === "against") {
    const [other, ...names] = rest;
    if (!other) throw new Error("against needs the path of another checkout");
    checkNames(names, COMPARED_NAMES);
    const reason = notACheckout(other);
    if (reason !== undefined) throw new Error(reason);
    return {
      ...how,
      async prepare() {
        build();
        return chosen(against(other), names);
      },
    };
  }
  checkNames(positionals, NAMES);
  return {
    ...how,
    async prepare() {
      build();
      return chosen(MEASUREMENTS, positionals);
    },
  };
}

async function main(): Promise<void> {
  if (process.argv[2] === "statements") {
    console.log(await (await import("./statements/statements.ts")).statements());
    return;
  }
  if (process.argv[2] === "capacity") {
    const { capacityTables, readInputs } = await import("./growth/capacity.ts");
    try {
      console.log(Object.values(capacityTables(readInputs(process.argv.slice(3)))).join("\n\n"));
    } catch (error) {
      console.error((error as Error).message);
      process.exitCode = 2;
    }
    return;
  }
  let asked: Asked | undefined;
  try {
    asked = readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (asked === undefined) {
    console.log(USAGE);
    return;
  }
  const pinning = canPin() ? "server and load on a core each" : "server and load not pinned";
  console.error(`${availableParallelism()} cores, ${pinning}, ${hasWrk() ? "wrk" : "own generator"}`);
  const rows = await measure(await asked.prepare(), asked.quick);
  console.log(asked.json ? JSON.stringify(rows, undefined, 2) : table(rows));
}

await main();
