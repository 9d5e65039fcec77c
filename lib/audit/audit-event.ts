/** One record of the audit: who did what to what, from where, and what came of it. Identifiers, never what somebody typed. */
import type { RecordData } from "../../adapters/record-store.ts";
import type { AuditAction } from "./actions.ts";

/**
 * Who does something. `account`: a person, by `sub`. `client`: by `client_id`. `operator`: whoever runs the service, by
 * `sub` or by the name of a program. `command_line`: somebody at the command line. `system`: the service itself, or a
 * call of the library that names nobody. `anonymous`: somebody who has not shown who they are, such as at a sign-in that
 * failed.
 */
export const ACTOR_KINDS = ["account", "client", "operator", "command_line", "system", "anonymous"] as const;

export type ActorKind = (typeof ACTOR_KINDS)[number];

/** Who does something, as calls take it and the audit gives it back. */
export interface Actor {
  readonly kind: ActorKind;
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ ~ : -`: an identifier, so no e-mail address. */
  readonly id?: string;
}

/** Who asks for something, and from where. */
export interface Caller {
  readonly actor: Actor;
  /** The client through which it is asked for. */
  readonly client?: string;
  /** Shortened: see `placeOf`. */
  readonly address?: string;
  /** One of a few words: see `placeOf`. */
  readonly browser?: string;
}

/** A call of the library that names nobody. */
export const SYSTEM: Caller = { actor: { kind: "system" } };

/** Somebody who has not shown who they are. */
export const ANONYMOUS: Actor = { kind: "anonymous" };

export type AuditDetail = Readonly<Record<string, string | number | boolean | null>>;

/** What happened, as it is told to the audit. Nothing in it is text that somebody typed. */
export interface AuditEvent extends Caller {
  readonly action: AuditAction;
  /** What it is about, see `AUDIT_ACTIONS`; left out when that is not known. */
  readonly subject?: string;
  /** Default `success`. */
  readonly outcome?: "success" | "failure";
  /** One of a few words. */
  readonly reason?: string;
  readonly detail?: AuditDetail;
}

/** One record of the audit. */
export interface AuditRecord {
  /** Unique. */
  readonly id: string;
  /** Seconds since the epoch. */
  readonly at: number;
  /** One of the actions in `docs/audit.md`. */
  readonly action: string;
  readonly actor: Actor;
  /** What it is about: the identifier of an account, a client and so on, as the action says. `null`: not known, or nothing. */
  readonly subject: string | null;
  /** The client that it is about, or through which it came. */
  readonly client: string | null;
  /** The network of the address from which it came: the /24 of an IPv4 address, the /48 of an IPv6 one. */
  readonly address: string | null;
  /** The family of the browser, such as `Firefox`. */
  readonly browser: string | null;
  readonly outcome: "success" | "failure";
  /** Why it came out so: one of a few words. */
  readonly reason: string | null;
  /** How often it happened: 1, but for refusals by a limit, which share one record for each window. */
  readonly count: number;
  /** More about it: identifiers, numbers and names of fields. */
  readonly detail: AuditDetail;
}

/** Refusals of one bucket of a limit: in one window they are one record with a count. */
export interface Refusal {
  /** Name of the limit, such as `signIn.account`. */
  readonly limit: string;
  /** Tells its buckets apart. */
  readonly bucket: string;
  /** Length of the window. Windows are counted from the epoch, so that all processes have the same. */
  readonly seconds: number;
}

/** Something that is stored a little after it happened, together with others. */
export interface CollectedEvent {
  readonly event: AuditEvent;
  /** When it happened: see `AuditStore.position`. */
  readonly order: number;
  /** With it the event is a refusal, and counted. */
  readonly refusal?: Refusal;
  readonly count: number;
}

/** Which records: all of the conditions hold. */
export interface AuditFilter {
  /** `sub`: what happened to this account, and what it did. */
  readonly account?: string;
  /** `client_id`: what happened to this client, through it, and by it. */
  readonly client?: string;
  /** One of the actions in `docs/audit.md`. */
  readonly action?: string;
  /** Seconds since the epoch: from then on. */
  readonly since?: number;
  /** Seconds since the epoch: before then. */
  readonly until?: number;
}

/** A page of the audit, the newest record first. */
export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** `after` of the next page; missing at the end. A page that has one may hold fewer records than its limit, also none. */
  readonly next?: string;
}

/** The part of the storage that keeps the audit. */
export interface AuditStore {
  /** Now, in microseconds since the epoch, and later than all that this process was told before. */
  position(): number;
  /** The record of something that happens now, for the commit in which it happens. */
  recordOf(event: AuditEvent): RecordData;
  /** Stores a record now, in a commit of its own. */
  append(event: AuditEvent): Promise<void>;
  /** Stores what was collected, in one commit that a failing machine may forget. */
  appendCollected(events: readonly CollectedEvent[]): Promise<void>;
  /** @throws TypeError for an `after` that no page gave. */
  list(filter: AuditFilter & { readonly after?: string; readonly limit: number }): Promise<AuditPage>;
}
