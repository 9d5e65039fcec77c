/** The package as a team gets it: built, packed, and unpacked beside the packages that it needs. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly keywords: readonly string[];
  readonly engines: { readonly node: string };
  readonly files: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, { readonly types: string; readonly default: string }>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

export const manifest: Manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

export function run(command: string, args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** The folder of this run, for what its files share; see test/jest.mjs. */
const RUN = process.env["TEST_RUN_FOLDER"];

/** Does what `npm pack` does in the repository, once in a run, and leaves its `dist` alone. @returns the file, in this folder. */
export function packInto(work: string): string {
  const packed = join(work, `${manifest.name}-${manifest.version}.tgz`);
  const shared = RUN === undefined ? undefined : join(RUN, basename(packed));
  if (shared !== undefined && existsSync(shared)) {
    copyFileSync(shared, packed);
    return packed;
  }
  const source = join(work, "source");
  mkdirSync(source);
  for (const file of [
    "package.json",
    ...manifest.files.filter((each) => each !== "dist" && !each.startsWith("!")),
  ])
    cpSync(join(root, file), join(source, file), { recursive: true });
  const dist = join(source, "dist");
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  run(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", dist], root);
  run(process.execPath, [join("build", "copy-assets.mjs"), dist], root);
  run("npm", ["pack", "--ignore-scripts", "--silent", "--offline", "--pack-destination", work], source);
  if (shared !== undefined) {
    copyFileSync(packed, `${shared}.${process.pid}`);
    renameSync(`${shared}.${process.pid}`, shared);
  }
  return packed;
}

/** Installs the packed package in a folder. What it depends on is inside of it, so other code can't use that by accident. */
export function installPacked(tarball: string, folder: string): void {
  const modules = join(folder, "node_modules");
  const unpacked = join(modules, manifest.name);
  mkdirSync(unpacked, { recursive: true });
  run("tar", ["-xzf", tarball, "--strip-components=1", "-C", unpacked], folder);
  linkPackages(Object.keys(manifest.dependencies), unpacked);
  for (const file of Object.values(manifest.bin)) chmodSync(join(unpacked, file), 0o755);
  linkPrograms(manifest.name, modules);
}

/** Installs packages of this checkout in a folder. @throws if it has none of this name. */
export function linkPackages(names: readonly string[], folder: string): void {
  const modules = join(folder, "node_modules");
  for (const name of names) {
    const link = join(modules, name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, "node_modules", name), link);
    linkPrograms(name, modules);
  }
}

function linkPrograms(name: string, modules: string): void {
  const { bin = {} } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")) as {
    readonly bin?: string | Readonly<Record<string, string>>;
  };
  const programs = typeof bin === "string" ? { [name]: bin } : bin;
  mkdirSync(join(modules, ".bin"), { recursive: true });
  for (const [program, file] of Object.entries(programs))
    symlinkSync(join("..", name, file), join(modules, ".bin", program));
}
