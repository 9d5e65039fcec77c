/** `storage migrate`: changes the records of a storage to the format of this version. */
import { readConfiguration } from "../../config/read.ts";
import { currentFormat } from "../../core/storage-formats.ts";
import {
  dropLeftovers,
  type Leftovers,
  migrate,
  type MigrationPlan,
  planMigration,
  type StorePlan,
} from "../../records/formats/migration.ts";
import type { StoredProcess } from "../../records/formats/processes.ts";
import { storageOver } from "../../records/storage.ts";
import type { CommandContext, Run } from "../program/command.ts";
import { CommandFailure, FAILED } from "../program/command-failure.ts";
import { confirm, operator } from "../program/on-service.ts";
import { openAddressed } from "../program/open-stores.ts";
import { printable } from "../program/printable.ts";
import { Printer } from "../program/printer.ts";
import { Progress } from "../program/progress.ts";
import { readSettings, refuseMemory } from "../program/settings.ts";

const number = new Intl.NumberFormat("en");

function storeText({ name, from, to, isUnderWay, records }: StorePlan): string {
  const counts = Object.entries(records).map(([kind, count]) => `${number.format(count)} of ${kind}`);
  const what = counts.length === 0 ? "no records to rewrite" : `records to rewrite: ${counts.join(", ")}`;
  return `${name}: format ${from} to ${to}${isUnderWay ? ", begun" : ""}; ${what}`;
}

const processText = ({ role, host, version, seenAt }: StoredProcess): string =>
  `${role} of version ${version} on ${host}, seen at ${new Date(seenAt).toISOString()}`;

/** For programs. */
function factsOf({ path, stores, inTheWay, leftovers }: MigrationPlan): object {
  return {
    format: currentFormat().format,
    path,
    stores: stores.map(({ name, from, to, isUnderWay, records }) => ({
      store: name,
      from,
      to,
      under_way: isUnderWay,
      records,
    })),
    in_the_way: inTheWay.map(({ role, host, version, format, seenAt }) => ({
      role,
      host,
      version,
      format,
      seen_at: Math.floor(seenAt / 1000),
    })),
    leftovers: leftovers.names,
  };
}

/** Says what was dropped, would be dropped, or was kept and why. Empty if there is nothing to drop. */
function leftoversText({ names, usedBy }: Leftovers, isDropped: boolean): string {
  if (names.length === 0) return "";
  const what = `${names.length} ${names.length === 1 ? "part" : "parts"} of the database that only other versions need`;
  if (usedBy.length > 0)
    return `Kept ${what}, because processes of other versions run:\n${usedBy.map((each) => `  ${printable(processText(each))}\n`).join("")}`;
  return `${isDropped ? "Dropped" : "To be dropped:"} ${what}: ${names.join(", ")}\n`;
}

function describePlan({ path, stores, inTheWay }: MigrationPlan, err: CommandContext["err"]): void {
  for (const store of stores) err.write(`${storeText(store)}\n`);
  err.write(
    path === "in one step"
      ? "All servers and workers must be stopped until it has finished.\n"
      : "Servers and workers of this version can keep running. Afterwards, older versions can't use the storage.\n",
  );
  for (const each of inTheWay) err.write(`In the way: ${printable(processText(each))}\n`);
}

export const runMigrate: Run = async (args, context) => {
  const { config, explain } = await readSettings(args, context);
  const configuration = await explain(async () => readConfiguration(config));
  const { clock, storage: address, artifacts } = configuration;
  refuseMemory(address);
  const { signal, out, err } = context;
  const print = new Printer(out, args.flag("json"));
  const options = { name: "The storage", mustExist: true, isMigrating: true, onWarning: () => undefined };
  const stores = await openAddressed({ storage: address, artifacts, secrets: "" }, options, clock);
  const progress = new Progress(err);
  const run = {
    clock,
    signal,
    onProgress: (what: string, done: number): void => progress.update(what, done),
  };
  try {
    const plan = await planMigration(stores, run);
    progress.clear();
    const { format } = currentFormat();
    if (plan.stores.length === 0) {
      const left = args.flag("check") ? plan.leftovers : await dropLeftovers(stores, clock);
      err.write(leftoversText(left, !args.flag("check")));
      print.done(`Nothing to migrate: the storage is in format ${format}`, factsOf(plan));
      return 0;
    }
    describePlan(plan, err);
    if (args.flag("check")) {
      print.done(`To be migrated to format ${format}`, factsOf(plan));
      return FAILED;
    }
    if (plan.inTheWay.length > 0)
      throw new CommandFailure(
        `Stop ${plan.inTheWay.length === 1 ? "this process" : `these ${plan.inTheWay.length} processes`} first. One that was killed is forgotten after three minutes.`,
      );
    const begun = plan.stores.every(({ isUnderWay }) => isUnderWay);
    if (!begun)
      await confirm("Change the storage, so that older versions can't use it any more?", args, context);
    const records = await migrate(stores, run);
    progress.clear();
    err.write(leftoversText(await dropLeftovers(stores, clock), true));
    const from = Math.min(...plan.stores.map((store) => store.from));
    const { audit } = storageOver(stores.storage, configuration);
    await audit.append({
      actor: operator(),
      action: "storage.migrated",
      detail: { from, to: format, records },
    });
    print.done(`Migrated to format ${format}: ${number.format(records)} records`, {
      from,
      to: format,
      records,
    });
    return 0;
  } finally {
    progress.clear();
    await stores.close();
  }
};
