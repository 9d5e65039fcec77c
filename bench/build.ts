/** Compiles the service and the servers of the benchmarks: what is measured is what a package holds. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");

/** Where the compiled files are: below the folder of the packages that they import, and ignored by git. */
const BUILT: string = join(ROOT, ".cache", "sign-in-bench");

function run(script: string, parameters: readonly string[]): void {
  const { status } = spawnSync(process.execPath, [join(ROOT, script), ...parameters], {
    cwd: ROOT,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) throw new Error(`${script} failed`);
}

/** Compiles everything anew. */
export function build(): void {
  rmSync(BUILT, { recursive: true, force: true });
  mkdirSync(BUILT, { recursive: true });
  run("node_modules/typescript/bin/tsc", ["-p", "bench/tsconfig.json"]);
  run("build/copy-assets.mjs", [BUILT]);
  writeFileSync(join(BUILT, "package.json"), '{ "type": "module" }\n');
}

/** The compiled file of `bench/servers/<name>.ts`. */
export function builtServer(name: string): string {
  return join(BUILT, "bench", "servers", `${name}.js`);
}
