/** What another process does to a database: `node child.ts TASK URL`. */
import { writeSync } from "node:fs";
import { openMongo } from "../../../adapters/mongodb/open.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { account, artifact, creation, delivery } from "../../../lib/testing/contract/stage.ts";

const clock = createSystemClock();

/** Written at once: a line that the parent reads was true before it was written. */
function say(line: string): void {
  writeSync(1, `${line}\n`);
}

/** Commits for ever, several at once, and says the number of each one that was acknowledged. */
async function commit(url: string): Promise<void> {
  const storage = await openMongo({ url, clock });
  let number = 0;
  const loop = async (): Promise<never> => {
    for (;;) {
      number += 1;
      const own = number;
      const person = account(own);
      await storage.artifacts.commit({
        id: String(own),
        deadline: clock.now() + 60_000,
        writes: ["one", "two"].map((part) => ({
          kind: "put",
          artifact: artifact(clock, "AccessToken", `${own} ${part}`, { expiresAt: clock.now() + 3_600_000 }),
        })),
      });
      await storage.directory.commitAccount(
        creation(person, { deliveries: [delivery(String(own), person.sub)] }),
      );
      say(String(own));
    }
  };
  await Promise.all(Array.from({ length: 8 }, loop));
}

/** Opens the database and says the numbers that it got from the counter. */
async function count(url: string): Promise<void> {
  const storage = await openMongo({ url, clock });
  for (let round = 0; round < 25; round += 1) say(String(await storage.directory.nextUserId()));
  await storage.close();
}

const tasks: Readonly<Record<string, (url: string) => Promise<void>>> = { commit, count };
const [, , task = "", url = ""] = process.argv;
await tasks[task]?.(url);
