/** Compiles the service and the servers of the benchmarks, so that the code of a package is measured. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The checkout that contains these benchmarks. */
export const HERE: string = join(import.meta.dirname, "..");

/** The folder of the compiled files of a checkout: below its `node_modules`, and ignored by git. */
function builtIn(checkout: string): string {
  return join(checkout, ".cache", "sign-in-bench");
}

function run(checkout: string, script: string, parameters: readonly string[]): void {
  const { status } = spawnSync(process.execPath, [join(checkout, script), ...parameters], {
    cwd: checkout,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) throw new Error(`${script} failed in ${checkout}`);
}

/** Compiles everything in a checkout, with its own compiler and settings. */
export function build(checkout: string = HERE): void {
  const built = builtIn(checkout);
  rmSync(built, { recursive: true, force: true });
  mkdirSync(built, { recursive: true });
  run(checkout, "node_modules/typescript/bin/tsc", ["-p", "bench/tsconfig.json"]);
  run(checkout, "build/copy-assets.mjs", [built]);
  writeFileSync(join(built, "package.json"), '{ "type": "module" }\n');
}

/** The compiled command `sign-in-service`. */
export function builtProgram(): string {
  return join(builtIn(HERE), "cli", "main.js");
}

/** The compiled file of `bench/servers/<name>.ts` in a checkout. */
export function builtServer(name: string, checkout: string = HERE): string {
  return join(builtIn(checkout), "bench", "servers", `${name}.js`);
}
