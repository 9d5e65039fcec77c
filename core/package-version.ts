/** The version of this package. */
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";

/** @returns for example `0.3.0`; `unknown` if the package file is missing. */
export function packageVersion(): string {
  const path = findPackageJSON("..", import.meta.url);
  const { version = "unknown" } = (path === undefined ? {} : JSON.parse(readFileSync(path, "utf8"))) as {
    readonly version?: string;
  };
  return version;
}
