/** The storage contract, for those who write a backend, and how the chosen backend is opened. */
export type * from "./artifacts.ts";
export type * from "./deliveries.ts";
export type * from "./directory.ts";
export type * from "./rate-limits.ts";
export type * from "./record-store.ts";
export type * from "./storage.ts";
export { openStorage } from "../lib/storage.ts";
