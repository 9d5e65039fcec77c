// What `npm test` and `npm run test:all` run: jest, with what the tests need of the machine, a time-out around it all,
// and a count as the last line. Other arguments go to jest, once: `npm test -- test/config`.
import { runJest } from "./jest.mjs";
import { prepareMachine } from "./machine.mjs";

/** Tests that start a service on the storage that `TEST_STORAGE` names. */
const WHOLE_WAYS = ["test/flows", "test/hostile", "test/hosting"];

/** The runs of `npm test`: everything, and the whole ways through where many processes share what they keep. */
const USUAL = [
  { storage: "sqlite", args: [] },
  { storage: "postgresql", args: ["test/flows"] },
  { storage: "mongodb+redis", args: ["test/flows"] },
];

/** Those, the rules over the record store, and the campaign in which processes and servers are killed. */
const ON_EACH = [...WHOLE_WAYS, "test/lib/rules.test.ts", "test/faults/campaign/campaign.test.ts"];

/** The runs of `npm run test:all`: everything, and what depends on the storage on all other ones. */
const ALL = [
  { storage: "sqlite", args: [] },
  { storage: "sqlite+redis", args: ON_EACH },
  { storage: "postgresql", args: ON_EACH },
  { storage: "mongodb", args: ON_EACH },
  { storage: "mongodb+redis", args: ON_EACH },
];

/** What to run; with arguments, or with a storage that was chosen, one run is meant. */
function chooseRuns(args, chosen) {
  if (args[0] === "--all")
    return ALL.map(({ storage, args: paths }) => ({ storage, args: [...paths, ...args.slice(1)] }));
  if (args.length > 0 || chosen !== undefined) return [{ storage: chosen ?? "sqlite", args }];
  return USUAL;
}

const missing = prepareMachine();
for (const sentence of missing) console.error(`\n!!! ${sentence}\n`);

const runs = chooseRuns(process.argv.slice(2), process.env.TEST_STORAGE);
/** Milliseconds for everything; the usual runs take some minutes, all of them about three times as long. */
const patience = Number(process.env.TEST_TIMEOUT_SECONDS ?? (runs === USUAL ? 25 : 60) * 60) * 1000;
const end = performance.now() + patience;

const total = { passed: 0, failed: 0, skipped: 0 };
for (const { storage, args } of runs) {
  if (runs.length > 1) console.log(`\n=== ${[`TEST_STORAGE=${storage}`, ...args].join(" ")}\n`);
  const timeOut = Math.max(0, end - performance.now());
  const { passed, failed, skipped, stopped } = await runJest({
    args,
    env: { TEST_STORAGE: storage },
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
