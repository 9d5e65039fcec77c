/** The verdict on a receiver: what it does with what it is sent, since when, and what that means. */
import type { Page } from "../../../accounts/operations/operation.ts";
import { shownAttempt } from "../../../interactions/console/console-views.ts";
import type { Locals } from "../../../interactions/look/views.ts";
import type { DeliveryDetails, ShownAttempt, ShownDelivery } from "../../../notifier/operations.ts";
import type { ReceiverReport } from "../../../notifier/receiver-operations.ts";
import { countText } from "../../../records/deliveries/delivery.ts";
import type { ConsoleRequest } from "../request.ts";
import { onlyText } from "./actions.ts";

type Tone = "good" | "warning" | "bad";

/** Deliveries that are read to count what they are about. */
const COUNTED = 200;
/** Deliveries whose attempts are read, to find the last answer. */
const ASKED = 3;

async function list(
  { perform }: ConsoleRequest,
  input: Readonly<Record<string, unknown>>,
): Promise<Page<ShownDelivery>> {
  const { result } = await perform("deliveries", "list", { input });
  return result as Page<ShownDelivery>;
}

/** @param others.troubled how many other receivers don't work. */
export async function receiverLocals(
  request: ConsoleRequest,
  report: ReceiverReport,
  others: { readonly name: string; readonly troubled: number },
): Promise<Locals> {
  const { moments } = request;
  const { receiver, waiting, parked, oldest_at } = report;
  const [people, kept] = await Promise.all([
    waiting === 0 ? "" : peopleText(request, receiver),
    parked === 0 ? "" : keptText(request, receiver),
  ]);
  const verdict = verdictOf(request, report, others.name);
  const at = (state: string): string => `/deliveries?${new URLSearchParams({ receiver, state })}`;
  return {
    verdict,
    checks: verdict.tone === "good" ? [] : await checksOf(request, report, others.troubled),
    answer: verdict.tone === "good" ? undefined : await lastAnswer(request, receiver),
    only: onlyText(request),
    allFilters: `/deliveries?${new URLSearchParams({ receiver })}`,
    overview: {
      waiting: countText([waiting]),
      parked: countText([parked]),
      oldest: oldest_at === null ? undefined : moments(oldest_at * 1000),
      people,
      keptUntil: kept,
      waitingHref: at("waiting"),
      parkedHref: at("parked"),
      lastHour: undefined,
    },
  };
}

/** How many people the waiting deliveries are about. */
async function peopleText(request: ConsoleRequest, receiver: string): Promise<string> {
  const { items, next } = await list(request, {
    receiver,
    state: "waiting",
    order: "oldest",
    limit: COUNTED,
  });
  const count = new Set(items.map(({ sub }) => sub)).size;
  return request.t(next === null ? "admin.receiver.people" : "admin.receiver.people.more", { count });
}

/** Until when every parked delivery can be sent again: then the first contents are deleted. */
async function keptText(request: ConsoleRequest, receiver: string): Promise<string> {
  const { items } = await list(request, { receiver, state: "parked", order: "oldest", limit: COUNTED });
  const ends = items.flatMap((each) => keptUntil(request, each) ?? []);
  const first = ends.toSorted((one, other) => one - other)[0];
  if (first === undefined) return "";
  const { t, zone } = request;
  const date = new Intl.DateTimeFormat(t.locale, { dateStyle: "medium", timeZone: zone }).format(
    first * 1000,
  );
  return t("admin.receiver.keptUntil", { date });
}

/** When the content of a delivery is deleted, in seconds since the epoch; `undefined` while it waits. */
export function keptUntil(
  { configuration }: ConsoleRequest,
  { state, finished_at }: Pick<ShownDelivery, "state" | "finished_at">,
): number | undefined {
  const { payloads, records } = configuration.notifications.retention;
  if (finished_at === null) return undefined;
  return finished_at + (state === "parked" ? records : Math.min(payloads, records));
}

interface Verdict {
  readonly tone: Tone;
  readonly title: string;
  readonly texts: readonly string[];
  /** What an operator has written. */
  readonly reason: string;
}

function verdictOf(request: ConsoleRequest, report: ReceiverReport, name: string): Verdict {
  const { t, moments, now } = request;
  const { url, paused, reason, failures, failing_since, circuit_open_until, parked } = report;
  const say = (tone: Tone, key: string, texts: readonly string[] = [], why = ""): Verdict => ({
    tone,
    title: t(`admin.receiver.${key}`, { name, ...since(request, failing_since) }),
    texts,
    reason: why,
  });
  if (url === null) return say("warning", "removed", [t("admin.receiver.removed.text")]);
  if (paused) return say("warning", "paused", [t("admin.receiver.paused.text")], reason ?? "");
  if (failing_since !== null && failures > 0) {
    const opensAt = circuit_open_until === null ? 0 : circuit_open_until * 1000;
    const next =
      circuit_open_until === null
        ? t("admin.receiver.retried")
        : opensAt <= now
          ? t("admin.receiver.probe.now")
          : t("admin.receiver.probe", { when: moments(opensAt).relative });
    return say("bad", "refuses", [`${t("admin.receiver.attempts", { failures })} ${next}`]);
  }
  if (failing_since !== null) return say("warning", "resumed", [t("admin.receiver.resumed.text")]);
  return parked > 0 ? say("warning", "parked", [t("admin.receiver.parked.text")]) : say("good", "well");
}

/** Since when, exactly and relative to now. Of today, the time is enough. */
function since({ t, now, zone, moments }: ConsoleRequest, seconds: number | null) {
  if (seconds === null) return {};
  const at = seconds * 1000;
  const day = new Intl.DateTimeFormat(t.locale, { dateStyle: "short", timeZone: zone });
  const isToday = day.format(at) === day.format(now);
  const when = new Intl.DateTimeFormat(t.locale, {
    ...(!isToday && { dateStyle: "medium" }),
    timeStyle: "short",
    timeZone: zone,
  }).format(at);
  return { when, ago: moments(at).relative };
}

async function checksOf(
  request: ConsoleRequest,
  report: ReceiverReport,
  troubled: number,
): Promise<Locals[]> {
  const { t } = request;
  const { receiver, circuit_open_until, paused, failures } = report;
  const deletions = await Promise.all(
    ["parked", "waiting"].map((state) =>
      list(request, { receiver, state, type: "DELETE_ACCOUNT", order: "oldest", limit: COUNTED }),
    ),
  );
  const count = deletions.reduce((sum, { items }) => sum + items.length, 0);
  const isMore = deletions.some(({ next }) => next !== null);
  const kept = paused
    ? "paused"
    : circuit_open_until !== null
      ? "held"
      : failures > 0
        ? "retried"
        : undefined;
  return [
    ...(kept === undefined
      ? []
      : [
          {
            tone: kept === "retried" ? "warning" : "good",
            title: kept === "retried" ? "" : t("admin.receiver.lost"),
            text: t(`admin.receiver.lost.${kept}`),
          },
        ]),
    count === 0 && !isMore
      ? { tone: "good", title: "", text: t("admin.receiver.deletions.none") }
      : {
          tone: "warning",
          title: t(isMore ? "admin.receiver.deletions.more" : "admin.receiver.deletions", { count }),
          text: t("admin.receiver.deletions.text"),
          href: `/deliveries?${new URLSearchParams({ receiver, type: "DELETE_ACCOUNT", state: "undelivered" })}`,
        },
    troubled === 0
      ? { tone: "good", title: "", text: t("admin.receiver.others.none") }
      : {
          tone: "warning",
          title: "",
          text: t("admin.receiver.others", { count: troubled }),
          href: "/receivers",
        },
  ];
}

/** The last answer to what has not arrived. */
async function lastAnswer(request: ConsoleRequest, receiver: string): Promise<Locals | undefined> {
  const { t, moments, perform } = request;
  const found = await Promise.all([
    list(request, { receiver, state: "waiting", order: "oldest", limit: 25 }),
    list(request, { receiver, state: "parked", order: "newest", limit: ASKED }),
  ]);
  const tried = found.flatMap(({ items }) => items.filter(({ attempts }) => attempts > 0).slice(0, ASKED));
  const histories = await Promise.all(
    tried.map(async ({ id }) => {
      const { result } = await perform("deliveries", "find", { target: [id] });
      return (result as DeliveryDetails).history;
    }),
  );
  const [last] = histories
    .flatMap((history): readonly ShownAttempt[] => history.slice(-1))
    .toSorted((one, other) => other.started_at - one.started_at);
  if (last === undefined) return undefined;
  const { what, when, duration, answer } = shownAttempt(t, last, moments) as {
    readonly what: { readonly text: string };
    readonly when: { readonly text: string };
    readonly duration: number;
    readonly answer: string;
  };
  return {
    title: t("admin.receiver.lastAnswer", { what: what.text, when: when.text, duration }),
    text: answer,
  };
}
