/**
 * The ledger of requested changes and their answers. The callers, which are never killed, record a change before it is
 * sent, and its answer when it arrives. The journal has what was committed.
 */
import type { Change, Outcome } from "./change.ts";
import type { AccountState, Committed } from "./journal.ts";
import type { Loss } from "./server.ts";

/** One change. Without an outcome the process was killed before it answered. */
export interface Entry {
  readonly change: Change;
  outcome: Outcome | undefined;
  /** In milliseconds since the epoch. */
  readonly askedAt: number;
  answeredAt?: number;
}

/** Counts of changes. */
export interface ChangeCounts {
  readonly asked: number;
  readonly committed: number;
  /** Changes whose process was killed or answered with a fault, so that the caller doesn't know the outcome. */
  readonly unanswered: number;
  /** Of these, those that were committed anyway. */
  readonly unansweredCommitted: number;
  /** A condition did not hold, such as that the account exists. */
  readonly refused: number;
  /** Acknowledged, and not committed. */
  readonly forgotten: number;
  /**
   * The same, while the standby received nothing that then took over. What follows a commit, such as ending the sessions of a
   * deleted account, may wait for the standby, so the answer may come later.
   */
  readonly lostWithPrimary: number;
  /** Committed, although nobody requested it or the response was a refusal. */
  readonly unasked: number;
  /** Faults that no caller should see, such as a bug. */
  readonly surprises: number;
}

export interface Audit {
  readonly counts: ChangeCounts;
  readonly problems: readonly string[];
}

const FIELDS = ["username", "email", "name", "surname", "date_of_birth", "gender"] as const;

const PAST = { move: "moved", unassign: "unassigned", delete: "deleted" } as const;

/** Describes the effect of a change, in the same words for requested and committed changes. */
function traceOf(change: Change): string {
  if ("email" in change) return `created ${change.email}`;
  const { kind, sub } = change;
  if (kind === "assign") return `${sub} assigned ${change.service} ${change.number}`;
  if (kind !== "update") return `${sub} ${PAST[kind]}`;
  return `${sub} ${FIELDS.flatMap((field) => change.changes[field] ?? []).join(" ")}`;
}

function traceBetween(before: AccountState, after: AccountState): string {
  const { sub } = before;
  const profile = FIELDS.filter((field) => before[field] !== after[field]).map((field) => after[field]);
  if (profile.length > 0) return `${sub} ${profile.join(" ")}`;
  if (before.portal !== after.portal) return `${sub} moved`;
  const assigned = Object.entries(after.services).filter(([key, number]) => before.services[key] !== number);
  if (assigned.length > 0) return `${sub} assigned ${assigned.flat().join(" ")}`;
  return Object.keys(before.services).length > Object.keys(after.services).length
    ? `${sub} unassigned`
    : `${sub} changed in another way`;
}

function traceOfCommitted({ before, after }: Committed): string {
  if (after === undefined) return `${String(before?.sub)} deleted`;
  return before === undefined ? `created ${after.email}` : traceBetween(before, after);
}

/**
 * How often a trace must be in the journal: at least as often as it was certainly done, at most as often as it may have
 * been.
 */
interface Bounds {
  least: number;
  /** Of these, those that were acknowledged while the standby received nothing. */
  behind: number;
  /** How often the answer left no doubt. */
  answered: number;
  most: number;
}

const NEVER: Bounds = { least: 0, behind: 0, answered: 0, most: 0 };

function boundsOf(entries: readonly Entry[], losses: readonly Loss[]): Map<string, Bounds> {
  const bounds = new Map<string, Bounds>();
  for (const { change, outcome, askedAt, answeredAt = 0 } of entries) {
    const trace = traceOf(change);
    const known = bounds.get(trace) ?? { ...NEVER };
    bounds.set(trace, known);
    const done = outcome?.kind === "done" && outcome.changed !== false;
    if (done && outcome.changed === true) {
      known.least += 1;
      if (losses.some(({ from, to }) => answeredAt >= from && askedAt <= to)) known.behind += 1;
    }
    if (done) known.answered += 1;
    if (done || isOpen(outcome)) known.most += 1;
  }
  return bounds;
}

const isOpen = (outcome: Outcome | undefined): boolean => outcome === undefined || outcome.kind === "failed";

/** The only fault that the storage may report, when others lock it for too long. */
const ALLOWED = "storage_unavailable";

/** Compares the requested changes and their answers with what was committed. */
export function audit(
  entries: readonly Entry[],
  committed: readonly Committed[],
  losses: readonly Loss[] = [],
): Audit {
  const bounds = boundsOf(entries, losses);
  const found = Map.groupBy(committed.map(traceOfCommitted), (trace) => trace);
  const problems: string[] = [];
  let [forgotten, lostWithPrimary, unasked, unansweredCommitted] = [0, 0, 0, 0];
  for (const trace of new Set([...bounds.keys(), ...found.keys()])) {
    const { least, behind, answered, most } = bounds.get(trace) ?? NEVER;
    const times = found.get(trace)?.length ?? 0;
    const missing = Math.max(0, least - times);
    const excused = Math.min(missing, behind);
    if (missing > excused) problems.push(`acknowledged, but not committed: ${trace} (${times} of ${least})`);
    if (times > most) problems.push(`committed, but not asked for: ${trace} (${times}, at most ${most})`);
    forgotten += missing - excused;
    lostWithPrimary += excused;
    unasked += Math.max(0, times - most);
    unansweredCommitted += Math.max(0, Math.min(times, most) - answered);
  }
  const surprises = entries.flatMap(({ outcome }) =>
    outcome?.kind === "failed" && outcome.code !== ALLOWED ? outcome.code : [],
  );
  return {
    counts: {
      asked: entries.length,
      committed: committed.length,
      unanswered: entries.filter(({ outcome }) => isOpen(outcome)).length,
      unansweredCommitted,
      refused: entries.filter(({ outcome }) => outcome?.kind === "refused").length,
      forgotten,
      lostWithPrimary,
      unasked,
      surprises: surprises.length,
    },
    problems: [...problems, ...surprises.map((code) => `a change failed with ${code}`)],
  };
}

/** The accounts whose `user_id` another account has as well. @param given number and `sub`, as often as somebody learned of them. */
export function givenTwice(given: Iterable<readonly [number: number, sub: string]>): string[] {
  const owners = new Map<number, Set<string>>();
  for (const [number, sub] of given) owners.set(number, (owners.get(number) ?? new Set()).add(sub));
  return [...owners]
    .filter(([, subs]) => subs.size > 1)
    .map(([number, subs]) => `user_id ${number} is given twice: ${[...subs].join(" and ")}`);
}
