#!/usr/bin/env node
/** The program `sign-in-service`. Older versions of Node.js can run this file, which tells what is needed, and no other one. */
import module from "node:module";

const NEEDED = 24;

const { node } = process.versions;
if (Number.parseInt(node, 10) < NEEDED) {
  process.stderr.write(
    `sign-in-service needs Node.js ${NEEDED} or newer, and this is ${node}. After npm install node@${NEEDED} in your folder, npx uses that one.\n`,
  );
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
