/** Builds `sign-in-service-receiver`, the package without dependencies, from the sources of the service: `npm run build:receiver`. */
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** The manifest of the package. It has the version of the service, whose notifications it knows. */
function manifestOf(service: {
  readonly version: string;
  readonly license: string;
  readonly keywords: readonly string[];
}): object {
  const { version, license } = service;
  return {
    name: "sign-in-service-receiver",
    version,
    description:
      "Receives the notifications of sign-in-service: verification, middleware, and a memory of ids.",
    license,
    type: "module",
    engines: { node: ">=20.19" },
    exports: { ".": { types: "./dist/receiver/index.d.ts", default: "./dist/receiver/index.js" } },
    files: ["dist", "LICENSE", "README.md"],
  };
}

/** @param folder is replaced by what `npm pack` takes. */
export function buildReceiver(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const args = [tsc, "-p", "tsconfig.receiver.json", "--outDir", join(folder, "dist")];
  execFileSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  const service = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifestOf(service), undefined, 2)}\n`);
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  cpSync(join(root, "receiver", "README.md"), join(folder, "README.md"));
}

if (import.meta.main) {
  const folder = join(root, "dist-receiver");
  buildReceiver(folder);
  console.log(`Built in ${folder}. Pack it with: npm pack ./dist-receiver`);
}
