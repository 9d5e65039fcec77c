/**
 * Node's own HTTP and HTTPS, without what an `import` of them loads besides: it reads every name that they export, and
 * so `fetch` and `WebSocket` come along, 10 MB of memory that a worker has no use for.
 */
import type * as Http from "node:http";
import type * as Https from "node:https";

export const http: typeof Http = process.getBuiltinModule("node:http");
export const https: typeof Https = process.getBuiltinModule("node:https");
