/** `doctor`: looks for what is wrong with a configuration, its storage and a running server. */
import { isInMemory } from "../config/storage-address.ts";
import { ConfigurationError, StorageMissing, StorageUnavailable } from "../core/errors.ts";
import { WrongClock } from "../records/clocks.ts";
import type { StoredFormat } from "../records/formats/format.ts";
import { openStorage } from "../records/storage.ts";
import { type Check, type CheckId, CHECKS, type Finding, finding, sentence } from "./doctor/findings.ts";
import { type LocalSubject, localChecks } from "./doctor/local-checks.ts";
import { noAnswer, serverChecks, type ServerSubject } from "./doctor/server-checks.ts";
import { storageChecks, warningFindings, type Warned } from "./doctor/storage-checks.ts";
import { readPublished, upgradeFindings } from "./doctor/upgrade-checks.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { FAILED, misused, UNREACHABLE } from "./program/command-failure.ts";
import { adviceFor } from "./program/fault-advice.ts";
import { printable } from "./program/printable.ts";
import { Printer } from "./program/printer.ts";
import { readSettings } from "./program/settings.ts";
import { checkSettings } from "./server/config-file.ts";

/** What is printed for one check, and with `--json` for each finding. */
class Report {
  readonly #out: CommandContext["out"];
  readonly #isJson: boolean;
  readonly #found: Finding[] = [];
  /** The check that reported a finding first. */
  readonly #advice = new Map<string, string>();

  constructor(out: CommandContext["out"], isJson: boolean) {
    this.#out = out;
    this.#isJson = isJson;
  }

  /** Omits findings that an earlier check has reported. */
  add(id: CheckId, all: readonly Finding[]): void {
    const found = all.filter(({ what }) => this.#found.every((earlier) => earlier.what !== what));
    this.#found.push(...found);
    if (all.length > found.length && found.length === 0) return;
    if (this.#isJson) {
      const printer = new Printer(this.#out, true);
      if (found.length === 0) printer.done("", { check: id, level: "ok", what: CHECKS[id] });
      for (const { check, code, level, what, why, fix } of found)
        printer.done("", { check, code, level, what, why, fix });
      return;
    }
    if (found.length === 0) this.#line("ok", `${id}: ${CHECKS[id]}`);
    const byAdvice = Map.groupBy(found, ({ why, fix }) => JSON.stringify([why, fix]));
    for (const [advice, concerned] of byAdvice) {
      for (const { level, check, what } of concerned) this.#line(level, `${check}: ${what}`);
      const [{ check, why, fix }] = concerned as [Finding];
      const earlier = this.#advice.get(advice);
      this.#advice.set(advice, earlier ?? check);
      if (earlier === undefined) this.#line("", `Why: ${why}`);
      this.#line("", `Do:  ${earlier === undefined ? fix : `as for ${earlier}, above`}`);
    }
  }

  /** The last line, and the exit code. */
  end(err: CommandContext["err"]): number {
    const count = (wanted: Finding["level"]): number =>
      this.#found.filter(({ level }) => level === wanted).length;
    const [problems, warnings] = [count("problem"), count("warning")];
    err.write(
      `${problems} problem${problems === 1 ? "" : "s"}, ${warnings} warning${warnings === 1 ? "" : "s"}.\n`,
    );
    if (this.#found.some(({ isUnreachable }) => isUnreachable)) return UNREACHABLE;
    return problems > 0 ? FAILED : 0;
  }

  #line(level: string, text: string): void {
    this.#out.write(`${level.padEnd(9)}${printable(text)}\n`);
  }
}

async function make<S>(
  checks: readonly Check<S>[],
  subject: S,
  { report, signal }: { readonly report: Report; readonly signal: AbortSignal },
): Promise<void> {
  for (const check of checks) {
    signal.throwIfAborted();
    try {
      report.add(check.id, await check.run(subject));
    } catch (error) {
      const found = findingOf(error);
      if (found === undefined) throw error;
      report.add(check.id, [found]);
    }
  }
}

/** The finding for a failed start; `undefined` for unexpected errors. */
function findingOf(error: unknown): Finding | undefined {
  if (!(error instanceof Error)) return undefined;
  const message = sentence(error.message);
  if (error instanceof StorageMissing) return finding("storage_missing", { message });
  if (error instanceof WrongClock) return finding("storage_clock_refused", { message });
  if (error instanceof StorageUnavailable)
    return finding("storage_unreachable", { message, advice: adviceFor(error) });
  if (error instanceof ConfigurationError)
    return finding("storage_refused", { message: error.problems.map((problem) => `${problem}.`).join(" ") });
  return undefined;
}

/** @returns the formats of the stores that could be opened. */
async function checkStorage(
  { configuration }: LocalSubject,
  running: { readonly report: Report; readonly signal: AbortSignal },
): Promise<readonly StoredFormat[]> {
  const { report } = running;
  // Only its own process can read it.
  if (isInMemory(configuration.storage)) {
    report.add("storage", [finding("storage_in_memory", {})]);
    return [];
  }
  const warnings: Warned[] = [];
  const storage = await openStorage(
    { ...configuration, mustExist: true },
    (text, warning) => void warnings.push({ text, warning }),
  ).catch((error: unknown) => {
    const found = findingOf(error);
    if (found === undefined) throw error;
    report.add("storage", [found]);
  });
  if (storage === undefined) return [];
  try {
    report.add("storage", warningFindings(warnings));
    await make(storageChecks, { configuration, storage, warnings }, running);
    return await storage.formats();
  } finally {
    await storage.close();
  }
}

/** Stops after the first request without an answer, because all checks need one. */
async function checkServer(
  subject: ServerSubject,
  running: { readonly report: Report; readonly signal: AbortSignal },
): Promise<void> {
  for (const check of serverChecks) {
    running.signal.throwIfAborted();
    try {
      running.report.add(check.id, await check.run(subject));
    } catch (error) {
      const found = noAnswer(error, subject);
      if (found === undefined) throw error;
      running.report.add("server", [found]);
      return;
    }
  }
}

export const runDoctor: Run = async (args, context) => {
  const { variables, signal, out, err } = context;
  const url = args.text("url");
  const at = url === undefined ? undefined : URL.parse(url);
  if (at === null || (at !== undefined && !/^https?:$/u.test(at.protocol)))
    throw misused("--url must be an http or https address");
  const against = args.text("against");
  const to = against === undefined ? undefined : await readPublished(against);
  const settings = await readSettings(args, context, { acceptsOpenFile: true });
  const file = await checkSettings(settings);
  const { configuration } = file;
  const report = new Report(out, args.flag("json"));
  const running = { report, signal };
  const local: LocalSubject = { settings, file, configuration, variables };
  report.add("configuration", []);
  await make(localChecks, local, running);
  const formats = await checkStorage(local, running);
  if (to !== undefined) report.add("upgrade", upgradeFindings({ to, config: settings.config, formats }));
  if (at !== undefined) await checkServer({ configuration, at }, running);
  return report.end(err);
};
