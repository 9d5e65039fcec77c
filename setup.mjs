// Runs before `npm start`, `npm test` and `npm run check`, also on Node 20 and before the first
// install: it installs exactly what the lock file says when node_modules is missing or older than it.
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const installed = join(root, "node_modules", ".package-lock.json");
const lock = join(root, "package-lock.json");

const [major] = process.versions.node.split(".").map(Number);
if (major < 20) {
  console.error(`sign-in-service needs Node 20 or newer to set itself up; this is ${process.version}.`);
  process.exit(1);
}

if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs) {
  console.log("Installing the packages of package-lock.json (once) …");
  const { status, error } = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) {
    console.error(`npm ci failed${error ? `: ${error.message}` : ""}.`);
    process.exit(status ?? 1);
  }
}
