// What the tests need of the machine beside Node's packages: one row each. `npm test` looks before it
// starts, installs what is missing where it can, and says loudly what it could not.
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * `executables`: paths or names, the first one found is used; `usedBy`: which tests can't run without;
 * `install(update)`: tries to bring it, after `update()` where a list of packages must be fetched first, and
 * returns why it could not.
 */
export const NEEDS = [
  {
    name: "chromium",
    executables: ["/usr/bin/chromium"],
    usedBy: "the tests of the pages in a browser",
    install: fromDebian("chromium"),
  },
  {
    name: "redis-server",
    executables: ["redis-server"],
    usedBy: "the tests of notifications over Redis",
    install: fromDebian("redis-server"),
  },
];

/** The full path of the first executable that is there. */
export function locate(executables) {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return executables
    .flatMap((name) => (name.includes("/") ? [name] : folders.map((folder) => join(folder, name))))
    .find(isExecutable);
}

/**
 * Makes sure that everything is there; what is there already costs a look at the disk.
 * Returns a sentence for each need that is missing.
 */
export function prepareMachine(needs = NEEDS, say = console.error) {
  const problems = [];
  let updated;
  // The list of packages is fetched once, and only when something has to be installed.
  const update = () => (updated ??= aptGet("update"));
  for (const { name, executables, usedBy, install } of needs) {
    if (locate(executables) !== undefined) continue;
    say(`${name} is missing; installing it (once) …`);
    const why = install(update);
    if (locate(executables) === undefined)
      problems.push(`${name} is missing: ${usedBy} can't run (${why ?? "it is not where it was expected"}).`);
  }
  return problems;
}

/** Installs a package of Debian, as root. */
function fromDebian(name) {
  return (update) => {
    const command = `apt-get install -y --no-install-recommends ${name}`;
    if (locate(["apt-get"]) === undefined) return "install it by hand: this machine has no apt-get";
    if (process.getuid?.() !== 0) return `as root: apt-get update && ${command}`;
    if (update() !== 0) return "apt-get update failed";
    return aptGet("install", "-y", "--no-install-recommends", name) === 0 ? undefined : `${command} failed`;
  };
}

function aptGet(...args) {
  return spawnSync("apt-get", ["-q", "-o", "DPkg::Lock::Timeout=300", ...args], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  }).status;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
