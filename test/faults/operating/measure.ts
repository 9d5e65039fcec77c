/** Lets each fault of a lane happen, and writes down what an operator sees of it. */
import { setTimeout as pause } from "node:timers/promises";
import type { Prometheus } from "./alerts.ts";
import { ask, type Line, type Member } from "./deployment.ts";
import type { ExpectedLine, Fault, Lane } from "./fault.ts";
import { Visitors } from "./visitors.ts";

/** What was seen of a fault. */
export interface Seen {
  readonly fault: Fault;
  /** Status of the health of the worker, if there is one. */
  readonly worker: number | undefined;
  /** What was expected and was not seen; empty if everything was. */
  readonly missing: readonly string[];
  /** How many refresh tokens of before were refused. */
  readonly refused: number;
  /** Alerts and the seconds after which each fires. */
  readonly alerts: ReadonlyMap<string, number>;
  /** What the commands of the runbook printed. */
  readonly runbook: readonly { readonly command: string; readonly output: string }[];
  /** Seconds from the end of the fault until everything worked again. */
  readonly healedAfter: number;
}

/** What a deployment was like over all its faults. */
export interface Course {
  readonly seen: readonly Seen[];
  readonly visitors: Visitors;
  /** All lines of all processes. */
  readonly log: string;
  /** Exit codes after SIGTERM. */
  readonly codes: readonly (number | string)[];
}

const LEVELS = { warn: 40, error: 50 } as const;

/** How long it may take until something is seen, and until everything works again. */
/** How long the healthy service is looked at before a fault, for a few scrapes. */
const BASELINE_SECONDS = 7;
/** How long a fault is looked at when everything was seen, for another scrape. */
const AFTER_MS = 4_000;
const SEEING_TIMEOUT_MS = 90_000;
const HEALING_TIMEOUT_MS = 120_000;

function reasonOf(line: Line): Readonly<Record<string, unknown>> {
  return Object(line["fault"] ?? line["defect"]) as Record<string, unknown>;
}

function isLine(line: Line, { level, msg, reason, store }: ExpectedLine): boolean {
  const cause = reasonOf(line);
  return (
    line.level === LEVELS[level] &&
    line.msg.includes(msg) &&
    (reason === undefined || cause["reason"] === reason || cause["error_code"] === reason) &&
    (store === undefined || cause["store"] === store)
  );
}

/** Resolves with what is still missing when nothing is, or when it has waited long enough. */
async function until(missing: () => Promise<string[]>, timeoutMs: number): Promise<string[]> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const left = await missing();
    if (left.length === 0 || performance.now() > end) return left;
    await pause(200);
  }
}

/** The text of a part of the detailed health. */
async function detailOf(member: Member, part: string): Promise<string> {
  const { text } = await ask(`http://${member.aside}/health`);
  if (text === "") return "";
  const { parts } = JSON.parse(text) as { parts: Readonly<Record<string, { readonly detail: string }>> };
  return parts[part]?.detail ?? "";
}

/** Runs the faults of a lane one after the other while people sign in. */
export async function measure({ deployment, faults }: Lane, prometheus: Prometheus): Promise<Course> {
  const targets = deployment.members.map(({ aside }) => aside);
  const visitors = new Visitors(deployment.url);
  const evaluated: (() => Promise<Seen>)[] = [];
  await prometheus.watch(deployment.server.aside, targets);
  // The first ones mistype their password.
  await until(async () => (visitors.signIns < 4 ? ["sign-ins"] : []), HEALING_TIMEOUT_MS);
  try {
    for (const fault of faults) evaluated.push(await happen(fault));
  } finally {
    await visitors.stop();
    prometheus.unwatch(deployment.server.aside);
  }
  const seen = await Promise.all(evaluated.map((each) => each()));
  const codes = await deployment.stop();
  const log = deployment.members.map((member) => member.log()).join("\n");
  return { seen, visitors, log, codes };

  /** Resolves when it is over; what the rules say of it may take longer. */
  async function happen(fault: Fault): Promise<() => Promise<Seen>> {
    const member = fault.at?.() ?? deployment.server;
    const { worker } = deployment;
    const marks = new Map(deployment.members.map((each) => [each, each.lines().length]));
    const since = (): Line[] => deployment.members.flatMap((each) => each.lines().slice(marks.get(each)));
    const { signIns, refused } = visitors;
    const well = Date.now() / 1000;
    // A baseline for the rules that compare rates.
    const unready = await until(
      async () => [
        ...(visitors.signIns < signIns + 2 ? ["sign-ins before it"] : []),
        ...(Date.now() / 1000 < well + BASELINE_SECONDS ? ["scrapes before it"] : []),
      ],
      HEALING_TIMEOUT_MS,
    );
    const began = Date.now() / 1000;
    let statusOfWorker: number | undefined;
    await fault.begin();
    const missing = await until(async () => {
      const { part, line } = fault;
      const [own, live, others, detail] = await Promise.all([
        member.health(),
        ask(`http://${member.aside}/health/live`),
        worker?.health(),
        part && detailOf(member, part[0]),
      ]);
      statusOfWorker = others?.status;
      const text = `{"ok":${fault.health === 200}}`;
      const wanted: Readonly<Record<string, boolean>> = {
        health: member.role === "worker" || (own.status === fault.health && own.text === text),
        live: live.status === 200,
        worker: worker === undefined || others?.status === (fault.worker ?? 200),
        part: part === undefined || part[1].test(detail ?? ""),
        line: line === undefined || since().some((each) => isLine(each, line)),
        metric: await prometheus.holds(fault.metric, targets),
      };
      return Object.keys(wanted).filter((name) => wanted[name] !== true);
    }, SEEING_TIMEOUT_MS);
    // A few scrapes more say how it goes on.
    await pause(AFTER_MS);
    const span = { well, began, ended: Date.now() / 1000 };
    const continuation = { isOnce: fault.isOnce === true, seconds: (fault.within ?? 120) + 600 };
    const alerts = prometheus.alerts(span, targets, continuation);
    const runbook: { readonly command: string; readonly output: string }[] = [];
    for (const [command] of fault.runbook) {
      const { output } = await deployment.run(...command.replace("NAME", "service:shop").split(" "));
      runbook.push({ command, output });
    }
    await fault.end();
    const endedAt = performance.now();
    const signInsBefore = visitors.signIns;
    const unhealed = await until(async () => {
      const health = await Promise.all(deployment.members.map((each) => each.health()));
      const isAgain = fault.again === undefined || since().some(({ msg }) => msg.includes(fault.again ?? ""));
      return [
        ...health.flatMap(({ status }, index) =>
          status === 200 ? [] : [`health of process ${index} again`],
        ),
        ...(isAgain ? [] : ["line that it works again"]),
        ...(visitors.signIns < signInsBefore + 2 ? ["sign-ins again"] : []),
      ];
    }, HEALING_TIMEOUT_MS);
    const healedAfter = (performance.now() - endedAt) / 1000;
    const refusedSince = visitors.refused - refused;
    return async () => ({
      fault,
      worker: statusOfWorker,
      refused: refusedSince,
      missing: [...unready, ...missing, ...unhealed],
      alerts: await alerts,
      runbook,
      healedAfter,
    });
  }
}
