/** What another process does to a database: `node child.ts TASK URL`. */
import { openMongo } from "../../../adapters/mongodb/open.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { commitForEver, countUsers } from "../child-work.ts";

const clock = createSystemClock();

async function commit(url: string): Promise<void> {
  await commitForEver(await openMongo({ url, clock }), clock, 60_000);
}

async function count(url: string): Promise<void> {
  await countUsers(await openMongo({ url, clock }));
}

const tasks: Readonly<Record<string, (url: string) => Promise<void>>> = { commit, count };
const [, , task = "", url = ""] = process.argv;
await tasks[task]?.(url);
