import { availableParallelism } from "node:os";

export default {
  runtime: "<rootDir>/test/runtime.mjs",
  injectGlobals: false,
  testEnvironment: "<rootDir>/test/environment.mjs",
  testMatch: ["<rootDir>/test/**/*.test.ts"],
  transform: {},
  workerIdleMemoryLimit: "1GB",
  testTimeout: 60_000,
  testSequencer: "<rootDir>/test/slow-first.mjs",
  // Many tests wait for servers and deadlines, so one worker more than there are cores keeps the cores busy.
  maxWorkers: availableParallelism() + 1,
};
