/** What the forms of the delivery console do. Each answers 303, to the page that says what came of it. */
import type { Context } from "koa";
import type { SignedIn } from "../lib/provider/account.ts";
import type { AccountContext } from "./account-gate.ts";
import type { OperatorAnswer } from "./account-pages.ts";
import { createAnswers, seeOther } from "./answers.ts";
import { CONSOLE_PATH, isReceiver, listAddress, readQuestion, RECEIVERS_PATH } from "./console-addresses.ts";
import { type ConsoleResult, type ConsoleSeals, redriveAllProof } from "./console-seals.ts";
import type { ConsoleAsked, ConsoleTest, DeliveryConsole, UnderWay } from "./delivery-console.ts";
import { isFromHere } from "./forgery.ts";
import { type Form, readable } from "./readable-form.ts";
import type { Pages } from "./pages.ts";

/** What the actions work with. */
export interface ConsoleActionParts {
  readonly pages: Pages;
  readonly console: DeliveryConsole;
  readonly seals: ConsoleSeals;
  /** Reads the body; rejects what is repeated, too large or malformed with an error whose `status` is 400. */
  readonly readForm: (ctx: Context) => Promise<Form>;
}

/** An action that a form asks for. */
interface Asked {
  /** What the token of the form must be good for. */
  readonly proof: readonly string[];
  /** The path below the base URL where the result is said; with the search of it. */
  readonly page: string;
  readonly search?: string;
  readonly act: () => Promise<ConsoleResult>;
}

/** From a form to what it asks for; `undefined` when no form of ours asks so. */
type Read = (form: Form, id: string, operator: ConsoleAsked) => Asked | undefined;

const say = (code: string, values: ConsoleResult["values"] = {}): ConsoleResult => ({ code, values });

/** POST to each page of the console. */
export function createConsoleActions(
  parts: ConsoleActionParts,
): Readonly<Record<"list" | "receivers" | "delivery", OperatorAnswer>> {
  const { console } = parts;
  return {
    list: submit(parts, (form, _id, operator) => onList(console, form, operator)),
    receivers: submit(parts, (form, _id, operator) => onReceiver(console, form, operator)),
    delivery: submit(parts, (form, id, operator) => onDelivery(console, form, { ...operator, id })),
  };
}

function submit(parts: ConsoleActionParts, read: Read): OperatorAnswer {
  const { pages, seals } = parts;
  const answers = createAnswers(pages);
  const unusable = (ctx: AccountContext): Promise<void> =>
    answers.error(ctx, { status: 400, error: "invalid_request" });
  return async (ctx, { id }, person) => {
    const stale = { status: 403, error: "stale_form" };
    if (!isFromHere(ctx)) return answers.error(ctx, stale);
    const form = await readable(() => parts.readForm(ctx));
    if (form === undefined) return unusable(ctx);
    const asked = read(form, id, { actor: { kind: "operator", id: person.account.sub } });
    if (asked === undefined) return unusable(ctx);
    if (!seals.isToken(person, asked.proof, form.get("csrf") ?? "")) return answers.error(ctx, stale);
    return seeOther(ctx, address(ctx, asked, seals, person, await asked.act()));
  };
}

function address(
  ctx: AccountContext,
  { page, search = "" }: Asked,
  seals: ConsoleSeals,
  person: SignedIn,
  result: ConsoleResult,
): string {
  const query = new URLSearchParams(search);
  query.set("result", seals.seal(person, page, result));
  return `${ctx.state.deployment.url}${page}?${query}`;
}

/** Of the list: all that is parked and fits the filter. */
function onList(console: DeliveryConsole, form: Form, operator: ConsoleAsked): Asked | undefined {
  const { filter, problem } = readQuestion(form);
  if (form.get("action") !== "redriveAll" || problem !== undefined || filter.state !== undefined)
    return undefined;
  return {
    proof: redriveAllProof(filter),
    page: CONSOLE_PATH,
    search: listAddress("", { ...filter, state: "parked" }),
    act: async () => redrivenAll(await console.redriveAll(filter, operator)),
  };
}

function redrivenAll(counts: Awaited<ReturnType<DeliveryConsole["redriveAll"]>>): ConsoleResult {
  if (counts === "under way") return say("redriveUnderWay");
  const { redriven, superseded, purged } = counts;
  return say("redrivenAll", { redriven, superseded, purged });
}

function onDelivery(
  console: DeliveryConsole,
  form: Form,
  { id, actor }: ConsoleAsked & { readonly id: string },
): Asked | undefined {
  const action = form.get("action") ?? "";
  const page = `${CONSOLE_PATH}/${id}`;
  const proof = [action, id];
  if (action === "discard") {
    const act = async (): Promise<ConsoleResult> =>
      say((await console.discard(id, { actor })) ? "discarded" : "notDiscarded");
    return { proof, page, act };
  }
  if (action !== "redrive" && action !== "force") return undefined;
  const force = action === "force";
  return { proof, page, act: async () => say(await console.redrive(id, { actor, force })) };
}

function onReceiver(console: DeliveryConsole, form: Form, operator: ConsoleAsked): Asked | undefined {
  const receiver = form.get("receiver") ?? "";
  const action = form.get("action") ?? "";
  const acts: Readonly<Record<string, () => Promise<ConsoleResult>>> = {
    pause: async () =>
      say((await console.pause(receiver, operator)) ? "paused" : "pausedBefore", { receiver }),
    resume: async () => say((await console.resume(receiver, operator)) ? "resumed" : "notHeld", { receiver }),
    test: async () => tested(receiver, await console.test(receiver, operator)),
    redriveAll: async () => redrivenAll(await console.redriveAll({ receiver }, operator)),
  };
  const act = Object.hasOwn(acts, action) ? acts[action] : undefined;
  if (act === undefined || !isReceiver(receiver)) return undefined;
  return { proof: [action, receiver], page: RECEIVERS_PATH, act };
}

function tested(receiver: string, test: ConsoleTest | undefined | UnderWay): ConsoleResult {
  if (test === undefined) return say("testUnknown", { receiver });
  if (test === "under way") return say("testUnderWay", { receiver });
  const { ok, status, error, duration } = test;
  return say(ok ? "testTaken" : "testFailed", {
    receiver,
    what: status ?? error ?? "",
    duration: Math.ceil(duration),
  });
}
