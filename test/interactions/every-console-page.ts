/** Every page of the delivery console in every state. */
import type {
  ConsoleAttempt,
  ConsoleDeliveryDetail,
  ConsoleReceiver,
} from "../../interactions/delivery-console.ts";
import type { Pages } from "../../interactions/index.ts";

/** With the given text wherever a text comes from outside. */
export function deliveryWith(
  text: string,
  changes: Partial<ConsoleDeliveryDetail> = {},
): ConsoleDeliveryDetail {
  const attempt: ConsoleAttempt = {
    number: 1,
    startedAt: 1_790_000_000_000,
    duration: 11.2,
    status: 500,
    error: null,
    answer: text,
  };
  return {
    id: text,
    receiver: text,
    sub: text,
    type: text,
    state: "parked",
    at: 1_790_000_000,
    attempts: 2,
    nextAttemptAt: null,
    finishedAt: 1_790_000_100_000,
    reason: text,
    history: [attempt, { ...attempt, number: 2, status: null, error: text, answer: null }],
    ...changes,
  };
}

export function receiverWith(text: string, changes: Partial<ConsoleReceiver> = {}): ConsoleReceiver {
  return {
    receiver: text,
    url: text,
    paused: false,
    reason: null,
    failures: 0,
    heldUntil: null,
    waiting: 0,
    parked: 0,
    oldest: null,
    ...changes,
  };
}

/** Each by a name that says which state it is in. */
export function consolePages(pages: Pages, locale: string, text: string): Record<string, Promise<string>> {
  const common = { locale, list: text, receiversPath: text };
  const tokens = { redrive: text, discard: text };
  const result = {
    code: "testFailed",
    values: { receiver: text, what: text, duration: 5, redriven: 1, superseded: 2, purged: 3 },
  };
  const list = { ...common, filter: {}, receivers: [text], deliveries: [], isLater: false };
  const waiting = deliveryWith(text, {
    state: "waiting",
    finishedAt: null,
    reason: null,
    nextAttemptAt: 1_790_000_200_000,
    history: [],
  });
  return {
    "deliveries, none": pages.deliveries(list),
    deliveries: pages.deliveries({
      ...list,
      filter: { state: "parked", receiver: text, type: "PROFILE_CHANGED", sub: text },
      deliveries: [deliveryWith(text), waiting],
      next: text,
      isLater: true,
      redriveAll: text,
    }),
    "deliveries, wrong account": pages.deliveries({ ...list, wrongSub: text }),
    delivery: pages.delivery({ ...common, delivery: deliveryWith(text), tokens: { ...tokens, force: text } }),
    "delivery, waiting": pages.delivery({ ...common, delivery: waiting, tokens: { discard: text } }),
    "delivery, told": pages.delivery({ ...common, delivery: deliveryWith(text), tokens, result }),
    "receivers, none": pages.receivers({ ...common, receivers: [] }),
    receivers: pages.receivers({
      ...common,
      receivers: [
        { report: receiverWith(text), tokens: { pause: text, test: text } },
        {
          report: receiverWith(text, { paused: true, reason: text, waiting: 3, oldest: 1_790_000_000_000 }),
          tokens: { resume: text, test: text },
        },
        {
          report: receiverWith(text, { failures: 7, heldUntil: 1_790_000_000_000, parked: 2 }),
          tokens: { pause: text, resume: text, redriveAll: text },
        },
        { report: receiverWith(text, { failures: 1 }), tokens: {} },
        { report: receiverWith(text, { url: null }), tokens: {} },
      ],
    }),
  };
}
