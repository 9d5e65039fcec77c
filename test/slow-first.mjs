// The order of the test files. jest would go by their size on a machine that has no times of earlier runs.
import { accessSync } from "node:fs";
import { join } from "node:path";
import Sequencer from "@jest/test-sequencer";

/** They take 8 seconds and more, most of which they wait: begun last, they would be waited for alone. */
const LONGEST = [
  "hostile/slow-bodies",
  "flows/backchannel",
  "notifier/mail/sender",
  "cli/administration",
  "records/renewal",
  "browser/pages",
  "flows/families",
  "notifier/bullmq/wake-ups",
  "cli/beside",
  "traceability",
  "hostile/personal-data",
  "hostile/strangers",
  "browser/sign-in-methods",
  "cli/fault-advice",
  "flows/artifacts-unavailable",
  "browser/second-factor",
  "hostile/limits",
  "hostile/device-codes",
  "adapters/redis/start",
  "cli/backup",
  "records/health",
].map((name) => join(import.meta.dirname, `${name}.test.ts`));

/** Tests that start servers and processes, and wait for much of their time: the others fill the gaps. */
const SLOW = /\/test\/(?:adapters|browser|cli|cluster|examples|faults|notifier)\//u;

for (const path of LONGEST) accessSync(path);

function rank({ path }) {
  const place = LONGEST.indexOf(path);
  if (place !== -1) return place;
  return SLOW.test(path) ? LONGEST.length : LONGEST.length + 1;
}

export default class SlowFirst extends Sequencer {
  sort(tests) {
    return tests.toSorted((one, other) => rank(one) - rank(other) || (one.path < other.path ? -1 : 1));
  }
}
