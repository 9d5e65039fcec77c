/** The configuration: reading, checking, defaults, keys. (`environment.ts` is for entry points alone.) */
export * from "./addresses.ts";
export type * from "./configuration.ts";
export { defaults, type Defaults } from "./defaults.ts";
export type * from "./input.ts";
export { type KeyFileOptions, keyFileOf, makeSecret, readOrMakeKeyFile } from "./key-file.ts";
export { isLoopback } from "./loopback.ts";
export { isHostName, isNetwork } from "./networks.ts";
export { readConfiguration } from "./read.ts";
export { isInMemory, isRedisAddress, isSqlite } from "./value-forms.ts";
