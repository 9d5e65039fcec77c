/** A fault: how it begins and ends, and what an operator sees of it. */
import type { Deployment, Member } from "./deployment.ts";

/** What a line of the log says. */
export interface ExpectedLine {
  readonly level: "warn" | "error";
  readonly msg: string;
  readonly reason?: string;
  readonly store?: string;
}

export interface Fault {
  readonly name: string;
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** The process that has it. Default: the server. */
  readonly at?: () => Member;
  /** Status of `/health` of this process on its public port. */
  readonly health: 200 | 503;
  /** That of the worker, if there is one. Default: 200. */
  readonly worker?: 503;
  /** A part of the detailed health that is not as usual, and its text. */
  readonly part?: readonly [name: string, detail: RegExp];
  readonly line: ExpectedLine | undefined;
  /** A line of the log that says that it is over. */
  readonly again?: string;
  /** What Prometheus finds; `$on` stands for the processes. */
  readonly metric: string;
  /** The alerts, with the one that leads to the cause first. */
  readonly alerts: readonly string[];
  /** Commands of the first alert's section in docs/operate/runbooks/alerts.md, and what they print of the cause. */
  readonly runbook: readonly (readonly [command: string, cause: RegExp])[];
  /** Whether it happens once. Otherwise, the fault goes on as it began. */
  readonly isOnce?: boolean;
  /** Whether people are signed out, and what clients hold is void. */
  readonly losesSessions?: boolean;
  /** Seconds until the first alert at most; the others fire within ten minutes more. Default: two minutes. */
  readonly within?: number;
}

/** Faults that happen one after the other to one deployment. */
export interface Lane {
  readonly deployment: Deployment;
  readonly faults: readonly Fault[];
  readonly close: () => Promise<void>;
}

/** An expression for calls to a store that fail, and with them requests. */
export const failing = (store: string): string =>
  `rate(sign_in_storage_duration_seconds_count{store="${store}",result="failure",$on}[10s]) > 0
    and on() sum(rate(sign_in_request_duration_seconds_count{status="5xx",$on}[10s])) > 0`;
