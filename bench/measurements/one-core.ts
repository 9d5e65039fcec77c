/**
 * The service on each storage, and oidc-provider with its documented Redis adapter: each server and its store share
 * one core, so that the work of the store counts too. The load has the other.
 */
import { CONNECTIONS } from "../load.ts";
import { type OauthLoad, type OauthSide, startOidcProvider, startService } from "../oauth-side.ts";
import { startPostgres } from "../postgres.ts";
import { startRedis } from "../redis.ts";
import { type Measurement, perSecond, type Row } from "../result.ts";
import { type Effort, inTurns, rate, WARM } from "../rounds.ts";
import { canPin, SERVER_CORE, startSide } from "../side.ts";
import { authorizeLoad } from "./authorize.ts";
import { exchangeLoad } from "./exchange.ts";
import { refreshLoad } from "./refresh.ts";
import { userinfoLoad } from "./userinfo.ts";

/** Parallel sign-ins. */
const BROWSERS = 8;
const STORAGES = ["Redis", "SQLite", "PostgreSQL"] as const;
type Storage = (typeof STORAGES)[number];

type Targets = Readonly<Partial<Record<Storage, number>>>;

/** The work, and the ratio to reach on each storage. */
const WORK: Readonly<Record<string, { readonly load: OauthLoad; readonly targets: Targets }>> = {
  userinfo: { load: userinfoLoad, targets: {} },
  "authorize with a session": {
    load: authorizeLoad,
    targets: { Redis: 1, SQLite: 1, PostgreSQL: 0.6 },
  },
  "code exchange": { load: exchangeLoad, targets: { PostgreSQL: 0.6 } },
  refresh: { load: refreshLoad, targets: { Redis: 1, SQLite: 1, PostgreSQL: 0.6 } },
};

function ratios(work: string, rates: Readonly<Record<string, number>>, targets: Targets): Row[] {
  const { bare = Number.NaN } = rates;
  const rows: Row[] = [];
  for (const storage of STORAGES) {
    const { [storage]: ours = Number.NaN } = rates;
    const target = targets[storage];
    const against = `oidc-provider, one core; on ${storage}`;
    const raw = `${perSecond(ours)} to ${perSecond(bare)}`;
    rows.push({ work, against, value: ours / bare, unit: "×", raw, ...(target !== undefined && { target }) });
  }
  return rows;
}

/** Both compute the same hash, which would hide everything else: the rates are shown without it. */
async function compareSignIns(effort: Effort, sides: Readonly<Record<string, OauthSide>>): Promise<Row[]> {
  const hashing = await startSide("hashing");
  try {
    const loads: Record<string, () => Promise<number>> = {
      hashes: async () =>
        Number(await (await fetch(`${hashing.ready["base"] ?? ""}/${effort.signIns}`)).text()),
    };
    for (const [name, side] of Object.entries(sides))
      loads[name] = () => side.signIns(effort.signIns, BROWSERS);
    const { hashes = Number.NaN, ...rates }: Record<string, number> = await inTurns(
      { rounds: 2 * effort.rounds },
      loads,
      WARM,
    );
    for (const [name, all] of Object.entries(rates)) rates[name] = 1 / (1 / all - 1 / hashes);
    return ratios("sign-ins without the hash", rates, { PostgreSQL: 1.1 });
  } finally {
    await hashing.stop();
  }
}

async function compare(effort: Effort, sides: Readonly<Record<string, OauthSide>>): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [work, { load, targets }] of Object.entries(WORK)) {
    const loads: Record<string, () => Promise<number>> = {};
    for (const [name, side] of Object.entries(sides))
      loads[name] = rate(await load(side, effort, CONNECTIONS));
    rows.push(...ratios(work, await inTurns(effort, loads, WARM), targets));
  }
  return [...rows, ...(await compareSignIns(effort, sides))];
}

export const oneCore: Measurement = {
  name: "one-core",
  async run(effort, folder) {
    if (!canPin()) {
      console.error("one-core: only on a machine with two cores");
      return [];
    }
    await using ends = new AsyncDisposableStack();
    const stopped = async <T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> =>
      ends.adopt(await starting, (each) => each.stop());
    const redis = await stopped(startRedis(folder, SERVER_CORE));
    const postgres = await stopped(startPostgres(folder, SERVER_CORE));
    const sides = {
      bare: await stopped(startOidcProvider({ folder, redis })),
      Redis: await stopped(startService({ folder, redis })),
      SQLite: await stopped(startService({ folder })),
      PostgreSQL: await stopped(startService({ folder, storage: await postgres.newDatabase() })),
    };
    return await compare(effort, sides);
  },
};
