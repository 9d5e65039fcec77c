// What `npm test`, `npm run test:ci` and `npm run test:all` run: jest, with what the tests need of the machine, a time-out
// around it all, and a count as the last line. Other arguments go to jest, once: `npm test -- test/config`.
import { accessSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { runJest } from "./jest.mjs";
import { NEEDS, prepareMachine } from "./machine.mjs";

/** Tests that start a service on the storage that `TEST_STORAGE` names. */
const END_TO_END = ["test/flows", "test/hostile", "test/hosting"];

/** The flows in which every kind of record is written, raced for, expired or revoked. The other flows test rules alone. */
const SMALL_SET = [
  "account-changes",
  "authorize",
  "factors-at-two-processes",
  "families",
  "logout",
  "session-lifetime",
  "signing-keys",
  "token",
  "userinfo-revoke",
].map((flow) => `test/flows/${flow}.test.ts`);

/** In these, processes and servers are killed at random for minutes; each fault has a test of its own beside. */
const CAMPAIGN = "test/faults/campaign/campaign.test.ts";

/**
 * The longest: every page in Chromium, commands and servers as processes of their own, what is packed, installed and copied from
 * documents, other servers that are killed and started again, and hostile values in every parameter. `npm test` shows the
 * same rules in its own process; `npm run test:ci` runs these, too.
 */
const LONG = [
  "adapters/faults",
  "adapters/mongodb/connection",
  "adapters/pgbouncer",
  "adapters/processes",
  "bench/statements",
  "administration/every-view",
  "browser/account",
  "browser/administration-console",
  "browser/console",
  "browser/demo",
  "browser/devices",
  "browser/enrolment",
  "browser/oidc-client-ts",
  "browser/own-login",
  "browser/own-pages",
  "browser/password-managers",
  "browser/review-methods",
  "browser/screens",
  "browser/self-service",
  "browser/site",
  "browser/spa",
  "browser/start-again",
  "cli/beside",
  "cli/binary",
  "cli/fault-advice",
  "cli/moved-service",
  "cli/renewal",
  "cli/reseal",
  "cli/rotation",
  "cli/server/log",
  "cli/server/monitoring",
  "cli/server/not-found",
  "cli/server/reload",
  "cli/server/server-start",
  "cli/storage/check",
  "cli/storage/copy",
  "cli/storage/copy-mongodb",
  "cluster/cluster",
  "deploy/compose-stack",
  "editor",
  "examples/cluster",
  "examples/config-option",
  "examples/conformance",
  "examples/conformance-logout",
  "examples/demo-notifications",
  "examples/docs",
  "examples/embedding",
  "examples/installed-documents",
  "examples/receiver",
  "examples/walked-documents",
  "examples/your-application",
  "faults/connections",
  "faults/every-operation",
  "faults/killed",
  "faults/operating/operating",
  "faults/redis",
  "faults/redis-cluster",
  "faults/redis-sentinel",
  "faults/server-faults",
  "faults/two-processes",
  "hostile/broken-jwts",
  "hostile/endpoints",
  "notifier/bullmq/outages",
  "notifier/bullmq/processes",
  "notifier/crash",
  "notifier/loaded-packages",
  "notifier/processes",
  "packaging",
  "records/formats/two-versions",
  "upstream/keycloak",
].map((name) => `test/${name}.test.ts`);

const without = (...paths) => `--testPathIgnorePatterns=${paths.join("|")}`;

/** The run of `npm test`: minutes, for every change. What is left there waits more than it computes. */
const WORKERS = `--maxWorkers=${2 * availableParallelism()}`;
const USUAL = [{ storage: "sqlite", args: [without(CAMPAIGN, ...LONG), WORKERS] }];

/** The runs of `npm run test:ci`: everything on SQLite, and a few flows where many processes share what they keep. */
const CI = [
  { storage: "sqlite", args: [without(CAMPAIGN)] },
  { storage: "postgresql", args: SMALL_SET },
  { storage: "mongodb+redis", args: [...SMALL_SET, "test/cli/administration.test.ts"] },
];

/** What depends on the storage. */
const ON_EACH = [
  ...END_TO_END,
  "test/cli/administration.test.ts",
  "test/cli/binary.test.ts",
  "test/cli/reseal.test.ts",
  "test/cli/reset-secrets.test.ts",
  "test/cli/secrets.test.ts",
  "test/records/rules.test.ts",
  CAMPAIGN,
];

/** The runs of `npm run test:all`: everything with many rounds, and what depends on the storage on all other ones. */
const ALL = [
  { storage: "sqlite", args: [] },
  { storage: "sqlite+redis", args: ON_EACH },
  { storage: "postgresql", args: ON_EACH },
  { storage: "mongodb", args: ON_EACH },
  { storage: "mongodb+redis", args: [...ON_EACH, "test/cluster"] },
  // Servers that take the place of one that is lost.
  ...["postgresql+standby", "postgresql+late-standby", "sqlite+sentinel", "sqlite+cluster"].map(
    (storage) => ({
      storage,
      args: [CAMPAIGN],
    }),
  ),
];

const SETS = { "--ci": CI, "--all": ALL };

/** What to run; with arguments, or with a storage that was chosen, one run is meant. */
function chooseRuns([first, ...rest], chosen) {
  if (Object.hasOwn(SETS, first))
    return SETS[first].map(({ storage, args }) => ({ storage, args: [...args, ...rest] }));
  if (first !== undefined || chosen !== undefined)
    return [{ storage: chosen ?? "sqlite", args: first === undefined ? [] : [first, ...rest] }];
  return USUAL;
}

// jest runs what it finds, and says nothing about a file that was renamed.
for (const path of [...SMALL_SET, ...LONG]) accessSync(join(import.meta.dirname, "..", path));

const isWhole = Object.hasOwn(SETS, process.argv[2] ?? "");
const isNamed = ({ name }) => process.argv.some((argument) => argument.includes(name.toLowerCase()));
const missing = prepareMachine(NEEDS.filter((need) => !need.isLarge || isWhole || isNamed(need)));
for (const sentence of missing) console.error(`\n!!! ${sentence}\n`);

const isAll = process.argv[2] === "--all";
const runs = chooseRuns(process.argv.slice(2), process.env.TEST_STORAGE);
/** Milliseconds for everything. */
const patience = Number(process.env.TEST_TIMEOUT_SECONDS ?? (isAll ? 75 : 27) * 60) * 1000;
const end = performance.now() + patience;

const total = { passed: 0, failed: 0, skipped: 0 };
const allFailures = [];
for (const { storage, args } of runs) {
  if (runs.length > 1) console.log(`\n=== ${[`TEST_STORAGE=${storage}`, ...args].join(" ")}\n`);
  const timeOut = Math.max(0, end - performance.now());
  const { passed, failed, skipped, failures, stopped } = await runJest({
    args,
    env: { TEST_STORAGE: storage, ...(isAll && { TEST_ROUNDS: "all" }) },
    timeOut,
  });
  total.passed += passed;
  total.failed += failed;
  total.skipped += skipped;
  allFailures.push(...failures);
  if (stopped) break;
}

// Again at the end: nobody has to look for them in a long output.
for (const failure of allFailures) console.log(`\nFAILED ${failure.slice(0, 2_000)}`);

if (process.env.CI === "true") total.failed += missing.length;
if (total.skipped > 0) console.log(`${total.skipped} skipped`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
