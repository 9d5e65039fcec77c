// Runs before `npm start`, `npm test` and `npm run check`, also on Node 20 and before the first
// install: it installs exactly what the lock file says when node_modules is missing or older than it.
// Arguments are folders with lock files of their own, which are installed, too.
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));

const [major] = process.versions.node.split(".").map(Number);
if (major < 20) {
  console.error(`sign-in-service needs Node 20 or newer to set itself up; this is ${process.version}.`);
  process.exit(1);
}

for (const folder of [root, ...process.argv.slice(2).map((name) => join(root, name))]) {
  const installed = join(folder, "node_modules", ".package-lock.json");
  const lock = join(folder, "package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) continue;
  console.log(`Installing the packages of ${relative(root, lock)} (once) …`);
  const { status, error } = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: folder,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) {
    console.error(`npm ci failed${error ? `: ${error.message}` : ""}.`);
    process.exit(status ?? 1);
  }
}
