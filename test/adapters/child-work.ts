/** What processes that a test kills do to a storage, whichever it is. */
import { writeSync } from "node:fs";
import type { Storage } from "../../adapters/storage.ts";
import type { Clock } from "../../lib/clock.ts";
import { account, artifact, creation, delivery } from "../../lib/testing/contract/stage.ts";

/** Commits that are on their way at the same time. */
const AT_ONCE = 8;

/** Written at once: a line that the parent reads was true before it was written. */
export function say(line: string): void {
  writeSync(1, `${line}\n`);
}

/**
 * Commits for ever, several at once, and says the number of each one that was acknowledged.
 * @param patience milliseconds until the deadline of a batch.
 */
export async function commitForEver(storage: Storage, clock: Clock, patience: number): Promise<void> {
  let number = 0;
  const loop = async (): Promise<never> => {
    for (;;) {
      number += 1;
      const own = number;
      const person = account(own);
      await storage.artifacts.commit({
        id: String(own),
        deadline: clock.now() + patience,
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
  await Promise.all(Array.from({ length: AT_ONCE }, loop));
}

/** Says the numbers that it got from the counter. */
export async function countUsers(storage: Storage): Promise<void> {
  for (let round = 0; round < 25; round += 1) say(String(await storage.directory.nextUserId()));
  await storage.close();
}
