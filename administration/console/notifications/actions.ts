/** What can be done on the pages of deliveries and receivers with one button. */
import { subProblem } from "../../../accounts/text-rules.ts";
import { allows } from "../../../config/operators.ts";
import { SignInError, StorageUnavailable } from "../../../core/errors.ts";
import type { Form } from "../../../interactions/forms.ts";
import type { PageServices } from "../../../interactions/services.ts";
import { deliveries } from "../../../notifier/operations.ts";
import { receivers } from "../../../notifier/receiver-operations.ts";
import { addressOf } from "../derived/act.ts";
import type { ShownValue } from "../derived/values.ts";
import { MOST_TODO } from "../entries.ts";
import {
  type ConsoleAnswer,
  type ConsoleRequest,
  type HeadAction,
  keepingList,
  type Notice,
} from "../request.ts";
import { member } from "../tables.ts";

/** What the pages about notifications need of the service. */
export type NotificationParts = Pick<PageServices, "storage" | "onDefect">;

const ROWS = { ...deliveries.rows, ...receivers.rows };
type Verb = keyof typeof ROWS;

export const may = ({ operator }: ConsoleRequest, verb: Verb): boolean =>
  allows(operator.who.role, ROWS[verb]);

/** A button that does something at once. */
export const button = (request: ConsoleRequest, action: string, isPrimary = false): HeadAction => ({
  label: request.t(`console.action.${action}`),
  href: request.path,
  form: { csrf: request.token(request.path, action), action },
  ...(isPrimary && { isPrimary }),
});

/** A link to the page that asks first. */
export const opens = ({ t, path, query }: ConsoleRequest, verb: string): HeadAction => ({
  label: t("admin.verb.opens", { verb: t(`admin.verb.${verb}`) }),
  href: addressOf(path, verb, keepingList(query)),
});

/** Goes back to the page with what came of it: a refusal is no page of its own. */
export async function outcome(
  { path }: ConsoleRequest,
  work: () => Promise<Notice>,
  values: Notice["values"] = {},
): Promise<ConsoleAnswer> {
  try {
    return { kind: "go", to: path, notice: await work() };
  } catch (error) {
    const isSaid = error instanceof SignInError && SAID.has(error.code);
    if (!isSaid || error instanceof StorageUnavailable) throw error;
    return { kind: "go", to: path, notice: { code: error.code, values, isBad: true } };
  }
}

/** Why nothing was sent. */
const SAID: ReadonlySet<string> = new Set([
  "superseded",
  "purged",
  "behind",
  "receiver_stopped",
  "not_waiting",
  "not_applicable",
]);

/** The deliveries that were chosen, oldest first. Some may be refused: the others are sent. */
export async function sendChosen(request: ConsoleRequest, form: Form): Promise<ConsoleAnswer> {
  const { perform, here } = request;
  const chosen = [...form].filter(([, value]) => value === "yes").map(([id]) => id);
  const counts = { redriven: 0, superseded: 0, purged: 0 };
  // One after the other: the order of an account's deliveries stays.
  for (const id of chosen) {
    try {
      await perform("deliveries", "redrive", { target: [id] });
      counts.redriven += 1;
    } catch (error) {
      const code = error instanceof SignInError ? error.code : "";
      if (code === "superseded" || code === "purged") counts[code] += 1;
      else if (code !== "not_applicable" && code !== "not_found") throw error;
    }
  }
  const notice =
    chosen.length === 0
      ? { code: "deliveries.noneChosen", isBad: true as const }
      : { code: "redrivenAll", values: counts };
  return { kind: "go", to: here, notice };
}

/** An account, which has a page; or an invitation. */
export const accountValue = (request: ConsoleRequest, sub: string): ShownValue =>
  subProblem(sub) === undefined ? member(request, "sub", sub) : member(request, "id", sub);

/** Who does what this operator can't; or `""`. */
export function onlyText(request: ConsoleRequest): string {
  if (may(request, "pause")) return "";
  return request.t(`admin.receiver.only.${request.operator.who.role === "support" ? "support" : "viewer"}`);
}

/** How many deliveries are parked, and how many receivers fail: every page of the console asks, so the count stops early. */
export async function notificationTodo({
  deliveries: store,
}: NotificationParts["storage"]): Promise<readonly (readonly [entry: string, count: number])[]> {
  const [parked, states] = await Promise.all([store.countParked(MOST_TODO + 1), store.receivers()]);
  const failing = [...states.values()].filter(({ failingSince }) => failingSince !== null);
  return [
    ["deliveries", parked],
    ["receivers", failing.length],
  ];
}
