/** `deliveries` and `receivers`. Most of it comes from the table of operations. */
import { RESTORED } from "../records/deliveries/delivery.ts";
import { CALLS, TABLES } from "../administration/tables.ts";
import type { Command } from "./program/command.ts";
import { CommandFailure } from "./program/command-failure.ts";
import { type Call, unknown } from "./program/on-service.ts";
import { commandsOf, printList, type Read } from "./program/operation-command.ts";

const ATTEMPT_COLUMNS = ["number", "started_at", "duration_ms", "status", "error", "answer"] as const;
/** How much of a receiver's answer fits on a line. */
const MAX_ANSWER_LENGTH = 200;

/** Tells what is not sent after a restore. */
async function tellHeld({ service: { notifications }, context: { err } }: Call): Promise<void> {
  const [{ items }, { held_mails }] = await Promise.all([
    notifications.receivers({ limit: 1_000 }),
    notifications.stats(),
  ]);
  const names = items.filter(({ reason }) => reason === RESTORED).map(({ receiver }) => receiver);
  const held = [...names, ...(held_mails === 0 ? [] : [`${held_mails} mails`])];
  if (held.length > 0)
    err.write(
      `Held since the storage was restored or promoted, until deliveries resume: ${held.join(", ")}\n`,
    );
}

async function list(call: Call, read: Read): Promise<void> {
  await tellHeld(call);
  await printList(call, "list", TABLES.deliveries.rows.list, read, CALLS.deliveries(call.service));
}

async function find({ service, args, print }: Call, { target: [id = ""] }: Read): Promise<void> {
  const delivery = await service.notifications.find(id);
  if (delivery === undefined) throw unknown("delivery");
  if (args.flag("json")) return print.record(delivery);
  const { history, ...members } = delivery;
  print.record(members);
  print.rows(
    history.map(({ duration_ms, answer, ...attempt }) =>
      Object.assign(attempt, { duration_ms: Math.ceil(duration_ms), answer: lineOf(answer ?? "") }),
    ),
    ATTEMPT_COLUMNS,
  );
}

/** The beginning of a receiver's answer on one line. */
function lineOf(answer: string): string {
  const line = answer.replaceAll(/\s+/gu, " ").trim();
  return line.length > MAX_ANSWER_LENGTH ? `${line.slice(0, MAX_ANSWER_LENGTH)}…` : line;
}

async function test({ service, print, by }: Call, { target: [receiver = ""] }: Read): Promise<void> {
  const result = await service.notifications.test(receiver, by);
  print.record(result);
  if (result.ok) return;
  if (!result.sent)
    throw new CommandFailure(
      `Nothing was sent from here: ${result.error}. This command knows its own configuration only: a server with other values in its code may send.`,
    );
  const code = result.status === null ? "server_unreachable" : "not_applicable";
  throw new CommandFailure("The receiver did not accept the test.", { code });
}

export const deliveryCommands: readonly Command[] = [
  ...commandsOf("receivers", { test }),
  ...commandsOf("deliveries", { list, find }),
];
