/** `deliveries` and `receivers`: what was sent, what waits, and operations on it. */
import { NOTIFICATION_TYPES } from "../accounts/plan.ts";
import { countText, DELIVERY_STATES, RESTORED, type SendNowResult } from "../records/deliveries/delivery.ts";
import type { DeliveryPageInput } from "../notifier/notifications-schema.ts";
import type { ExplainedAction } from "../notifier/explain.ts";
import type { ReceiverReport } from "../notifier/receivers.ts";
import { findSub, SUB } from "./program/account-name.ts";
import type { Command, CommandOption } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown, YES } from "./program/on-service.ts";
import { PAGE } from "./program/operation-command.ts";
import { pagesOf } from "../core/pages.ts";

const ID = { form: "ID", about: "the webhook-id of the delivery" };
const RECEIVER = { form: "RECEIVER", about: "service:KEY, group:KEY or portal:KEY" };
const DEFAULT_LIMIT = 100;

const COLUMNS = [
  "id",
  "receiver",
  "type",
  "sub",
  "state",
  "attempts",
  "at",
  "reason",
  "last_error",
  "next_attempt_at",
] as const;
const ATTEMPT_COLUMNS = ["number", "started_at", "duration_ms", "status", "error", "answer"] as const;
const RECEIVER_COLUMNS = [
  "receiver",
  "url",
  "waiting",
  "oldest_at",
  "parked",
  "failures",
  "failing_since",
  "last_error",
  "held_until",
  "paused",
  "reason",
] as const;
/** How much of a receiver's answer fits on a line. */
const MAX_ANSWER_LENGTH = 200;

const filterOptions: readonly CommandOption[] = [
  { form: "--account SUB", about: "only those about this account" },
  { form: "--receiver NAME", about: "only those to service:KEY, group:KEY or portal:KEY" },
  { form: "--type TYPE", about: `only ${NOTIFICATION_TYPES.join(", ")}` },
];
const forceOption: CommandOption = {
  form: "--force",
  about: "also a PROFILE_CHANGED that a newer one has superseded",
};

/** Why `send-now` did nothing. */
const NOT_SENT: Readonly<Partial<Record<SendNowResult, string>>> = {
  behind: "an earlier one about the same account comes first",
  held: "its receiver is paused or held back, see receivers list",
  over: "it is not waiting",
};

async function filterOf({
  args,
  service: { accounts },
}: Pick<Call, "args" | "service">): Promise<Pick<DeliveryPageInput, "sub" | "receiver" | "type">> {
  const [account, receiver] = [args.text("account"), args.text("receiver")];
  const sub = account === undefined ? undefined : await findSub(accounts, account);
  const type = args.oneOf("type", NOTIFICATION_TYPES);
  return {
    ...(sub !== undefined && { sub }),
    ...(receiver !== undefined && { receiver }),
    ...(type && { type }),
  };
}

/** Tells what is not sent after a restore. */
async function tellHeld({ service, context: { err } }: Call): Promise<void> {
  const { notifications } = service;
  const [receivers, mails] = await Promise.all([notifications.receivers(), notifications.heldMails()]);
  const names = receivers.filter(({ reason }) => reason === RESTORED).map(({ receiver }) => receiver);
  const held = [...names, ...(mails === 0 ? [] : [`${mails} mails`])];
  if (held.length > 0)
    err.write(
      `Held since the storage was restored or promoted, until deliveries resume: ${held.join(", ")}\n`,
    );
}

async function resumeRestored({ service, print, by }: Call): Promise<void> {
  const { receivers, mails } = await service.notifications.resumeRestored(by);
  const resumed = [...receivers, ...(mails === 0 ? [] : [`${mails} mails`])];
  print.done(resumed.length === 0 ? "Nothing was held" : `Resumed: ${resumed.join(", ")}`, {
    receivers,
    mails,
  });
}

async function sendNow({ service, args, print, by }: Call): Promise<void> {
  const id = args.operand(0);
  const result = await service.notifications.sendNow(id, by);
  if (result === "unknown") throw unknown("delivery");
  const why = NOT_SENT[result];
  if (why !== undefined) throw new CommandFailure(`Not sent: ${why}.`);
  print.done(result === "due" ? `Sent soon: ${id}` : `Being sent already: ${id}`, { id, result });
}

async function list(call: Call): Promise<void> {
  const { service, args, print, context } = call;
  const { signal } = context;
  await tellHeld(call);
  const state = args.oneOf("state", DELIVERY_STATES);
  const first = args.flag("oldest") ? "oldest" : "newest";
  const filter = { ...(await filterOf(call)), ...(state && { state }), first } as const;
  let left = args.count("limit") ?? DEFAULT_LIMIT;
  const found = pagesOf((after) => {
    signal.throwIfAborted();
    return service.notifications.page({
      ...filter,
      limit: Math.min(PAGE, left),
      ...(after !== undefined && { after }),
    });
  });
  for await (const { deliveries } of found) {
    print.rows(deliveries, COLUMNS);
    left -= deliveries.length;
    if (left <= 0) return;
  }
}

async function find({ service, args, print }: Call): Promise<void> {
  const delivery = await service.notifications.find(args.operand(0));
  if (delivery === undefined) throw unknown("delivery");
  if (args.flag("json")) return print.record(delivery);
  const { history, ...members } = delivery;
  print.record(members);
  print.rows(
    history.map(({ number, started_at, duration_ms, status, error, answer }) => ({
      number,
      started_at,
      duration_ms: Math.ceil(duration_ms),
      status,
      error,
      answer: lineOf(answer ?? ""),
    })),
    ATTEMPT_COLUMNS,
  );
}

/** The beginning of a receiver's answer on one line. */
function lineOf(answer: string): string {
  const line = answer.replaceAll(/\s+/gu, " ").trim();
  return line.length > MAX_ANSWER_LENGTH ? `${line.slice(0, MAX_ANSWER_LENGTH)}…` : line;
}

async function redrive({ service, args, print, by }: Call): Promise<void> {
  const id = args.operand(0);
  const result = await service.notifications.redrive(id, { ...by, force: args.flag("force") });
  if (result === "unknown") throw unknown("delivery");
  if (result !== "redriven") throw new CommandFailure(`Not redriven: ${result}. Nothing was changed.`);
  print.done(`Sent again soon: ${id}`, { id, result });
}

async function redriveAll(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const options = { ...by, force: args.flag("force") };
  print.record(await service.notifications.redriveAll(await filterOf(call), options));
}

async function discard(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const id = args.operand(0);
  const delivery = await service.notifications.find(id);
  if (delivery === undefined) throw unknown("delivery");
  await call.confirm(`Give up ${delivery.type} to ${delivery.receiver} for good?`);
  if (!(await service.notifications.discard(id, by)))
    throw new CommandFailure("The delivery is neither waiting nor parked. Nothing was changed.");
  print.done(`Discarded: ${id}`, { id });
}

async function explain({ service, args, print }: Call): Promise<void> {
  const type = args.oneOf("type", NOTIFICATION_TYPES);
  if (type === undefined) throw misused("--type is missing");
  const services = args.list("service");
  const sub = await findSub(service.accounts, args.operand(0));
  const action: ExplainedAction = { sub, type, ...(services && { services }) };
  const explanations = await service.notifications.explain(action);
  if (explanations === undefined) throw unknown("account");
  print.rows(explanations, ["receiver", "reason", "services", "paused"]);
}

async function pause({ service, args, print, by }: Call): Promise<void> {
  const receiver = args.operand(0);
  const reason = args.text("reason");
  const paused = await service.notifications.pause(receiver, {
    ...by,
    ...(reason !== undefined && { reason }),
  });
  print.done(paused ? `Paused: ${receiver}` : `Paused already: ${receiver}`, { receiver, changed: paused });
}

/** What held back the deliveries of a receiver that is resumed. */
function heldBack({ paused, reason, held_until }: ReceiverReport): string {
  if (paused) return `it was paused${reason === null ? "" : ` (${reason})`}`;
  return held_until === null
    ? "failed deliveries waited for their next attempt"
    : "it was held back after failures";
}

async function resume({ service, args, print, by }: Call): Promise<void> {
  const receiver = args.operand(0);
  const before = (await service.notifications.receivers()).find((each) => each.receiver === receiver);
  if (before === undefined) throw unknown("receiver");
  const changed = await service.notifications.resume(receiver, by);
  const { waiting } = before;
  print.done(
    changed
      ? `Resumed ${receiver}: ${heldBack(before)}. Deliveries that wait, and are sent now: ${countText([waiting])}`
      : `Nothing was held back: ${receiver} is neither paused nor held back, and no delivery waits for another attempt`,
    { receiver, changed, waiting },
  );
}

async function test({ service, args, print, by }: Call): Promise<void> {
  const result = await service.notifications.test(args.operand(0), by);
  if (result === undefined) throw unknown("receiver");
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
  {
    words: ["deliveries", "list"],
    summary: "lists deliveries, newest first",
    options: [
      ...SERVICE_OPTIONS,
      { form: "--state STATE", about: `only ${DELIVERY_STATES.join(", ")}` },
      ...filterOptions,
      { form: "--oldest", about: "oldest first" },
      { form: "--limit N", about: `maximum number; default: ${DEFAULT_LIMIT}` },
    ],
    examples: ["deliveries list --state parked", "deliveries list --state waiting --oldest"],
    load: async () => onService(list),
  },
  {
    words: ["deliveries", "find"],
    summary: "shows a delivery with its attempts",
    about: "The answer shown for an attempt is text from the receiver.",
    operands: [ID],
    options: SERVICE_OPTIONS,
    examples: ["deliveries find ID"],
    load: async () => onService(find),
  },
  {
    words: ["deliveries", "redrive"],
    summary: "sends a delivery again, as the next one of its account",
    operands: [ID],
    options: [...SERVICE_OPTIONS, forceOption],
    examples: ["deliveries redrive ID --force"],
    load: async () => onService(redrive),
  },
  {
    words: ["deliveries", "redrive-all"],
    summary: "sends all parked deliveries again, and prints the number of each result",
    options: [...SERVICE_OPTIONS, ...filterOptions, forceOption],
    examples: ["deliveries redrive-all --receiver service:news"],
    load: async () => onService(redriveAll),
  },
  {
    words: ["deliveries", "send-now"],
    summary: "sends a waiting delivery now instead of at its next attempt",
    operands: [ID],
    options: SERVICE_OPTIONS,
    examples: ["deliveries send-now ID"],
    load: async () => onService(sendNow),
  },
  {
    words: ["deliveries", "resume"],
    summary:
      "sends the deliveries and the mail that have been held since the storage was restored or promoted",
    about: `Review the waiting deliveries first: some may have been delivered after the backup was made, and are delivered again with the
same webhook-id. Receivers that are paused for another reason stay paused.`,
    options: SERVICE_OPTIONS,
    examples: ["deliveries resume"],
    load: async () => onService(resumeRestored),
  },
  {
    words: ["deliveries", "discard"],
    summary: "gives up a waiting or parked delivery",
    operands: [ID],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["deliveries discard ID --yes"],
    load: async () => onService(discard),
  },
  {
    words: ["deliveries", "explain"],
    summary: "shows who would be notified of an action, and who would not, with the reason",
    operands: [SUB],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--type TYPE", about: `${NOTIFICATION_TYPES.join(", ")}; required` },
      { form: "--service KEY", about: "a service that the account loses; default: all", isList: true },
    ],
    examples: ["deliveries explain SUB --type DELETE_ACCOUNT"],
    load: async () => onService(explain),
  },
];

export const receiverCommands: readonly Command[] = [
  {
    words: ["receivers", "list"],
    summary: "lists all receivers: what waits, and which of them fail, since when and why",
    options: SERVICE_OPTIONS,
    examples: ["receivers list"],
    load: async () =>
      onService(async ({ service, args, print }) => {
        const all = await service.notifications.receivers();
        if (args.flag("json")) return print.rows(all, RECEIVER_COLUMNS);
        const shown = all.map(({ waiting, parked, ...report }) =>
          Object.assign(report, { waiting: countText([waiting]), parked: countText([parked]) }),
        );
        print.rows(shown, RECEIVER_COLUMNS);
      }),
  },
  {
    words: ["receivers", "pause"],
    summary: "stops new deliveries to a receiver",
    operands: [RECEIVER],
    options: [...SERVICE_OPTIONS, { form: "--reason TEXT", about: "shown while it is paused" }],
    examples: ["receivers pause service:news --reason maintenance"],
    load: async () => onService(pause),
  },
  {
    words: ["receivers", "resume"],
    summary: "sends everything that is waiting for a receiver",
    operands: [RECEIVER],
    options: SERVICE_OPTIONS,
    examples: ["receivers resume service:news"],
    load: async () => onService(resume),
  },
  {
    words: ["receivers", "test"],
    summary: "sends a test notification about an account that does not exist, and shows the answer",
    about: `Exits with 3 if the receiver did not answer, and with 1 if it did not accept the notification, or nothing was sent.
The test is sent from this machine, with the configuration of this command: notifications.allowedReceivers must be the
server's.`,
    operands: [RECEIVER],
    options: SERVICE_OPTIONS,
    examples: ["receivers test service:news"],
    load: async () => onService(test),
  },
];
