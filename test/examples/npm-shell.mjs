// Runs a script as npm's shell does: output is passed through, a signal is not passed on.
import { spawn } from "node:child_process";

spawn(process.execPath, process.argv.slice(2), { stdio: "inherit" }).on("exit", (code) =>
  process.exit(code ?? 1),
);
