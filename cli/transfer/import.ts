/** `accounts import`: reads a file of accounts, many in one commit, and can be stopped and repeated at any time. */
import { type FileHandle, open } from "node:fs/promises";
import type { ImportOptions, LineResult } from "../../accounts/transfer/account-line.ts";
import { isSecret, readKeyFile } from "../../config/keys.ts";
import { isEncrypted } from "../../records/backup/encrypted-lines.ts";
import { CommandFailure, misused } from "../program/command-failure.ts";
import { fileProblem } from "../program/json-file.ts";
import type { Call } from "../program/on-service.ts";
import { Progress } from "../program/progress.ts";
import { encryptedBytes, type FileBytes, FORMATS, type FormatName, plainBytes } from "./account-file.ts";
import type { FileItem } from "./file-parts.ts";
import { readKnown } from "./known.ts";

/** Accounts of one commit. */
const BATCH = 200;

/** Problems that are said when no file takes them. */
const SAID = 10;

const CONTINUES = "Run the same command again, and it continues where it stopped.";

type Counts = Record<LineResult["kind"] | "left_out", number>;

/** Takes what is wrong with lines: never a value of the file. */
interface Problems {
  add(problem: { readonly line: number; readonly code: string; readonly message: string }): void;
  /** Writes what was added. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

async function openProblems(path: string | undefined, { err }: Call["context"]): Promise<Problems> {
  if (path === undefined) {
    let said = 0;
    return {
      add({ line, message }) {
        said += 1;
        if (said <= SAID) err.write(`Line ${line}: ${message}\n`);
        else if (said === SAID + 1) err.write("…\n");
      },
      flush: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
  }
  const file = await open(path, "w", 0o600).catch((cause: unknown) => {
    throw new CommandFailure(`${path} ${fileProblem(String(Reflect.get(Object(cause), "code")))}.`, {
      cause,
    });
  });
  let lines = "";
  return {
    add: (problem) => void (lines += `${JSON.stringify(problem)}\n`),
    async flush() {
      if (lines !== "") await file.appendFile(lines);
      lines = "";
    },
    close: () => file.close(),
  };
}

async function openFile(path: string): Promise<FileHandle> {
  return open(path, "r").catch((cause: unknown) => {
    const code = String(Reflect.get(Object(cause), "code"));
    throw new CommandFailure(`${path} ${fileProblem(code)}.`, { code: "invalid_argument", cause });
  });
}

/** The bytes of the file, decrypted if it is an export that needs a key. */
async function bytesOf(file: FileHandle, { args, context }: Call): Promise<FileBytes> {
  if (!(await isEncrypted(file))) return plainBytes(file);
  const path = args.text("key-file");
  if (path !== undefined) {
    const keys = await readKeyFile(path);
    if (keys === undefined) throw new CommandFailure(`${path} does not exist.`, { code: "invalid_argument" });
    return encryptedBytes(file, keys);
  }
  const typed = await (context.askSecret?.("Key of the export: ") ?? context.readInput());
  const [key = ""] = typed.trim().split(/\s/u, 1);
  if (!isSecret(key)) throw misused("The key of the export must be on standard input, or in --key-file");
  return encryptedBytes(file, [key]);
}

function optionsOf({ args }: Call): ImportOptions {
  const credentials = args.flag("update-credentials");
  const updates = credentials ? "credentials" : args.flag("update") ? "profile" : "none";
  return { mapSub: args.flag("map-sub"), updates, notify: args.flag("notify"), isDry: args.flag("dry-run") };
}

/** The items in batches. */
async function* batchesOf(items: AsyncIterable<FileItem>): AsyncGenerator<readonly FileItem[]> {
  let batch: FileItem[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

export async function importAccounts(call: Call): Promise<void> {
  const { service, args, print, context } = call;
  const { signal, err } = context;
  const format = args.oneOf("format", Object.keys(FORMATS) as FormatName[]) ?? "ours";
  const options = optionsOf(call);
  const known = await readKnown(service);
  const file = await openFile(args.operand(0));
  const counts: Counts = { created: 0, updated: 0, same: 0, refused: 0, left_out: 0 };
  const progress = new Progress(err);
  const problems = await openProblems(args.text("errors"), context);
  /** The batch that is written while the next one is read and decided. */
  let last: Promise<void> = Promise.resolve();
  try {
    const { size } = await file.stat();
    const bytes = await bytesOf(file, call);
    let read = 0;
    for await (const batch of batchesOf(FORMATS[format].items(bytes.chunks, known))) {
      if (signal.aborted) {
        await last;
        progress.clear();
        err.write(`Stopped. ${CONTINUES}\n`);
        signal.throwIfAborted();
      }
      const before = last;
      last = importBatch(call, batch, { options, counts, problems, before });
      // It fails as well if the one before does: this is where that is thrown.
      last.catch(() => undefined);
      await before;
      await problems.flush();
      read += batch.length;
      const share = bytes.done() / Math.max(size, 1);
      progress.update(
        options.isDry ? "checking" : "importing",
        read,
        Math.round(read / Math.max(share, 0.001)),
      );
    }
    await last;
    await problems.flush();
    progress.clear();
    if (known.leftOut.size > 0)
      err.write(
        `Left out, because this service has none of these: ${[...known.leftOut].toSorted().join(", ")}\n`,
      );
    const { created, updated, same, refused } = counts;
    const done = `${options.isDry ? "Would import" : "Imported"}: ${created} new, ${updated} changed, ${same} as they were, ${refused} refused`;
    print.done(done, counts);
    if (refused > 0)
      throw new CommandFailure(
        `${refused === 1 ? "One line was" : `${refused} lines were`} not imported${args.has("errors") ? ": see the file of --errors" : ""}.`,
      );
  } finally {
    await last.catch(() => undefined);
    progress.clear();
    await problems.close();
    await file.close();
  }
}

async function importBatch(
  { service, by, print }: Call,
  batch: readonly FileItem[],
  {
    options,
    counts,
    problems,
    before,
  }: {
    readonly options: ImportOptions;
    readonly counts: Counts;
    readonly problems: Problems;
    /** The batch before this one. */
    readonly before: Promise<void>;
  },
): Promise<void> {
  const usable = batch.filter((item) => "value" in item);
  const imported = await service.accounts.importLines(
    usable.map(({ value }) => value),
    options,
    by,
    before,
  );
  await before;
  const results = new Map<FileItem, LineResult>(
    usable.map((item, index) => [item, imported[index] as LineResult]),
  );
  const pairs: { readonly id: string; readonly sub: string }[] = [];
  for (const item of batch) {
    const result = results.get(item);
    if ("isLeftOut" in item) counts.left_out += 1;
    else if (result === undefined || result.kind === "refused") {
      counts.refused += 1;
      const { code = "invalid_argument", message = "" } = result ?? {};
      problems.add({ line: item.line, code, message: "problem" in item ? item.problem : message });
    } else {
      counts[result.kind] += 1;
      if (result.id !== undefined) pairs.push({ id: result.id, sub: result.sub });
    }
  }
  if (pairs.length > 0) print.rows(pairs, ["id", "sub"]);
}
