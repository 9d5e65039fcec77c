/**
 * What a deployment on PostgreSQL needs for a number of accounts: the size of the storage, a day hour by hour, and what is used up first.
 * A calculation from the figures of `growth` and `statements`, and from those of the servers.
 */
import { parseArgs } from "node:util";
import { readCounts } from "../statements/statements.ts";
import { bytesOf, type Figures, markdown, readFigures, type Sized } from "./figures.ts";
import type { Cost } from "./operations.ts";

/** Each input, its default, and what it means: an option of the command line. */
export const INPUTS = {
  accounts: [100_000_000, "accounts"],
  active: [0.2, "share of the accounts that are used in a month: each has a session and two grants"],
  visits: [0.05, "share of the accounts whose owner visits on a day"],
  passwords: [0.3, "share of the visits that begin with a password; the others have a session"],
  peak: [0.12, "share of the visits of a day in its busiest hour"],
  refreshes: [2, "refreshes after a visit"],
  userinfo: [3, "userinfo requests after a visit"],
  changes: [4, "changes of an account in a year"],
  receivers: [2, "receivers that are notified of a change"],
  retention: [90, "days for which a finished delivery is kept"],
  audit: [90, "days for which the audit of a sign-in is kept"],
  "server-cores": [32, "cores of the servers and workers"],
  cores: [16, "cores of PostgreSQL"],
  memory: [256, "GB of memory of PostgreSQL"],
  disk: [4_000, "GB of its disk"],
  reads: [20_000, "blocks that the disk reads in a second, at random"],
  throughput: [500, "MB that the disk reads or writes in a second, in order"],
  flushes: [2_000, "commits that the disk makes durable in a second"],
  "backup-from": [2, "hour at which the backup begins"],
  "backup-hours": [4, "hours that it may take"],
} as const satisfies Readonly<Record<string, readonly [number, string]>>;

export type Input = keyof typeof INPUTS;
export type Inputs = Readonly<Record<Input, number>>;

export const DEFAULT_INPUTS: Inputs = Object.fromEntries(
  Object.entries(INPUTS).map(([name, [value]]) => [name, value]),
) as Inputs;

const SHARES: ReadonlySet<Input> = new Set(["active", "visits", "passwords", "peak"]);
const HOURS = 24;
const HOUR_SECONDS = 3_600;
const YEAR_DAYS = 365;
/** Cores are planned with half of their time, so that a wave is waited out and a machine may fail. */
const PLANNED = 0.5;
/** What a table and its indexes take more after months of updates than when they were filled. */
const SLACK = 1.2;

/** @throws Error for a value that makes no sense. */
export function checkInputs(inputs: Inputs): void {
  for (const [name, value] of Object.entries(inputs) as [Input, number][]) {
    if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} is a number, and not negative`);
    if (SHARES.has(name) && value > 1) throw new Error(`--${name} is a share: at most 1`);
  }
  if (inputs.accounts < 1) throw new Error("--accounts is at least 1");
  if (inputs.peak <= 1 / HOURS) throw new Error("--peak is more than a twenty-fourth");
  if (inputs.peak > 0.9) throw new Error("--peak is at most 0.9");
  if (!Number.isInteger(inputs["backup-from"]) || inputs["backup-from"] >= HOURS)
    throw new Error("--backup-from is an hour from 0 to 23");
  if (inputs["backup-hours"] < 1 || inputs["backup-hours"] > HOURS)
    throw new Error("--backup-hours is a number from 1 to 24");
}

/** How busy each hour is, compared with the busiest. */
const SHAPE = [
  0.06, 0.03, 0.02, 0.02, 0.03, 0.08, 0.25, 0.6, 0.9, 1, 0.9, 0.78, 0.66, 0.7, 0.72, 0.66, 0.6, 0.58, 0.6,
  0.64, 0.6, 0.45, 0.25, 0.12,
];

/** The share of each hour of a day. A higher power makes the peak steeper. */
function raised(power: number): readonly number[] {
  const values = SHAPE.map((value) => value ** power);
  const all = values.reduce((sum, value) => sum + value, 0);
  return values.map((value) => value / all);
}

/** The share of each hour, with the given share in the busiest one. */
function shares(peak: number): readonly number[] {
  let [low, high] = [0, 64];
  for (let step = 0; step < 50; step += 1) {
    const middle = (low + high) / 2;
    if (Math.max(...raised(middle)) < peak) low = middle;
    else high = middle;
  }
  return raised(high);
}

/** What happens. */
type Event = "passwordSignIn" | "sessionSignIn" | "refresh" | "userinfo" | "change" | "delivery" | "sweep";

interface EventCost {
  readonly event: Event;
  readonly title: string;
  /** Its figure of `growth`. */
  readonly figure: string;
  /**
   * Milliseconds of CPU of a server. Sign-ins and refreshes: decision 112 and "What to buy" in `docs/internals/scale.md`. Userinfo, changes and
   * deliveries are estimates.
   */
  readonly server: number;
  /** From the counts of statements; the sweep's is for a batch of 500. */
  readonly commits: number;
  /** Records that are deleted once they have expired. */
  readonly leaves: number;
}

/** `counts.json` counts the parts. */
function eventCosts(): readonly EventCost[] {
  const counts = readCounts().PostgreSQL;
  const commits = (...operations: readonly (keyof typeof counts)[]): number =>
    operations.reduce((sum, operation) => sum + (counts[operation].commits ?? 0), 0);
  return [
    {
      event: "passwordSignIn",
      title: "Sign-ins with a password",
      figure: "sign-in with a password",
      server: 22,
      commits: commits("sign-in", "exchange"),
      // The session, the grant, the code, both tokens, and two audit records.
      leaves: 7,
    },
    {
      event: "sessionSignIn",
      title: "Sign-ins with a session",
      figure: "sign-in with a session",
      server: 2.1,
      commits: commits("authorization with a session", "exchange"),
      // The grant, the code, both tokens, and an audit record.
      leaves: 5,
    },
    {
      event: "refresh",
      title: "Refreshes",
      figure: "refresh",
      server: 1.3,
      commits: commits("refresh"),
      leaves: 1,
    },
    { event: "userinfo", title: "Userinfo", figure: "userinfo", server: 0.4, commits: 0, leaves: 0 },
    {
      event: "change",
      title: "Account changes",
      figure: "account change, two receivers",
      server: 2,
      commits: commits("account change, two notifications"),
      leaves: 1,
    },
    {
      event: "delivery",
      title: "Deliveries",
      figure: "claim and finish",
      server: 1.5,
      commits: commits("delivery"),
      // The payload and the delivery.
      leaves: 2,
    },
    {
      event: "sweep",
      title: "Swept records",
      figure: "sweep, one record",
      server: 0.01,
      commits: 1 / 500,
      leaves: 0,
    },
  ];
}

/** Bytes of the tables and indexes of each kind of record. */
export function storageOf(
  inputs: Inputs,
  sized: Sized,
): readonly (readonly [what: string, records: number, each: number])[] {
  const of = (...kinds: readonly string[]): number => bytesOf(kinds, sized) * SLACK;
  const { accounts, active, visits, changes, receivers, passwords, retention } = inputs;
  const signIns = accounts * visits;
  const changed = (accounts * changes) / YEAR_DAYS;
  const deliveries = changed * receivers;
  return [
    [
      "Accounts, with names and search",
      accounts,
      of("account", "identifier", "sign-in-name", "user-id", "search-words"),
    ],
    ["Sessions", accounts * active, of("session")],
    ["Grants", 2 * accounts * active, of("grant")],
    ["Refresh tokens", 2 * accounts * active, of("refresh-token")],
    ["Access tokens, 10 hours", (signIns * (1 + inputs.refreshes) * 10) / HOURS, of("access-token")],
    [`Finished deliveries, ${retention} days`, deliveries * retention, of("delivery")],
    ["Their payloads, 7 days", deliveries * Math.min(7, retention), of("payload")],
    ["Lanes", accounts * Math.min(1, (changes * retention) / YEAR_DAYS) * receivers, of("lane")],
    [`Audit of sign-ins, ${inputs.audit} days`, signIns * (1 + passwords) * inputs.audit, of("audit")],
    ["Audit of changes, 400 days", changed * 400, of("audit")],
  ];
}

/** One hour of the day, for each second. */
export interface Hour {
  readonly hour: number;
  readonly rates: Readonly<Record<Event, number>>;
  /** What is used of each resource, in its own unit. */
  readonly used: Readonly<Record<Resource, number>>;
}

export type Resource = "servers" | "cores" | "reads" | "log" | "flushes";

const RESOURCES: Readonly<
  Record<Resource, readonly [title: string, unit: string, has: (inputs: Inputs) => number]>
> = {
  servers: ["Cores of the servers", "cores", (inputs) => inputs["server-cores"] * PLANNED],
  cores: ["Cores of PostgreSQL", "cores", (inputs) => inputs.cores * PLANNED],
  reads: ["Reads of its disk", "blocks/s", (inputs) => inputs.reads],
  log: ["Its log and the backup", "MB/s", (inputs) => inputs.throughput],
  flushes: ["Commits", "/s", (inputs) => inputs.flushes],
};

/** What there is of a resource, what is needed of it, and for how many accounts that is enough. */
interface Limit {
  readonly title: string;
  readonly unit: string;
  readonly has: number;
  readonly needs: number;
  /** The hour that needs the most; missing for what does not depend on the hour. */
  readonly hour?: number;
  readonly full: number;
}

export interface Day {
  readonly bytes: number;
  readonly hours: readonly Hour[];
  /** The first one is full first. */
  readonly limits: readonly Limit[];
}

/** The rates of all events but the sweep, for each second of an hour. */
function ratesOf(inputs: Inputs, share: number): Readonly<Record<Event, number>> {
  const visits = (inputs.accounts * inputs.visits * share) / HOUR_SECONDS;
  const changes = (inputs.accounts * inputs.changes * share) / YEAR_DAYS / HOUR_SECONDS;
  return {
    passwordSignIn: visits * inputs.passwords,
    sessionSignIn: visits * (1 - inputs.passwords),
    refresh: visits * inputs.refreshes,
    userinfo: visits * inputs.userinfo,
    change: changes,
    delivery: changes * inputs.receivers,
    sweep: 0,
  };
}

/** The share of the data that does not fit into memory. */
const outside = (bytes: number, memory: number): number => Math.max(0, 1 - memory / bytes);

/** @throws Error for inputs that make no sense. */
export function simulate(inputs: Inputs, { PostgreSQL }: Pick<Figures, "PostgreSQL">): Day {
  checkInputs(inputs);
  const sized = PostgreSQL.at(-1);
  if (sized === undefined) throw new Error("there are no figures of PostgreSQL: run npm run bench -- growth");
  const events = eventCosts();
  const costOf = (figure: string): Cost => {
    const cost = sized.costs[figure];
    if (cost === undefined) throw new Error(`there is no figure of "${figure}"`);
    return cost;
  };
  const bytes = storageOf(inputs, sized).reduce((sum, [, records, each]) => sum + records * each, 0);
  // What was measured had a gigabyte of memory for all tables and indexes.
  const measured = sized.structures.reduce((sum, structure) => sum + structure.bytes, 0);
  const memory = inputs.memory * 1e9;
  const share = Math.max(outside(measured, 1e9), 0.01);
  const colder = outside(bytes, memory) / share;
  const day = shares(inputs.peak).map((part) => ratesOf(inputs, part));
  const left = (rates: Readonly<Record<Event, number>>): number =>
    events.reduce((sum, { event, leaves }) => sum + rates[event] * leaves, 0);
  const backup = bytes / (inputs["backup-hours"] * HOUR_SECONDS) / 1e6;
  const hours = day.map((busy, hour): Hour => {
    // Tokens live for ten hours.
    const before = day[(hour + HOURS - 10) % HOURS] ?? busy;
    const rates = { ...busy, sweep: left(before) };
    const sum = (of: (event: EventCost, cost: Cost) => number): number =>
      events.reduce((all, event) => all + rates[event.event] * of(event, costOf(event.figure)), 0);
    const backsUp = (hour - inputs["backup-from"] + HOURS) % HOURS < inputs["backup-hours"];
    return {
      hour,
      rates,
      used: {
        servers: sum(({ server }) => server) / 1_000,
        cores: sum((_event, { serverCpu }) => serverCpu) / 1_000,
        reads: sum((_event, { reads }) => reads) * colder,
        log: sum((_event, { written }) => written) / 1e6 + (backsUp ? backup : 0),
        flushes: sum(({ commits }) => commits),
      },
    };
  });
  const full = (has: number, needs: number): number => (inputs.accounts * has) / needs;
  // As many accounts as fit into the memory need no reads.
  const fullOfReads = (has: number): number => {
    const most = Math.max(
      ...hours.map(({ rates }) =>
        events.reduce((all, { event, figure }) => all + rates[event] * costOf(figure).reads, 0),
      ),
    );
    return full(has * share, most) + full(memory, bytes);
  };
  const limits = (Object.keys(RESOURCES) as Resource[]).map((resource): Limit => {
    const [title, unit, hasOf] = RESOURCES[resource];
    const { hour, used } = hours.reduce((one, other) =>
      other.used[resource] > one.used[resource] ? other : one,
    );
    const [has, needs] = [hasOf(inputs), used[resource]];
    return {
      title,
      unit,
      has,
      needs,
      hour,
      full: resource === "reads" ? fullOfReads(has) : full(has, needs),
    };
  });
  const [has, needs] = [inputs.disk, bytes / 1e9];
  limits.push({ title: "Disk of PostgreSQL", unit: "GB", has, needs, full: full(has, needs) });
  return { bytes, hours, limits: limits.toSorted((one, other) => one.full - other.full) };
}

const whole = (value: number): string => Math.round(value).toLocaleString("en");
const rough = (value: number): string => (value < 10 ? value.toFixed(1) : whole(value));
/** Two digits say enough. */
const about = (value: number): string => whole(Number(value.toPrecision(2)));

/** The tables of a day, in Markdown, by their names. */
export function capacityTables(
  inputs: Inputs = DEFAULT_INPUTS,
  figures: Pick<Figures, "PostgreSQL"> = readFigures(),
): Readonly<Record<"inputs" | "storage" | "day" | "limits" | "first", string>> {
  const { bytes, hours, limits } = simulate(inputs, figures);
  const sized = figures.PostgreSQL.at(-1) as Sized;
  const events = eventCosts();
  const [first] = limits;
  if (first === undefined) throw new Error("nothing is limited");
  const when = first.hour === undefined ? "" : ` in the hour from ${first.hour}:00`;
  return {
    inputs: markdown(
      ["Option", "Value", "Means"],
      Object.entries(INPUTS).map(([name, [, means]]) => [
        `\`--${name}\``,
        inputs[name as Input].toLocaleString("en"),
        means[0]?.toUpperCase() + means.slice(1),
      ]),
      [2],
    ),
    storage: markdown(
      ["Data", "Records", "Bytes each", "GB"],
      [
        ...storageOf(inputs, sized).map(([what, records, each]) => [
          what,
          about(records),
          whole(each),
          whole((records * each) / 1e9),
        ]),
        ["Everything", "", "", whole(bytes / 1e9)],
      ],
    ),
    day: markdown(
      [
        "Hour",
        ...events.map(({ title }) => title),
        "Cores of servers",
        "Cores of PostgreSQL",
        "Blocks from disk",
        "MB of log and backup",
        "Commits",
      ],
      hours.map(({ hour, rates, used }) =>
        [`${hour}:00`].concat(
          events.map(({ event }) => rough(rates[event])),
          (Object.keys(RESOURCES) as Resource[]).map((resource) => rough(used[resource])),
        ),
      ),
    ),
    limits: markdown(
      ["Resource", "There is", "Needed", "At", "Enough for this many accounts"],
      limits.map(({ title, unit, has, needs, hour, full }) => [
        title,
        `${rough(has)} ${unit}`,
        `${rough(needs)} ${unit}`,
        hour === undefined ? "" : `${hour}:00`,
        about(full),
      ]),
    ),
    first: `The first bottleneck: **${first.title}**${when}. It is enough for ${about(first.full)} accounts.`,
  };
}

/** Reads the options of the command line. @throws Error for wrong ones. */
export function readInputs(parameters: readonly string[]): Inputs {
  const { values } = parseArgs({
    args: [...parameters],
    options: Object.fromEntries(Object.keys(INPUTS).map((name) => [name, { type: "string" }])),
  });
  const given = Object.entries(values).map(([name, text]) => {
    if (text === "") throw new Error(`--${name} is a number, and not negative`);
    return [name, Number(text)] as const;
  });
  const inputs = { ...DEFAULT_INPUTS, ...Object.fromEntries(given) };
  checkInputs(inputs);
  return inputs;
}
