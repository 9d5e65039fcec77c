/** The counts of a campaign: their labels, what each must be, and how they are printed. */
import type { Counts, Outcome, QueueKind } from "./round.ts";

/** `none`: every one is a defect. `some`: without any, the campaign has proved nothing. */
type Rule = "none" | "some" | "any";

/** In the order of the table. */
export const ROWS: readonly (readonly [key: keyof Counts, label: string, rule: Rule])[] = [
  ["asked", "changes asked for", "some"],
  ["refused", "  refused: a condition did not hold", "any"],
  ["unanswered", "  process killed before it answered", "some"],
  ["unansweredCommitted", "    committed all the same", "any"],
  ["committed", "changes committed", "some"],
  ["forgotten", "  acknowledged, but not committed", "none"],
  ["lostWithPrimary", "  lost with two seconds of the primary", "any"],
  ["unasked", "  committed, but not asked for", "none"],
  ["contradictions", "  accounts that are otherwise", "none"],
  ["numbersTwice", "  user_id that another account has", "none"],
  ["surprises", "  failed with an error of the code", "none"],
  ["expected", "deliveries of committed changes", "some"],
  ["taken", "  taken by their receivers", "some"],
  ["lost", "  lost", "none"],
  ["unexpected", "  at a receiver that should not see it", "none"],
  ["aboutLost", "  about a change that was lost", "any"],
  ["outOfOrder", "  first arrival out of order", "none"],
  ["unfinished", "  not delivered for the storage", "none"],
  ["falselyFinished", "  delivered for the storage only", "none"],
  ["posts", "POSTs that arrived", "some"],
  ["repeats", "  repeats", "some"],
  ["changedRepeats", "    with another body or receiver", "none"],
  ["badRequests", "  not as documented", "none"],
  ["ended", "tokens and codes that had ended", "some"],
  ["endedWorking", "  and worked", "none"],
  ["exchangedTwice", "  codes exchanged twice", "none"],
  ["alive", "tokens that had not ended", "any"],
  ["aliveRefused", "  and did not work", "none"],
  ["workerKills", "workers killed", "some"],
  ["appKills", "app processes killed", "some"],
  ["storageKills", "servers of the storage killed", "any"],
  ["storageStops", "  that stood still", "any"],
  ["storageMoves", "  whose data moved", "any"],
  ["redisRestarts", "queue restarted", "any"],
  ["redisFlushes", "queue emptied", "any"],
  ["crashes", "processes that ended by themselves", "none"],
  ["tooManyConnections", "connections beyond the pool", "none"],
  ["badEndings", "processes that could not be stopped", "none"],
];

const PASSES: Readonly<Record<Rule, (count: number) => boolean>> = {
  none: (count) => count === 0,
  some: (count) => count > 0,
  any: () => true,
};

/** The labels of the counts that are wrong. */
export function wrongCounts(counts: Counts): string[] {
  return ROWS.filter(([key, , rule]) => !PASSES[rule](counts[key])).map(([, label]) => label.trim());
}

export type Outcomes = ReadonlyMap<QueueKind, Outcome>;

function line(label: string, cells: readonly string[]): string {
  return `${label.padEnd(40)}${cells.map((cell) => cell.padStart(11)).join("")}`.trimEnd();
}

/** A column for each queue; a count that is wrong has a mark. */
export function tableOf(outcomes: Outcomes): string {
  const columns = [...outcomes.values()].map(({ counts }) => counts);
  const rows = ROWS.map(([key, label, rule]) => {
    const cells = columns.map((counts) => `${counts[key]}${PASSES[rule](counts[key]) ? " " : "!"}`);
    return line(label, cells);
  });
  return [
    line(
      "",
      [...outcomes.keys()].map((queue) => `${queue} `),
    ),
    ...rows,
  ].join("\n");
}
