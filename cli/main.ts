#!/usr/bin/env node
/** The program `sign-in-service`. Older versions of Node.js can run only this file, which says which version is needed. */
import module from "node:module";
import { olderNodeProblem } from "../core/node-version.ts";

const problem = olderNodeProblem();
if (problem !== undefined) {
  process.stderr.write(`${problem}\n`);
  process.exitCode = 2;
} else {
  // Commands load most of the package. From the second run on, the compiled code is read from Node's cache.
  module.enableCompileCache();
  const [{ runProcess }, environment] = await Promise.all([
    import("./program/process.ts"),
    import("../config/environment.ts"),
  ]);
  process.exitCode = await runProcess(process.argv.slice(2), environment);
  // What an interrupted command has begun, such as a connection, doesn't hold the process.
  setTimeout(() => process.exit(), 100).unref();
}
