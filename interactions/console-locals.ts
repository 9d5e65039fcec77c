/** What the pages of the delivery console are told by their caller. */
import type { DeliveryFilter } from "../lib/deliveries/delivery.ts";
import type { ConsoleResult } from "./console-seals.ts";
import type { ConsoleDelivery, ConsoleDeliveryDetail, ConsoleReceiver } from "./delivery-console.ts";
import type { PageLocals } from "./page-locals.ts";

/** All of them. Paths are as the browser sees them. */
export interface ConsoleLocals extends PageLocals {
  /** Path of the list. */
  readonly list: string;
  /** Path of the receivers. */
  readonly receiversPath: string;
  /** What came of the action before. */
  readonly result?: ConsoleResult;
}

/** `deliveries`: the list, a form that filters it, and one that sends all of it again. */
export interface DeliveriesLocals extends ConsoleLocals {
  readonly filter: DeliveryFilter;
  /** What was typed as the account, when it is none. */
  readonly wrongSub?: string;
  /** Names of the receivers to choose from. */
  readonly receivers: readonly string[];
  readonly deliveries: readonly ConsoleDelivery[];
  /** The delivery after which the next page begins. */
  readonly next?: string;
  /** This is not the first page. */
  readonly isLater: boolean;
  /** Hidden field of the form that sends again all that fits; left out: there is no such form. */
  readonly redriveAll?: string;
}

/** `delivery`: one delivery with its attempts; a form for each action that there is a token for. */
export interface DeliveryLocals extends ConsoleLocals {
  readonly delivery: ConsoleDeliveryDetail;
  /** Hidden fields by action: `redrive`, `force`, `discard`. */
  readonly tokens: Readonly<Partial<Record<"redrive" | "force" | "discard", string>>>;
}

/** What can be done with a receiver. */
export type ReceiverAction = "pause" | "resume" | "test" | "redriveAll";

/** `receivers`: how each is doing; a form for each action. */
export interface ReceiversLocals extends ConsoleLocals {
  readonly receivers: readonly {
    readonly report: ConsoleReceiver;
    /** Hidden fields by action. */
    readonly tokens: Readonly<Partial<Record<ReceiverAction, string>>>;
  }[];
}
