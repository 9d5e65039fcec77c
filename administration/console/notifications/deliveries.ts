/** The list of deliveries, a delivery with its attempts, and sending all parked ones again. */
import type { Page } from "../../../accounts/operations/operation.ts";
import { subProblem } from "../../../accounts/text-rules.ts";
import { namesOf } from "../../../interactions/console/console-pages.ts";
import { shownAttempt, TONES, typesOf } from "../../../interactions/console/console-views.ts";
import { overviewOf } from "../../../interactions/console/overview.ts";
import { reasonText } from "../../../interactions/console/words.ts";
import { formLocals } from "../../../interactions/forms.ts";
import { SUPERSEDABLE } from "../../../notifier/notifications.ts";
import type {
  DeliveryDetails,
  DeliveryStats,
  RedriveCounts,
  ShownDelivery,
} from "../../../notifier/operations.ts";
import type { ReceiverReport } from "../../../notifier/receiver-operations.ts";
import type { FoundRecord, Look } from "../derived/pages.ts";
import { shortened } from "../derived/values.ts";
import type { ConsoleAnswer, ConsoleRequest, Notice } from "../request.ts";
import { member, text, time } from "../tables.ts";
import {
  accountValue,
  button,
  may,
  type NotificationParts,
  onlyText,
  opens,
  outcome,
  sendChosen,
} from "./actions.ts";
import { type DeliveryScope, listLocals, tabOf } from "./list.ts";
import { allReceivers } from "./receivers.ts";
import { keptUntil } from "./verdict.ts";

export const deliveriesLook = ({ storage, onDefect }: NotificationParts): Look => ({
  called: (record) => (record as unknown as DeliveryDetails).id,
  list: async (request) =>
    deliveriesList(request, await allReceivers(request), (shown) => namesOf({ storage }, new Set(shown))),
  record: async (request, found) =>
    deliveryPage(request, found, (shown) => namesOf({ storage }, new Set(shown))),
  without: ["acknowledgements"],
  forms: {
    again: sendChosen,
    redrive: (request) => sendAgain(request, "redrive", { force: false }, "redriven"),
    force: (request) => sendAgain(request, "redrive", { force: true }, "redriven"),
    sendNow: (request) => sendAgain(request, "sendNow", {}, "sentNow"),
  },
  acting: {
    async redriveAll(request) {
      const { query, t } = request;
      const scope = scopeIn(query);
      return {
        record: { ...scope },
        locals: { consequences: await forbidden(request, scope) },
        said: (result) => redrivenAll(result as RedriveCounts),
        goesOn: { notice: { code: "redriveUnderWay" }, onDefect },
        name: t("console.deliveries"),
      };
    },
  },
});

const sendAgain = (
  request: ConsoleRequest,
  verb: "redrive" | "sendNow",
  input: Readonly<Record<string, unknown>>,
  code: string,
): Promise<ConsoleAnswer> =>
  outcome(request, async () => {
    await request.perform("deliveries", verb, { target: request.params, input });
    return { code };
  });

const redrivenAll = ({ redriven, superseded, purged }: RedriveCounts): Notice => ({
  code: "redrivenAll",
  values: { redriven, superseded, purged },
});

function scopeIn(query: URLSearchParams): DeliveryScope {
  const value = (name: string): string | undefined => query.get(name) || undefined;
  const [receiver, type] = [value("receiver"), value("type")];
  const account = value("account")?.trim().toLowerCase();
  return {
    ...(receiver !== undefined && { receiver }),
    ...(type !== undefined && { type }),
    ...(account !== undefined && account !== "" && { account }),
  };
}

/** Parked deliveries that the page before "all" looks at. */
const LOOKED_AT = 200;

/** How many of the parked ones would overwrite newer data, and so stay where they are. */
async function forbidden({ perform, t }: ConsoleRequest, scope: DeliveryScope): Promise<readonly string[]> {
  const list = async (input: object): Promise<Page<ShownDelivery>> => {
    const { result } = await perform("deliveries", "list", { input: { ...input } });
    return result as Page<ShownDelivery>;
  };
  const { items, next } = await list({ ...scope, state: "parked", order: "oldest", limit: LOOKED_AT });
  const supersedable = items.filter(({ type }) => SUPERSEDABLE.some((each) => each === type));
  const lanes = Map.groupBy(supersedable, ({ receiver, sub }) => JSON.stringify([receiver, sub]));
  const counts = await Promise.all(
    [...lanes.values()].map(async (lane) => {
      const [{ receiver, sub: account } = { receiver: "", sub: "" }] = lane;
      // Of an invitation there is one event of each type: nothing newer.
      if (subProblem(account) !== undefined) return 0;
      const { items: newer } = await list({
        receiver,
        account,
        state: "delivered",
        order: "newest",
        limit: 1,
      });
      return lane.filter(({ sequence }) => (newer[0]?.sequence ?? 0) > sequence).length;
    }),
  );
  const superseded = counts.reduce((sum, count) => sum + count, 0);
  return [
    t(next === null ? "admin.deliveries.matching" : "admin.deliveries.matching.more", {
      count: items.length,
    }),
    ...(superseded === 0 ? [] : [t("admin.deliveries.forbidden", { count: superseded })]),
    t("admin.deliveries.inOrder"),
  ];
}

type Names = (shown: Iterable<string>) => Promise<ReadonlyMap<string, string>>;

async function deliveriesList(
  request: ConsoleRequest,
  known: readonly ReceiverReport[],
  namedOf: Names,
): Promise<ConsoleAnswer> {
  const { t, query, perform, moments } = request;
  const scope = scopeIn(query);
  const { receiver, type, account } = scope;
  const names = await namedOf(known.map((each) => each.receiver));
  const isWhole = Object.keys(scope).length === 0;
  const shown = known.filter((each) => receiver === undefined || each.receiver === receiver);
  const counts =
    type === undefined && account === undefined
      ? { waiting: shown.map(({ waiting }) => waiting), parked: shown.map(({ parked }) => parked) }
      : {};
  const { result } = isWhole ? await perform("deliveries", "stats") : { result: undefined };
  const isWrong = account !== undefined && subProblem(account) !== undefined;
  const problems = isWrong ? [{ fields: ["account"], text: t("console.problem.sub") }] : [];
  const called = (key: string): string => {
    const name = names.get(key);
    return name === undefined ? key : `${shortened(name)} (${key})`;
  };
  const receiverKeys = [...new Set([...known.map((each) => each.receiver), ...(receiver ? [receiver] : [])])];
  return {
    kind: "page",
    view: "console-deliveries",
    heading: t("console.deliveries"),
    ...(isWrong && { status: 422 }),
    locals: {
      ...formLocals(t, [], problems),
      state: tabOf(request, scope),
      overview: result && {
        ...overviewOf(
          t,
          { receivers: known, lastHour: (result as DeliveryStats).last_hour },
          { moment: moments, row: () => ({}) },
        ),
        waitingHref: "/deliveries?state=waiting",
        parkedHref: "/deliveries?state=parked",
      },
      filters: [
        {
          name: "receiver",
          label: t("console.receiver"),
          value: receiver ?? "",
          options: receiverKeys.map((key) => ({ value: key, label: called(key) })),
        },
        {
          name: "type",
          label: t("console.type"),
          value: type ?? "",
          options: typesOf(receiverKeys).map((each) => ({ value: each, label: each })),
        },
        { name: "account", label: t("console.sub"), value: account ?? "", options: undefined },
      ],
      ...(!isWrong && (await listLocals(request, scope, counts, { isAllowed: may(request, "redrive") }))),
    },
  };
}

/** What can be done with a delivery by a button. */
const BUTTONS = {
  waiting: ["sendNow"],
  parked: ["redrive"],
  delivered: ["redrive"],
  discarded: ["redrive"],
} as const;

async function deliveryPage(
  request: ConsoleRequest,
  { record }: FoundRecord,
  namedOf: Names,
): Promise<ConsoleAnswer> {
  const { t, now, moments, notice } = request;
  const delivery = record as unknown as DeliveryDetails;
  const { id, state, receiver, type, sub, at, next_attempt_at, finished_at, history } = delivery;
  const names = await namedOf([receiver]);
  // Overwriting newer data is offered only after a warning.
  const isSuperseded = notice?.code === "superseded" && state !== "waiting";
  const isDue = next_attempt_at !== null && next_attempt_at * 1000 <= now;
  const kept = keptUntil(request, delivery);
  const canDiscard = state === "waiting" || state === "parked";
  const when = (label: string, seconds: number) => ({
    label: t(label),
    value: time(request, seconds, "").value,
  });
  return {
    kind: "page",
    view: "console-delivery",
    heading: type,
    tabTitle: t("console.delivery"),
    badge: { text: t(`console.state.${state}`), tone: TONES[state] },
    crumbs: [{ label: t("console.deliveries"), href: `/deliveries?${new URLSearchParams({ receiver })}` }],
    actions: [
      ...BUTTONS[state]
        .filter((verb) => may(request, verb))
        .map((verb) => button(request, isSuperseded ? "force" : verb, state === "parked")),
      ...(canDiscard && may(request, "discard") ? [opens(request, "discard")] : []),
    ],
    locals: {
      facts: [
        { label: t("console.id"), value: member(request, "id", id) },
        {
          label: t("console.receiver"),
          value: member(request, "receiver", receiver),
          note: names.get(receiver) ?? "",
        },
        { label: t("console.sub"), value: accountValue(request, sub) },
        when("console.when", at),
        ...(delivery.reason === null
          ? []
          : [{ label: t("console.condition"), value: text(reasonText(t, delivery.reason)).value }]),
        ...(isDue
          ? [{ label: t("console.nextAttempt"), value: text(t("console.due.text")).value }]
          : next_attempt_at === null
            ? []
            : [when("console.nextAttempt", next_attempt_at)]),
        ...(finished_at === null ? [] : [when("console.finished", finished_at)]),
        ...(kept === undefined ? [] : [when("admin.deliveries.keptUntil", kept)]),
      ],
      only: onlyText(request),
      history: history.map((attempt) => shownAttempt(t, attempt, moments)),
    },
  };
}
