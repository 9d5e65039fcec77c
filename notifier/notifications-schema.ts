/** The arguments that the calls about notifications accept. */
import { z } from "zod";
import { DELIVERY_STATES, type DeliveryFilter } from "../records/deliveries/delivery.ts";
import { actor, type CallOptions, exactly, flag, integer, ruled } from "../accounts/arguments.ts";
import { parseReceiverName } from "../accounts/receivers.ts";
import { subProblem } from "../accounts/text-rules.ts";
import type { ExplainedAction } from "./explain.ts";
import { NOTIFICATION_TYPES } from "../accounts/plan.ts";

/** A filter for deliveries, and one page of them. */
export interface DeliveryPageInput extends DeliveryFilter {
  /** The id of the last delivery of the page before. */
  readonly after?: string;
  /** 1 to 500, default 100. */
  readonly limit?: number;
  /** Default `oldest`. */
  readonly first?: "oldest" | "newest";
}

/** A name or id to look up: any string, because an unknown one is no error. */
export const anyText: z.ZodType<string> = z.string({ error: "must be a string" });

/** The audit records the name of the receiver, so it must not be free text, which could contain personal data. */
export const receiverName: z.ZodType<string> = ruled((name) =>
  parseReceiverName(name) === undefined ? "must be service:KEY, group:KEY or portal:KEY" : undefined,
);

const FIRST = ["oldest", "newest"] as const;

const notificationType = z.enum(NOTIFICATION_TYPES, {
  error: `must be one of ${NOTIFICATION_TYPES.join(", ")}`,
});

const filter = {
  receiver: anyText.exactOptional(),
  sub: anyText.exactOptional(),
  type: anyText.exactOptional(),
};

/** Argument of `redriveAll`. */
export const deliveryFilter: z.ZodType<Omit<DeliveryFilter, "state">> = exactly({
  receiver: receiverName.exactOptional(),
  sub: ruled(subProblem).exactOptional(),
  type: notificationType.exactOptional(),
});

/** Argument of `list` and `page`. */
export const deliveryPage: z.ZodType<DeliveryPageInput> = exactly({
  ...filter,
  state: z.enum(DELIVERY_STATES, { error: `must be one of ${DELIVERY_STATES.join(", ")}` }).exactOptional(),
  after: anyText.exactOptional(),
  limit: integer(1, 500).exactOptional(),
  first: z.enum(FIRST, { error: `must be one of ${FIRST.join(", ")}` }).exactOptional(),
});

/** Second argument of `discard`, `resume` and `test`. */
export const callOptions: z.ZodType<CallOptions> = exactly({ actor });

/** Second argument of `redrive` and `redriveAll`. */
export const redriveOptions: z.ZodType<CallOptions & { readonly force?: boolean }> = exactly({
  actor,
  force: flag().exactOptional(),
});

/** Second argument of `pause`. */
export const pauseOptions: z.ZodType<CallOptions & { readonly reason?: string }> = exactly({
  actor,
  reason: z
    .string({ error: "must be a string" })
    .min(1, { error: "must not be empty" })
    .max(200, { error: "must have at most 200 characters" })
    .exactOptional(),
});

/** Argument of `explain`. */
export const explainedAction: z.ZodType<ExplainedAction> = exactly({
  sub: anyText,
  type: notificationType,
  services: z.array(anyText, { error: "must be a list of service keys" }).exactOptional(),
});
