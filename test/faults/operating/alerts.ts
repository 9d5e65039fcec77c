/**
 * What Prometheus says about a fault: a real one scrapes the processes every three seconds, and the shipped rules are evaluated over
 * what it has recorded, continued for as long as the rules look.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parse } from "yaml";
import { blocksOf, ROOT } from "../../examples/documents.ts";
import { freePorts, type Running, startProgram } from "../../examples/processes.ts";
import { programFor } from "../../machine.mjs";
import { TOKEN } from "./deployment.ts";

const RULES_FILE = join(ROOT, "deploy/prometheus/alerts.yml");

/** Seconds between two scrapes, and between two evaluations, of the Prometheus that an operator runs. */
const INTERVAL = 15;
/** Seconds of healthy service before a fault: the longest window of a rule that compares rates. */
const BEFORE = 20 * 60;
/** Seconds after which a sample is missing. Prometheus then marks the series as stale. */
const FRESH = 5;

/** Series that rules read, besides those of the service. */
const OTHERS = new Set(["up", "nodejs_eventloop_lag_p99_seconds"]);
const COUNTED = /_(?:total|count|sum|bucket)$/u;

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  /** Seconds since the epoch, and the value. */
  readonly values: readonly (readonly [at: number, value: string])[];
}

/** A fault, in seconds since the epoch. */
export interface Span {
  /** Since when all was well. */
  readonly well: number;
  readonly began: number;
  readonly ended: number;
}

export interface Continuation {
  /** Whether the fault happens once. Otherwise counters go on as during the fault. */
  readonly isOnce: boolean;
  /** Seconds that are looked at after the beginning of the fault. */
  readonly seconds: number;
}

export class Prometheus {
  readonly #folder: string;
  readonly #url: string;
  readonly #running: Running;

  private constructor(folder: string, url: string, running: Running) {
    this.#folder = folder;
    this.#url = url;
    this.#running = running;
  }

  /** Starts it with the documented configuration. */
  static async open(): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), "sign-in-prometheus-"));
    const documented = blocksOf("alerts").find(({ code }) => code.startsWith("rule_files:"))?.code ?? "";
    const {
      scrape_configs: [scrape],
    } = parse(documented) as { scrape_configs: [Record<string, unknown>] };
    writeFileSync(join(folder, "token"), TOKEN);
    mkdirSync(join(folder, "targets"));
    const { static_configs: _static, ...documentedScrape } = scrape;
    const config = {
      global: { scrape_interval: "3s", scrape_timeout: "3s" },
      rule_files: [RULES_FILE],
      scrape_configs: [
        {
          ...documentedScrape,
          authorization: { credentials_file: join(folder, "token") },
          file_sd_configs: [{ files: [join(folder, "targets/*.json")], refresh_interval: "1s" }],
        },
      ],
    };
    // YAML includes JSON.
    writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
    const port = await freePorts();
    const running = startProgram(join(dirname(programFor("promtool")), "prometheus"), {
      args: [
        `--config.file=${join(folder, "prometheus.yml")}`,
        `--storage.tsdb.path=${join(folder, "data")}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      cwd: folder,
    });
    const url = `http://127.0.0.1:${port}`;
    const isReady = (): Promise<boolean> =>
      fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
    while (!(await isReady())) await pause(50);
    return new Prometheus(folder, url, running);
  }

  /** Resolves when it has scraped each of them. */
  async watch(name: string, targets: readonly string[]): Promise<void> {
    writeFileSync(join(this.#folder, "targets", `${name}.json`), JSON.stringify([{ targets }]));
    while ((await this.#query(`up{${instances(targets)}} == 1`)).length < targets.length) await pause(100);
  }

  unwatch(name: string): void {
    rmSync(join(this.#folder, "targets", `${name}.json`));
  }

  /** Whether an expression has a value for these processes; `$on` in it stands for them. */
  async holds(expression: string, targets: readonly string[]): Promise<boolean> {
    return (await this.#query(expression.replaceAll("$on", instances(targets)))).length > 0;
  }

  /** Alerts that fire when the fault goes on, and after how many seconds each. */
  async alerts(
    { well, began, ended }: Span,
    targets: readonly string[],
    { isOnce, seconds }: Continuation,
  ): Promise<ReadonlyMap<string, number>> {
    const range = Math.ceil(Date.now() / 1000 - well);
    const all = await this.#query(`{job="sign-in-service",${instances(targets)}}[${range}s]`);
    const series = all.filter(
      ({ metric: { __name__: name = "" } }) => name.startsWith("sign_in_") || OTHERS.has(name),
    );
    const continued = series.map((each) => continuationOf(each, { well, began, ended }, { isOnce, seconds }));
    const times = Array.from({ length: Math.floor(seconds / INTERVAL) }, (_, index) => index * INTERVAL);
    const input = {
      rule_files: [RULES_FILE],
      evaluation_interval: `${INTERVAL}s`,
      tests: [
        {
          interval: `${INTERVAL}s`,
          input_series: continued.filter((each) => each !== undefined),
          // Each finds nothing, and promtool says what it got.
          promql_expr_test: times.map((at) => ({
            expr: 'ALERTS{alertstate="firing"}',
            eval_time: `${BEFORE + at}s`,
            exp_samples: [],
          })),
        },
      ],
    };
    const promtool = programFor("promtool");
    const file = join(this.#folder, `rules-${began}.json`);
    writeFileSync(file, JSON.stringify(input));
    const said = await new Promise<string>((resolve) => {
      const options = { maxBuffer: 2 ** 28 };
      // It ends with 1, because each alert that it finds is one too many.
      execFile(promtool, ["test", "rules", file], options, (_error, stdout, stderr) =>
        resolve(stdout + stderr),
      );
    });
    return firstFirings(said);
  }

  async #query(expression: string): Promise<readonly Series[]> {
    const body = new URLSearchParams({ query: expression });
    const answer = await fetch(`${this.#url}/api/v1/query`, { method: "POST", body });
    const { data, error } = (await answer.json()) as { data?: { result: readonly Series[] }; error?: string };
    if (data === undefined) throw new Error(`${expression}: ${error}`);
    return data.result;
  }

  async close(): Promise<void> {
    await this.#running.stop("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const instances = (targets: readonly string[]): string => `instance=~"${targets.join("|")}"`;

/** The times at which promtool got alerts, in seconds after the beginning of the fault. */
function firstFirings(said: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const [, time = "", got = ""] of said.matchAll(/time: (\S+),\s+exp:[^\n]*\n\s+got:([^\n]*)/gu)) {
    const at = secondsOf(time) - BEFORE;
    for (const [, name = ""] of got.matchAll(/alertname="(\w+)"/gu))
      if (!found.has(name)) found.set(name, at);
  }
  if (found.size === 0 && !said.includes("SUCCESS")) throw new Error(said.slice(0, 2000));
  return found;
}

/** Of `20m15s`. */
function secondsOf(time: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/u.exec(time) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
}

/**
 * A series as promtool takes it: healthy as before the fault, as recorded during it, and then as at its end.
 * `undefined` for parts of a histogram that never change, which no rule notices.
 */
function continuationOf(
  { metric: { __name__: name = "", ...labels }, values }: Series,
  { well, began, ended }: Span,
  { isOnce, seconds }: Continuation,
): { readonly series: string; readonly values: string } | undefined {
  const isCounter = COUNTED.test(name);
  // Promtool's time begins at 0.
  const shift = name.endsWith("_timestamp_seconds") ? began - BEFORE : 0;
  const samples = values
    .filter(([at]) => at >= well && at <= ended)
    .map(([at, value]) => ({ at, value: Number(value) - shift }));
  const [first] = samples;
  if (first === undefined) return undefined;
  if (name.endsWith("_bucket") && samples.every(({ value }) => value === first.value)) return undefined;
  const upTo = (time: number) => samples.findLast(({ at }) => at <= time);
  const start = upTo(began);
  const last = upTo(ended);
  const rate = (from: typeof first | undefined, to: typeof first | undefined): number =>
    !isCounter || from === undefined || to === undefined || to.at <= from.at
      ? 0
      : Math.max(0, (to.value - from.value) / (to.at - from.at));
  const before = rate(first, start);
  const after = isOnce ? before : rate(start ?? first, last);
  const text: string[] = [];
  const steps = BEFORE / INTERVAL;
  // A counter that is not 0 at the beginning can go back without ending below 0.
  const offset = isCounter ? before * BEFORE : 0;
  if (start === undefined) text.push(`_x${steps - 1}`);
  else text.push(`${number(start.value)}+${number(before * INTERVAL)}x${steps - 1}`);
  let isStale = start === undefined;
  for (let at = began; at < ended; at += INTERVAL) {
    const sample = upTo(at);
    const isThere = sample !== undefined && at - sample.at <= FRESH;
    if (isThere) text.push(number(sample.value + offset));
    else text.push(isStale ? "_" : "stale");
    isStale = !isThere;
  }
  const rest = Math.ceil(seconds / INTERVAL) + 1;
  if (last === undefined || ended - last.at > FRESH) text.push(isStale ? "_" : "stale", `_x${rest}`);
  else text.push(`${number(last.value + offset)}+${number(after * INTERVAL)}x${rest}`);
  const named = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return { series: `${name}{${named.join(",")}}`, values: text.join(" ") };
}

const number = (value: number): string => String(Number(value.toFixed(6)));

/** The names of all rules, with their severity. */
export function severities(): ReadonlyMap<string, string> {
  const { groups } = parse(readFileSync(RULES_FILE, "utf8")) as {
    groups: { rules: { alert: string; labels: { severity: string } }[] }[];
  };
  return new Map(groups.flatMap(({ rules }) => rules.map(({ alert, labels }) => [alert, labels.severity])));
}
