/**
 * The summary above the list of all deliveries: how many wait or are parked, the last hour, and the state of each
 * receiver.
 */
import type { Translator } from "../../core/texts.ts";
import { countText } from "../../records/deliveries/delivery.ts";
import type { Moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { DeliveryStats } from "../../notifier/operations.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";

export interface ConsoleOverview {
  readonly receivers: readonly ReceiverReport[];
  readonly lastHour: DeliveryStats["last_hour"];
}

/** The size of the chart in its own units; the style sheet stretches it. */
const CHART = { width: 240, height: 48, gap: 4 } as const;
/** Keeps a single delivery visible beside thousands. */
const MIN_BAR = 3;

/** Sums over all receivers, the chart of the last hour, and the receivers, those with problems first. */
export function overviewOf(
  t: Translator,
  { receivers, lastHour }: ConsoleOverview,
  {
    moment,
    row,
  }: { readonly moment: Moments; readonly row: (receiver: ReceiverReport, index: number) => Locals },
): Locals {
  const sum = (field: "waiting" | "parked"): string => countText(receivers.map((each) => each[field]));
  const oldest = receivers.flatMap((each) => each.oldest_at ?? []).toSorted((one, other) => one - other)[0];
  const total = (field: "stored" | "parked"): number => lastHour.reduce((all, each) => all + each[field], 0);
  const hour = { stored: total("stored"), parked: total("parked") };
  return {
    waiting: sum("waiting"),
    parked: sum("parked"),
    oldest: oldest === undefined ? undefined : moment(oldest * 1000),
    lastHour: {
      ...CHART,
      stored: hour.stored,
      text: t("console.lastHour.text", hour),
      bars: bars(lastHour),
    },
    // The number of a receiver is its place on the page of the receivers.
    receivers: receivers
      .map((receiver, index) => ({ receiver, row: row(receiver, index) }))
      .toSorted((one, other) => Number(needsCare(other.receiver)) - Number(needsCare(one.receiver)))
      .map((each) => each.row),
  };
}

function needsCare({ url, paused, circuit_open_until, failures, parked }: ReceiverReport): boolean {
  return paused || circuit_open_until !== null || failures > 0 || parked > 0 || url === null;
}

/** A bar for each span, with what is parked on top. */
function bars(spans: DeliveryStats["last_hour"]): readonly Locals[] {
  const highest = Math.max(1, ...spans.map(({ stored }) => stored));
  const step = CHART.width / Math.max(1, spans.length);
  return spans.flatMap(({ stored, parked }, index) => {
    let top: number = CHART.height;
    const parts = [
      ["done", Math.max(0, stored - parked)],
      ["parked", parked],
    ] as const;
    return parts.flatMap(([tone, count]) => {
      if (count === 0) return [];
      const height = Math.max(MIN_BAR, Math.round((count / highest) * (CHART.height - 2 * MIN_BAR)));
      top = Math.max(0, top - height);
      return [
        {
          tone,
          x: Math.round(index * step + CHART.gap / 2),
          y: top,
          width: Math.round(step - CHART.gap),
          height,
        },
      ];
    });
  });
}
