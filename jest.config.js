export default {
  testEnvironment: "node",
  testMatch: ["<rootDir>/test/**/*.test.ts"],
  extensionsToTreatAsEsm: [".ts"],
  transform: { "\\.ts$": "<rootDir>/test/strip-types.mjs" },
  coverageProvider: "v8",
  workerIdleMemoryLimit: "512MB",
  testTimeout: 60_000,
  testSequencer: "<rootDir>/test/slow-first.mjs",
  // Most tests wait for servers and clocks of their own; on few cores one worker would do nothing meanwhile.
  maxWorkers: "100%",
};
