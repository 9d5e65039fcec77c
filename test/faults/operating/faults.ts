/** All faults of the campaign, each in the deployment that it happens to. */
import { type OwnPostgres, openOwnPostgres } from "../../servers/postgresql.ts";
import type { Lane } from "./fault.ts";
import { queueLane, sendingLane } from "./sending-faults.ts";
import { fileLane } from "./server-faults.ts";
import { artifactsLane, clockLane, databaseLane } from "./store-faults.ts";

/** The names of all faults. */
export const FAULTS: readonly string[] = [
  "PostgreSQL is stopped",
  "PostgreSQL has no connection left",
  "The host name of PostgreSQL is unknown",
  "PostgreSQL hangs",
  "Redis of `artifacts` is full",
  "Redis of `artifacts` is stopped",
  "Redis of `artifacts` is emptied",
  "Redis of `queue` hangs",
  "Redis of `queue` is stopped",
  "Two receivers are down",
  "The mail server is down",
  "The disk of SQLite is full",
  "A wrong configuration is reloaded",
  "A secret is forgotten, and the configuration reloaded",
  "One network reaches a limit",
  "The disk of the log is full",
  "A clock is two hours ahead",
  "A clock is 500 days ahead",
  "A clock is ten seconds behind",
];

/** Opens all deployments. They share a PostgreSQL, except for the one that loses its own. */
const LANES: Readonly<Record<string, (shared: OwnPostgres) => Promise<Lane>>> = {
  databaseLane,
  artifactsLane,
  queueLane,
  sendingLane,
  fileLane,
  clockLane,
};

export async function openLanes(
  names: readonly string[] = Object.keys(LANES),
): Promise<{ readonly lanes: readonly Lane[]; readonly close: () => Promise<void> }> {
  const shared = await openOwnPostgres();
  const lanes = await Promise.all(names.map((name) => LANES[name]!(shared)));
  return {
    lanes,
    async close() {
      for (const lane of lanes) {
        await lane.deployment.close();
        await lane.close();
      }
      await shared.close();
    },
  };
}
