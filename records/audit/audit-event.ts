/** The audit: who did what, from where, and with which outcome. Records contain identifiers, never text that people typed. */
import type { RecordData } from "../../adapters/record-store.ts";
import type { AuditAction } from "./actions.ts";

/**
 * Kinds of actors. `account`: an end user, by `sub`. `client`: by `client_id`. `operator`: by `sub` or by the name of a
 * program. `token`: an API token of an administrator, by its id. `command_line`: a user of the command line. `system`: the service itself, or a library call that names no
 * actor. `anonymous`: an unauthenticated person, for example after a failed sign-in.
 */
export const ACTOR_KINDS = [
  "account",
  "client",
  "operator",
  "token",
  "command_line",
  "system",
  "anonymous",
] as const;

type ActorKind = (typeof ACTOR_KINDS)[number];

/** Who does something. Calls accept it, and audit records contain it. */
export interface Actor {
  readonly kind: ActorKind;
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ ~ : -`: an identifier, never an e-mail address. */
  readonly id?: string;
}

/** A client as it is when something happens: it may move to another service, but what has happened stays where it was. */
export interface ClientThen {
  readonly client_id: string;
  /** Whose it is; of one that moves, both. Clients of the pages have none. */
  readonly services: readonly string[];
}

/** Who makes a request, and from where. */
export interface Caller {
  readonly actor: Actor;
  /** The client that the request comes through. */
  readonly client?: ClientThen;
  /** The id of the request, as in `X-Request-Id` and the log. */
  readonly request?: string;
  /** Shortened: see `originOf`. */
  readonly address?: string;
  /** One of a fixed set of words: see `originOf`. */
  readonly browser?: string;
}

/** The caller of a library call that names no actor. */
export const SYSTEM: Caller = { actor: { kind: "system" } };

/** An unauthenticated person. */
export const ANONYMOUS: Actor = { kind: "anonymous" };

export type AuditDetail = Readonly<Record<string, string | number | boolean | null>>;

/** A client as it is now. @param service none for clients of the pages, and for what is no client any more. */
export function clientNow({
  client_id,
  service = null,
}: {
  readonly client_id: string;
  readonly service: string | null | undefined;
}): ClientThen {
  return { client_id, services: service === null ? [] : [service] };
}

/** An event for the audit. It contains no text that people typed. */
export interface AuditEvent extends Caller {
  readonly action: AuditAction;
  /** The identifier of the subject, see `AUDIT_ACTIONS`; missing if unknown. */
  readonly subject?: string;
  /** Default: `success`. */
  readonly outcome?: "success" | "failure";
  /** One of a fixed set of words. */
  readonly reason?: string;
  readonly detail?: AuditDetail;
}

/** One record of the audit. */
export interface AuditRecord {
  /** Unique. */
  readonly id: string;
  /** Seconds since the epoch. */
  readonly at: number;
  /** One of the actions in `docs/reference/audit.md`. */
  readonly action: string;
  readonly actor: Actor;
  /** The identifier of an account, a client and so on, depending on the action. `null`: unknown or none. */
  readonly subject: string | null;
  /** The client that the event is about or came through. */
  readonly client: string | null;
  /** The id of the request, as in `X-Request-Id` and the log. */
  readonly request: string | null;
  /** The network of the caller's address: the /24 of an IPv4 address, the /48 of an IPv6 address. */
  readonly address: string | null;
  /** The browser family, for example `Firefox`. */
  readonly browser: string | null;
  readonly outcome: "success" | "failure";
  /** Why the outcome is what it is: one of a fixed set of words. */
  readonly reason: string | null;
  /** How often it happened: 1, except for refusals by a rate limit and repeated failures, which share one record per window. */
  readonly count: number;
  /** Further identifiers, numbers and names of fields. */
  readonly detail: AuditDetail;
}

/** Refusals of one bucket of a rate limit. Those of one window share one record with a count. */
export interface Refusal {
  /** Name of the limit, for example `signIn.account`. */
  readonly limit: string;
  /** Identifies the bucket of the limit. */
  readonly bucket: string;
  /** Length of the window. Windows start at multiples of it since the epoch, the same in all processes. */
  readonly seconds: number;
}

/** An event that is stored a little later, in a batch with others. */
export interface CollectedEvent {
  readonly event: AuditEvent;
  /** When it happened: see `AuditStore.position`. */
  readonly order: number;
  /** Set if the event is a refusal, which is counted. */
  readonly refusal?: Refusal;
  readonly count: number;
}

/** A filter for records. All conditions must hold. */
export interface AuditFilter {
  /** Events about this account and by it: its `sub`. */
  readonly account?: string;
  /** Events about this client, through it and by it: its `client_id`. */
  readonly client?: string;
  /** One of the actions in `docs/reference/audit.md`, such as `account.deleted`. */
  readonly action?: string;
  /** What this request did: its id is in `X-Request-Id`, in the log and on error pages. */
  readonly request?: string;
  /** At this time or later, in seconds since the epoch. */
  readonly since?: number;
  /** Before this time, in seconds since the epoch. */
  readonly until?: number;
}

/** A page of the audit, newest record first. */
export interface AuditPage {
  readonly items: readonly AuditRecord[];
  /** `after` of the next page; `null` at the end. A page with `next` may have fewer records than its limit, even none. */
  readonly next: string | null;
}

/** The part of the storage for the audit. */
export interface AuditStore {
  /** The current time in microseconds since the epoch, later than all positions that this process got before. */
  position(): number;
  /** The record of an event that happens now, for the commit of the change itself. */
  recordOf(event: AuditEvent): RecordData;
  /** Stores a record immediately, in its own commit. */
  append(event: AuditEvent): Promise<void>;
  /** Stores a batch of events in one commit, which a power failure may lose. */
  appendCollected(events: readonly CollectedEvent[]): Promise<void>;
  /** The record with this id; `undefined` if there is none. @param service only if it is about this service. */
  find(id: string, service?: string): Promise<AuditRecord | undefined>;
  /**
   * @param filter.service only what is about this service: it, its receiver, and what its clients were part of. Nothing else is read.
   * @throws TypeError for an `after` that is not `next` of a page.
   */
  list(
    filter: AuditFilter & {
      readonly after?: string | undefined;
      readonly limit: number;
      readonly service?: string;
    },
  ): Promise<AuditPage>;
}
