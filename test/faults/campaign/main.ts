/** `npm run test:faults`: what happens to notifications when everything that can fail does. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { campaign } from "./campaign.ts";
import { type CampaignOptions, readOptions, USAGE } from "./options.ts";
import { type Outcomes, tableOf, wrongCounts } from "./report.ts";

/** How many problems are printed. The folder has all of them. */
const SHOWN = 20;

const say = (text: string): void => console.error(text);

function optionsOf(args: readonly string[]): CampaignOptions | "help" | undefined {
  try {
    return readOptions(args);
  } catch (error) {
    say(`${Error.isError(error) ? error.message : String(error)}\n\n${USAGE}`);
    return undefined;
  }
}

/** Prints the result. @returns Whether all counts are right. */
function report(outcomes: Outcomes, { storage, seed, json }: CampaignOptions, folder: string): boolean {
  const wrong = [...outcomes].flatMap(([queue, { counts }]) =>
    wrongCounts(counts).map((label) => `${queue}: ${label}`),
  );
  const problems = [...outcomes].flatMap(([queue, all]) => all.problems.map((text) => `${queue}: ${text}`));
  const ok = wrong.length === 0 && problems.length === 0;
  const counts = Object.fromEntries([...outcomes].map(([queue, all]) => [queue, all.counts]));
  console.log(json ? JSON.stringify({ ok, storage, seed, wrong, counts }) : `${tableOf(outcomes)}\n`);
  if (ok) return true;
  writeFileSync(join(folder, "problems.txt"), `${problems.join("\n")}\n`);
  for (const text of problems.slice(0, SHOWN)) say(text.slice(0, 1000));
  if (problems.length > SHOWN) say(`… and ${problems.length - SHOWN} more`);
  say(`wrong: ${wrong.join(", ")}`);
  return false;
}

async function run(options: CampaignOptions): Promise<number> {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => stop.abort(signal));
  }
  const folder = mkdtempSync(join(tmpdir(), "sign-in-campaign-"));
  say(`${options.storage}, seed ${options.seed}`);
  let kept = true;
  try {
    const outcomes = await campaign(options, { folder, signal: stop.signal, tell: say });
    kept = !report(outcomes, options, folder);
    return kept ? 1 : 0;
  } catch (error) {
    kept = !stop.signal.aborted;
    if (kept) say(String(Error.isError(error) ? error.stack : error));
    else say(`stopped by ${String(stop.signal.reason)}`);
    return 1;
  } finally {
    if (kept) say(`everything is kept in ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }
}

const options = optionsOf(process.argv.slice(2));
if (options === "help") console.log(USAGE);
else process.exitCode = options === undefined ? 2 : await run(options);
