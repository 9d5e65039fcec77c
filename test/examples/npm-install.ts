/** Stands for `npm install`, which would fetch: takes the packages of this checkout, and the packed package from its file. */
import { resolve } from "node:path";
import { installPacked, linkPackages } from "../installed.ts";

for (const wanted of process.argv.slice(2)) {
  if (wanted.endsWith(".tgz")) installPacked(resolve(wanted), process.cwd());
  else linkPackages([wanted.replace(/(?<=.)@[^@/]*$/u, "")], process.cwd());
}
