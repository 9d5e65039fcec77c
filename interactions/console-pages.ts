/** The delivery console: what operators see of the notifications. */
import type { SignedIn } from "../lib/provider/account.ts";
import type { AccountContext } from "./account-gate.ts";
import type { OperatorAnswer, OperatorPage } from "./account-pages.ts";
import { createAnswers, sendPage } from "./answers.ts";
import { createConsoleActions, type ConsoleActionParts } from "./console-actions.ts";
import { CONSOLE_PATH, readQuestion, RECEIVERS_PATH } from "./console-addresses.ts";
import { redriveAllProof } from "./console-seals.ts";
import type { ConsoleLocals, ReceiverAction } from "./console-locals.ts";
import { canDiscard, canRedrive } from "./console-views.ts";
import type { ConsoleReceiver } from "./delivery-console.ts";

/** What the pages of the console work with. */
export type ConsoleParts = ConsoleActionParts;

/** Deliveries of one page of the list. */
const PAGE = 50;

/** The list first; each with what its forms do. */
export function createConsolePages(parts: ConsoleParts): readonly OperatorPage[] {
  const actions = createConsoleActions(parts);
  return [
    { path: CONSOLE_PATH, methods: { GET: list(parts), POST: actions.list } },
    { path: RECEIVERS_PATH, methods: { GET: receivers(parts), POST: actions.receivers } },
    { path: `${CONSOLE_PATH}/:uid`, methods: { GET: delivery(parts), POST: actions.delivery } },
  ];
}

/** What every page of the console is told. */
function common(
  { pages, seals }: ConsoleParts,
  ctx: AccountContext,
  { path, query }: Parameters<OperatorAnswer>[1],
  person: SignedIn,
): ConsoleLocals {
  const base = ctx.state.deployment.path;
  const result = seals.open(person, path, query.get("result"));
  return {
    locale: pages.localeOf(ctx),
    list: base + CONSOLE_PATH,
    receiversPath: base + RECEIVERS_PATH,
    ...(result !== undefined && { result }),
  };
}

function list(parts: ConsoleParts): OperatorAnswer {
  const { pages, console, seals } = parts;
  const answers = createAnswers(pages);
  return async (ctx, request, person) => {
    const { filter, after, problem } = readQuestion(request.query);
    if (problem === "other") return answers.error(ctx, { status: 400, error: "invalid_request" });
    const wrongSub = problem === "sub" ? (request.query.get("sub") ?? "") : undefined;
    const question = { ...filter, ...(after !== undefined && { after }), limit: PAGE };
    const [found, known] = await Promise.all([
      wrongSub === undefined ? console.page(question) : undefined,
      console.receivers(),
    ]);
    const { deliveries = [], next } = found ?? {};
    const html = await pages.deliveries({
      ...common(parts, ctx, request, person),
      filter,
      deliveries,
      receivers: known.map(({ receiver }) => receiver),
      isLater: after !== undefined,
      ...(wrongSub !== undefined && { wrongSub }),
      ...(next !== undefined && { next }),
      ...(filter.state === "parked" &&
        deliveries.length > 0 && { redriveAll: seals.token(person, redriveAllProof(filter)) }),
    });
    sendPage(ctx, pages, { status: wrongSub === undefined ? 200 : 400, html });
    return undefined;
  };
}

function delivery(parts: ConsoleParts): OperatorAnswer {
  const { pages, console, seals } = parts;
  const answers = createAnswers(pages);
  return async (ctx, request, person) => {
    const found = await console.find(request.id);
    if (found === undefined) return answers.error(ctx, { status: 404, error: "no_delivery" });
    const all = common(parts, ctx, request, person);
    // To bring old data back is offered to who has just been told that it would.
    const isSuperseded = all.result?.code === "superseded";
    const token = (action: string): string => seals.token(person, [action, found.id]);
    const html = await pages.delivery({
      ...all,
      delivery: found,
      tokens: {
        ...(canRedrive(found) && { redrive: token("redrive") }),
        ...(canRedrive(found) && isSuperseded && { force: token("force") }),
        ...(canDiscard(found) && { discard: token("discard") }),
      },
    });
    sendPage(ctx, pages, { status: 200, html });
    return undefined;
  };
}

function receivers(parts: ConsoleParts): OperatorAnswer {
  const { pages, console, seals } = parts;
  return async (ctx, request, person) => {
    const found = await console.receivers();
    const withTokens = found.map((report) => {
      const { receiver } = report;
      const tokens: Partial<Record<ReceiverAction, string>> = {};
      for (const action of actionsOf(report)) tokens[action] = seals.token(person, [action, receiver]);
      return { report, tokens };
    });
    const html = await pages.receivers({ ...common(parts, ctx, request, person), receivers: withTokens });
    sendPage(ctx, pages, { status: 200, html });
  };
}

function actionsOf({ url, paused, heldUntil, parked }: ConsoleReceiver): ReceiverAction[] {
  return [
    ...(paused ? [] : (["pause"] as const)),
    ...(paused || heldUntil !== null ? (["resume"] as const) : []),
    ...(url === null ? [] : (["test"] as const)),
    ...(parked > 0 ? (["redriveAll"] as const) : []),
  ];
}
