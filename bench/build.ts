/** Compiles the service and the servers of the benchmarks: what is measured is what a package holds. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The checkout that these benchmarks belong to. */
export const HERE: string = join(import.meta.dirname, "..");

/** Where the compiled files of a checkout are: below the folder of the packages that they import, and ignored by git. */
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

/** Compiles everything of a checkout anew, with its own compiler and its own settings. */
export function build(checkout: string = HERE): void {
  const built = builtIn(checkout);
  rmSync(built, { recursive: true, force: true });
  mkdirSync(built, { recursive: true });
  run(checkout, "node_modules/typescript/bin/tsc", ["-p", "bench/tsconfig.json"]);
  run(checkout, "build/copy-assets.mjs", [built]);
  writeFileSync(join(built, "package.json"), '{ "type": "module" }\n');
}

/** The compiled file of `bench/servers/<name>.ts` in a checkout. */
export function builtServer(name: string, checkout: string = HERE): string {
  return join(builtIn(checkout), "bench", "servers", `${name}.js`);
}
