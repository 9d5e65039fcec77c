/** `accounts export`: writes all accounts as lines that `accounts import` reads, beside running servers. */
import { resolve } from "node:path";
import type { WrittenLine } from "../../accounts/transfer/account-line.ts";
import { makeSecret, readOrMakeKeyFile } from "../../config/keys.ts";
import { LineWriter } from "../../records/backup/encrypted-lines.ts";
import { misused } from "../program/command-failure.ts";
import { createWhole, requireAbsent } from "../program/new-file.ts";
import type { Call } from "../program/on-service.ts";
import { Progress } from "../program/progress.ts";

/** Accounts that are read at once. */
const PAGE = 500;

/** All accounts, in pages. */
async function* pagesOf(
  { service, context }: Call,
  credentials: boolean,
): AsyncGenerator<readonly WrittenLine[]> {
  for (let after: number | undefined; ;) {
    context.signal.throwIfAborted();
    const lines = await service.accounts.exportLines({ after, limit: PAGE, credentials });
    if (lines.length === 0) return;
    yield lines;
    after = lines.at(-1)?.user_id;
  }
}

/** With what people sign in with, the file is encrypted: its key is printed once, or in a file of its own. */
async function exportEncrypted(call: Call, file: string): Promise<void> {
  const { args, context, print } = call;
  const keyFile = args.text("key-file");
  if (keyFile !== undefined && resolve(keyFile) === resolve(file))
    throw misused("FILE and --key-file must be different files");
  await requireAbsent(file);
  if (keyFile === undefined && context.out.isTTY !== true)
    throw misused(
      "A key is printed only on a terminal, because the output of other runs is kept in logs: name a file for it with --key-file",
    );
  const [secret = ""] =
    keyFile === undefined ? [makeSecret()] : await readOrMakeKeyFile(keyFile, { mayCreate: true });
  const progress = new Progress(context.err);
  try {
    await createWhole(file, async (handle) => {
      const writer = await LineWriter.open(handle, secret);
      let accounts = 0;
      for await (const lines of pagesOf(call, true)) {
        for (const line of lines) if (writer.add(JSON.stringify(line))) await writer.flush();
        accounts += lines.length;
        progress.update("exporting", accounts);
      }
      await writer.end();
      progress.clear();
      // Printed before the file appears: there is never one without a key.
      const facts = { file, accounts };
      print.done(`Exported: ${accounts} accounts`, keyFile === undefined ? { ...facts, key: secret } : facts);
      if (keyFile === undefined && !args.flag("json"))
        context.out.write(`Key, which is stored nowhere else: ${secret}\n`);
    });
  } finally {
    progress.clear();
  }
}

export async function exportAccounts(call: Call): Promise<void> {
  const { args, context, print } = call;
  const file = args.operands[0];
  if (args.flag("with-credentials")) {
    if (file === undefined) throw misused("--with-credentials needs a FILE");
    return exportEncrypted(call, file);
  }
  if (args.has("key-file")) throw misused("--key-file goes with --with-credentials");
  if (file === undefined) {
    for await (const lines of pagesOf(call, false))
      for (const line of lines) context.out.write(`${JSON.stringify(line)}\n`);
    return;
  }
  await requireAbsent(file);
  await createWhole(file, async (handle) => {
    let accounts = 0;
    const progress = new Progress(context.err);
    for await (const lines of pagesOf(call, false)) {
      await handle.appendFile(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      accounts += lines.length;
      progress.update("exporting", accounts);
    }
    progress.clear();
    print.done(`Exported: ${accounts} accounts`, { file, accounts });
  });
}
