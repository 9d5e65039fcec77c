/** Commands that call the public objects of a service, opened on the storage beside a running server. */
import { userInfo } from "node:os";
import type { CallOptions } from "../../accounts/arguments.ts";
import type { InternalService } from "../../lib/service.ts";
import type { CommandOption, Run, CommandContext } from "./command.ts";
import { CommandFailure, misused } from "./command-failure.ts";
import type { Arguments } from "./arguments.ts";
import { Printer } from "./printer.ts";

/** What a command on a service gets. */
export interface Call {
  readonly service: InternalService;
  readonly args: Arguments;
  readonly print: Printer;
  /** Who calls, for the audit. */
  readonly by: CallOptions;
  readonly context: CommandContext;
  /**
   * Asks before something that can't be undone, unless `--yes` was given.
   * @throws CommandFailure if the answer is no; with exit code 2 if there is no terminal to ask on.
   */
  confirm(question: string): Promise<void>;
  /** The same for what nobody should confirm out of habit: the answer is the name of what it is about. */
  confirmTyped(question: string, name: string): Promise<void>;
}

/** The options of every command on a service. */
export const SERVICE_OPTIONS: readonly CommandOption[] = [
  {
    form: "--config FILE",
    about: "the JSON configuration; default: SIGN_IN_CONFIG, then sign-in.json in this folder",
  },
  { form: "--json", about: "prints one JSON object per line" },
];

/** The option of commands that ask a question. */
export const YES: CommandOption = { form: "--yes", about: "skips the confirmation" };

/** How long a command waits in silence. */
const NOTICE_MS = 1_000;

/** Makes a command of a function that calls the service. */
export function onService(work: (call: Call) => Promise<void>): Run {
  return async (args, context) => {
    const service = await openService(args, context);
    const print = new Printer(context.out, args.flag("json"));
    const { failureText } = await import("../../provider/sessions/backchannel-logout.ts");
    service.events.on("backchannel.failed", (failed) => void context.err.write(`${failureText(failed)}\n`));
    try {
      await work({
        service,
        args,
        context,
        print,
        by: { actor: operator() },
        confirm: (question) => confirm(question, args, context),
        confirmTyped: (question, name) => confirmTyped(question, name, args, context),
      });
      print.finish(context.err);
      return 0;
    } finally {
      await close(service, context);
    }
  };
}

/** The service waits until the clients of the sessions that the command has ended are notified. Ctrl+C ends that. */
async function close(service: InternalService, { err }: Pick<CommandContext, "err">): Promise<void> {
  const notice = setTimeout(() => {
    err.write("Notifying the clients of the sessions that have ended …\n");
  }, NOTICE_MS);
  await service.close().finally(() => clearTimeout(notice));
}

async function openService(args: Arguments, context: CommandContext): Promise<InternalService> {
  const { readSettings, refuseMemory } = await import("./settings.ts");
  const { config, explain } = await readSettings(args, context);
  const { storage } = config;
  if (typeof storage === "string") refuseMemory(storage);
  const [{ createSignInServiceOver }, { openStorage }, { pino }] = await Promise.all([
    import("../../lib/service.ts"),
    import("../../records/storage.ts"),
    import("pino"),
  ]);
  const { notifications } = config;
  const quiet = {
    ...config,
    // A configuration that isn't an object is reported by the service.
    notifications:
      typeof notifications === "object" || notifications === undefined
        ? { ...notifications, worker: false }
        : notifications,
    // The server has logged its warnings. Standard output is for results.
    logger: pino({ level: "silent" }),
  };
  const tell = (text: string): void => void context.err.write(`${text}\n`);
  return explain(() =>
    createSignInServiceOver(
      quiet as unknown as Parameters<typeof createSignInServiceOver>[0],
      (opened) => openStorage({ ...opened, mustExist: true }, tell),
      { role: "command", interrupt: context.signal },
    ),
  );
}

/** The user of the operating system, if the audit can keep the name. */
export function operator(): NonNullable<CallOptions["actor"]> {
  try {
    const { username } = userInfo();
    return /^[\w.~:-]{1,128}$/u.test(username)
      ? { kind: "command_line", id: username }
      : { kind: "command_line" };
  } catch {
    // In a container, the user may have no name.
    return { kind: "command_line" };
  }
}

const NO_TERMINAL = "There is no terminal to ask on: confirm it with --yes";
const UNCHANGED = "Nothing was changed.";

/** See {@link Call.confirm}. */
export async function confirm(
  question: string,
  args: Arguments,
  { confirm: ask }: Pick<CommandContext, "confirm">,
): Promise<void> {
  if (args.flag("yes")) return;
  if (ask === undefined) throw misused(NO_TERMINAL);
  if (!(await ask(question))) throw new CommandFailure(UNCHANGED);
}

/** See {@link Call.confirmTyped}. */
export async function confirmTyped(
  question: string,
  name: string,
  args: Arguments,
  { ask }: Pick<CommandContext, "ask">,
): Promise<void> {
  if (args.flag("yes")) return;
  if (ask === undefined) throw misused(NO_TERMINAL);
  const typed = await ask(`${question} Type ${name} to confirm: `);
  if (typed.trim() !== name) throw new CommandFailure(UNCHANGED);
}

/** The failure for an unknown identifier. @param what such as `account`. */
export function unknown(what: string): CommandFailure {
  return new CommandFailure(`There is no such ${what}.`, { code: "not_found" });
}
