#!/usr/bin/env node
/** The program `sign-in-service`. Older versions of Node.js can run only this file, which says which version is needed. */
import module from "node:module";
import { setFlagsFromString } from "node:v8";
import { olderNodeProblem } from "../core/node-version.ts";

/** The commands that serve requests and deliveries. */
const SERVERS: ReadonlySet<string> = new Set(["serve", "worker"]);

/** How long a start may take, approximately. */
const START_MS = 3_000;

/**
 * V8 doubles its space for new objects when most of them survive. All modules that a start loads do, so an idle server would
 * keep 22 MB that it never uses. After the start of a server, V8's default applies again, so that the space grows under load. Other commands
 * run beside servers, on the same machine, and stay small.
 */
function growBy(factor: number): void {
  setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}

const problem = olderNodeProblem();
if (problem !== undefined) {
  process.stderr.write(`${problem}\n`);
  process.exitCode = 2;
} else {
  // Commands load most of the package. From the second run on, the compiled code is read from Node's cache.
  module.enableCompileCache();
  growBy(1);
  if (SERVERS.has(process.argv[2] ?? "")) setTimeout(growBy, START_MS, 2).unref();
  // Half as much garbage as there is in use, instead of several times that: for imports and exports of a million accounts.
  else setFlagsFromString("--heap-growing-percent=50");
  const [{ runProcess }, { COMMANDS }, environment] = await Promise.all([
    import("./program/process.ts"),
    import("./commands.ts"),
    import("../config/environment.ts"),
  ]);
  process.exitCode = await runProcess(process.argv.slice(2), COMMANDS, environment);
  // Anything that an interrupted command left open, such as a connection, must not keep the process alive.
  setTimeout(() => process.exit(), 100).unref();
}
