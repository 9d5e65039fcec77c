// What `npm test` and `npm run test:all` run: jest, with what the tests need of the machine, a time-out around it all,
// and a count as the last line. Other arguments go to jest, once: `npm test -- test/config`.
import { accessSync } from "node:fs";
import { join } from "node:path";
import { runJest } from "./jest.mjs";
import { prepareMachine } from "./machine.mjs";

/** Tests that start a service on the storage that `TEST_STORAGE` names. */
const END_TO_END = ["test/flows", "test/hostile", "test/hosting"];

/** The flows in which every kind of record is written, raced for, expired or revoked. The other flows test rules alone. */
const SMALL_SET = [
  "account-changes",
  "authorize",
  "families",
  "logout",
  "session-lifetime",
  "signing-keys",
  "token",
  "userinfo-revoke",
].map((flow) => `test/flows/${flow}.test.ts`);

/** In these, processes and servers are killed at random for minutes; each fault has a test of its own beside. */
const CAMPAIGN = "test/faults/campaign/campaign.test.ts";

/** The runs of `npm test`: everything on SQLite, and a few flows where many processes share what they keep. */
const USUAL = [
  { storage: "sqlite", args: [`--testPathIgnorePatterns=${CAMPAIGN}`] },
  { storage: "postgresql", args: SMALL_SET },
  { storage: "mongodb+redis", args: SMALL_SET },
];

/** What depends on the storage. */
const ON_EACH = [...END_TO_END, "test/lib/rules.test.ts", CAMPAIGN];

/** The runs of `npm run test:all`: everything with many rounds, and what depends on the storage on all other ones. */
const ALL = [
  { storage: "sqlite", args: [] },
  { storage: "sqlite+redis", args: ON_EACH },
  { storage: "postgresql", args: ON_EACH },
  { storage: "mongodb", args: ON_EACH },
  { storage: "mongodb+redis", args: [...ON_EACH, "test/cluster"] },
];

/** What to run; with arguments, or with a storage that was chosen, one run is meant. */
function chooseRuns(args, chosen) {
  if (args[0] === "--all")
    return ALL.map(({ storage, args: paths }) => ({ storage, args: [...paths, ...args.slice(1)] }));
  if (args.length > 0 || chosen !== undefined) return [{ storage: chosen ?? "sqlite", args }];
  return USUAL;
}

// jest runs what it finds, and says nothing about a file that was renamed.
for (const path of SMALL_SET) accessSync(join(import.meta.dirname, "..", path));

const missing = prepareMachine();
for (const sentence of missing) console.error(`\n!!! ${sentence}\n`);

const isAll = process.argv[2] === "--all";
const runs = chooseRuns(process.argv.slice(2), process.env.TEST_STORAGE);
/** Milliseconds for everything; the usual runs take some minutes, all of them many times as long. */
const patience = Number(process.env.TEST_TIMEOUT_SECONDS ?? (runs === USUAL ? 27 : 60) * 60) * 1000;
const end = performance.now() + patience;

const total = { passed: 0, failed: 0, skipped: 0 };
for (const { storage, args } of runs) {
  if (runs.length > 1) console.log(`\n=== ${[`TEST_STORAGE=${storage}`, ...args].join(" ")}\n`);
  const timeOut = Math.max(0, end - performance.now());
  const { passed, failed, skipped, stopped } = await runJest({
    args,
    env: { TEST_STORAGE: storage, ...(isAll && { TEST_ROUNDS: "all" }) },
    timeOut,
  });
  total.passed += passed;
  total.failed += failed;
  total.skipped += skipped;
  if (stopped) break;
}

if (process.env.CI === "true") total.failed += missing.length;
if (total.skipped > 0) console.log(`${total.skipped} skipped`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
