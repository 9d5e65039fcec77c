/** A list of deliveries: the tabs with its states, the table, and what can be sent again. The page of a receiver has one, too. */
import { countText, type DeliveryState } from "../../../records/deliveries/delivery.ts";
import { TONES } from "../../../interactions/console/console-views.ts";
import { attemptText, reasonText } from "../../../interactions/console/words.ts";
import type { Page } from "../../../accounts/operations/operation.ts";
import type { ShownDelivery } from "../../../notifier/operations.ts";
import type { Translator } from "../../../core/texts.ts";
import { addressOf } from "../derived/act.ts";
import { accountValue } from "./actions.ts";
import type { Locals } from "../../../interactions/look/views.ts";
import { type ConsoleRequest, fromList, segmentOf } from "../request.ts";
import { type Cell, member, text, time } from "../tables.ts";

/** What the tabs show. `undelivered`: what waits and what is parked, together. */
const TABS = ["undelivered", "waiting", "parked", "delivered", "discarded", "all"] as const;
export type Tab = (typeof TABS)[number];

/** Rows of one page. */
const PAGE = 25;

/** Which deliveries, besides their state. */
export interface DeliveryScope {
  readonly receiver?: string;
  readonly type?: string;
  readonly account?: string;
}

/** How many there are, if that is known. */
export type Counts = Readonly<Partial<Record<"waiting" | "parked", readonly number[]>>>;

const isTab = (value: string | null): value is Tab => TABS.some((each) => each === value);

/** The tab of the address. About one account, it begins with everything. */
export function tabOf({ query }: Pick<ConsoleRequest, "query">, { account }: DeliveryScope): Tab {
  const wanted = query.get("state");
  if (isTab(wanted)) return wanted;
  return account === undefined ? "undelivered" : "all";
}

/** What waits is read from its beginning, what is over from its end; or as the head of the table says. */
function orderOf({ query }: ConsoleRequest, tab: Tab): "oldest" | "newest" {
  const sort = query.get("sort");
  if (sort === "changed") return "oldest";
  if (sort === "-changed" && tab !== "undelivered") return "newest";
  return ["undelivered", "waiting", "parked"].includes(tab) ? "oldest" : "newest";
}

interface Found {
  readonly items: readonly ShownDelivery[];
  readonly next: string | null;
  /** The tabs of each state have more. */
  readonly hasOthers: boolean;
}

async function read(request: ConsoleRequest, tab: Tab, scope: DeliveryScope): Promise<Found> {
  const { perform, query } = request;
  const page = async (
    state: DeliveryState | undefined,
    after: string | null,
  ): Promise<Page<ShownDelivery>> => {
    const { result } = await perform("deliveries", "list", {
      input: {
        ...scope,
        ...(state !== undefined && { state }),
        order: orderOf(request, tab),
        limit: PAGE,
        ...(after !== null && { after }),
      },
    });
    return result as Page<ShownDelivery>;
  };
  if (tab !== "undelivered")
    return { ...(await page(tab === "all" ? undefined : tab, query.get("after"))), hasOthers: false };
  // The oldest of both are among the oldest of each.
  const both = await Promise.all([page("parked", null), page("waiting", null)]);
  const items = both.flatMap((each) => each.items).toSorted((one, other) => one.stored_at - other.stored_at);
  const hasOthers = items.length > PAGE || both.some(({ next }) => next !== null);
  return { items: items.slice(0, PAGE), next: null, hasOthers };
}

/** How the last attempt went, in words. */
function lastAnswer(t: Translator, { attempts, state, last_error }: ShownDelivery): Cell {
  if (attempts === 0) return { value: { kind: "quiet", text: t("admin.deliveries.noneYet") } };
  if (last_error === null) return text(state === "delivered" ? t("admin.deliveries.accepted") : "");
  return text(errorText(t, last_error));
}

/** An error of an attempt: the status with its name, or the words for its code. */
export function errorText(t: Translator, error: string): string {
  const status = /^HTTP (\d{3})$/.exec(error)?.[1];
  return attemptText(t, { status: status === undefined ? null : Number(status), error }).text;
}

/** When it is tried next, or why it is not. */
function whatNext({ t, moments, now }: ConsoleRequest, delivery: ShownDelivery): string {
  const { state, reason, next_attempt_at } = delivery;
  if (state === "delivered") return "";
  if (state !== "waiting") return t("admin.deliveries.next.never", { reason: reasonText(t, reason) });
  const held = { behind: "behind", circuit_open: "held", receiver_paused: "paused" }[reason ?? ""];
  // The one with which the receiver is tried is due when the circuit closes, as all the others.
  if (held !== undefined) return t(`admin.deliveries.next.${held}`);
  const at = (next_attempt_at ?? 0) * 1000;
  return at <= now ? t("admin.deliveries.next.now") : moments(at).relative;
}

/** What `console-deliveries.ejs` and `console-receiver.ejs` print of the list. */
export async function listLocals(
  request: ConsoleRequest,
  scope: DeliveryScope,
  counts: Counts,
  { isHeld = false, isAllowed }: { readonly isHeld?: boolean; readonly isAllowed: boolean },
): Promise<Locals> {
  const { t, path, zone, moments, query } = request;
  const tab = tabOf(request, scope);
  const { items, next, hasOthers } = await read(request, tab, scope);
  // The receiver of its own page is in the path.
  const inPath = path === "/deliveries" ? scope : {};
  const addressWith = (more: Readonly<Record<string, string>>): string => {
    const kept = new URLSearchParams({ ...inPath, ...more });
    return kept.size === 0 ? path : `${path}?${kept}`;
  };
  const order = orderOf(request, tab);
  const sort = query.get("sort");
  const sorted = sort === null ? {} : { sort };
  const parked = counts.parked ?? [];
  const hasParked = ["undelivered", "parked"].includes(tab) && items.some(({ state }) => state === "parked");
  const to = addressWith({ state: tab, ...sorted });
  const count: Readonly<Partial<Record<Tab, string>>> = {
    ...(counts.waiting && { waiting: countText(counts.waiting) }),
    ...(counts.parked && { parked: countText(counts.parked) }),
    ...(counts.waiting && counts.parked && { undelivered: countText([...counts.waiting, ...counts.parked]) }),
  };
  return {
    tabs: TABS.map((each) => ({
      href: addressWith({ state: each }),
      label: t(
        each === "undelivered" || each === "all" ? `admin.deliveries.${each}` : `console.state.${each}`,
      ),
      current: each === tab,
      count: count[each] ?? "",
    })),
    zoned: t("admin.zoned", { label: t("console.when"), zone }),
    sort: {
      order: order === "oldest" ? "ascending" : "descending",
      // Both lists together are in one order only.
      href:
        tab === "undelivered"
          ? ""
          : addressWith({ state: tab, sort: order === "oldest" ? "-changed" : "changed" }),
    },
    isFiltered: tab !== "all" || Object.keys(inPath).length > 0,
    isQuiet: tab === "undelivered" && Object.keys(inPath).length === 0,
    everything: `${path}?state=all`,
    hasOthers,
    list: {
      next: next === null ? "" : addressWith({ state: tab, ...sorted, after: next }),
      first: query.has("after") ? to : "",
    },
    again:
      isAllowed && items.some(({ state }) => state !== "waiting")
        ? { to, csrf: request.token(to, "again") }
        : undefined,
    all:
      isAllowed && hasParked
        ? {
            href: addressOf("/deliveries", "redriveAll", { ...scope }),
            label: t("admin.deliveries.sendAll", {
              count: parked.length === 0 ? "" : countText(parked),
            }),
          }
        : undefined,
    isHeld,
    withReceiver: scope.receiver === undefined,
    deliveries: items.map((delivery) => {
      const { id, receiver, type, state, attempts, at, sub } = delivery;
      const address = `/deliveries/${segmentOf(id)}`;
      return {
        id,
        href: path === "/deliveries" ? fromList(request, address) : address,
        when: time(request, at, "").value,
        choose:
          state === "waiting" ? "" : t("admin.deliveries.chooseOne", { type, when: moments(at * 1000).text }),
        receiver: member(request, "receiver", receiver),
        type,
        account: accountValue(request, sub),
        state: { text: t(`console.state.${state}`), tone: TONES[state] },
        attempts,
        answer: lastAnswer(t, delivery).value,
        next: whatNext(request, delivery),
      };
    }),
  };
}
