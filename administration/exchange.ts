/** One request to the administration listener, as its surfaces get it. */
import type { Context } from "koa";
import type { Actor, Caller } from "../records/audit/audit-event.ts";

/** What `/v1` and the console get of a request besides Koa's context. */
export interface AdministrationExchange {
  readonly requestId: string;
  /** The origin of the console and of `/v1`, as `admin.url`. */
  readonly url: string;
  /** The caller's IP address. */
  readonly address: string;
  /** Where the request came from, for the audit. */
  readonly origin: Omit<Caller, "actor">;
  /** For the log: the path with names in place of identifiers. Default: the surface alone. */
  template: string;
  /** Who asks, once it is known. */
  actor?: Actor;
}

export type AdministrationContext = Context & { readonly administration: AdministrationExchange };

/** Answers the requests of one surface. Without a body, the answer is 404. */
export type Surface = (ctx: AdministrationContext) => Promise<void>;
