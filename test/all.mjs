// What `npm run test:all` runs: everything, then the whole ways through on the other storages. The last line is the
// count of all of it, as that of `npm test`.
import { spawn } from "node:child_process";
import { join } from "node:path";

/** Tests that start a service on the storage that `TEST_STORAGE` names. */
const WHOLE_WAYS = ["test/flows", "test/hostile", "test/hosting", "test/traps"];

const RUNS = [
  { storage: "sqlite", paths: [] },
  { storage: "sqlite+redis", paths: WHOLE_WAYS },
];

/** Resolves with what the run counted. */
function run({ storage, paths }) {
  console.log(`\n=== ${storage}\n`);
  const child = spawn(process.execPath, [join(import.meta.dirname, "run.mjs"), ...paths], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TEST_STORAGE: storage },
  });
  let said = "";
  child.stdout.on("data", (chunk) => {
    process.stdout.write(chunk);
    said = (said + chunk).slice(-2000);
  });
  return new Promise((resolve) => {
    child.on("close", (code) => {
      const [, passed = 0, failed = 0] = /(\d+) passed, (\d+) failed\n$/.exec(said)?.map(Number) ?? [];
      resolve({ passed, failed: code === 0 ? failed : Math.max(1, failed) });
    });
  });
}

const total = { passed: 0, failed: 0 };
for (const each of RUNS) {
  const { passed, failed } = await run(each);
  total.passed += passed;
  total.failed += failed;
}
console.log(`\n${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;
