/** All receivers, with how they are doing. */
import { type DeliveryStore, type ReceiverState, untouchedReceiver } from "../lib/deliveries/delivery.ts";
import type { DirectoryStore, EntryKind } from "../lib/directory/directory.ts";
import { receiverName } from "../lib/domain/receivers.ts";
import { isObjectName } from "../lib/untrusted-keys.ts";

/** How a receiver is doing. Times are milliseconds since the epoch. */
export interface ReceiverReport extends Pick<ReceiverState, "paused" | "reason" | "failures" | "heldUntil"> {
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  /** `null` when it is not configured any more. */
  readonly url: string | null;
  readonly types: readonly string[];
  readonly waiting: number;
  readonly parked: number;
  /** When the oldest delivery that waits was stored. */
  readonly oldest: number | null;
}

const KINDS: readonly EntryKind[] = ["service", "group", "portal"];

export async function reportReceivers(deps: {
  readonly deliveries: Pick<DeliveryStore, "receivers" | "counts">;
  readonly directory: Pick<DirectoryStore, "listEntries">;
}): Promise<ReceiverReport[]> {
  const entries = await Promise.all(
    KINDS.map(async (kind) =>
      (await deps.directory.listEntries(kind)).flatMap(({ key, receiver }) =>
        receiver === null || isObjectName(key) ? [] : [[receiverName(kind, key), receiver] as const],
      ),
    ),
  );
  const configured = new Map(entries.flat());
  const states = await deps.deliveries.receivers();
  const counts = new Map((await deps.deliveries.counts()).map((each) => [each.receiver, each] as const));
  return [...new Set([...configured.keys(), ...states.keys(), ...counts.keys()])]
    .toSorted((a, b) => (a < b ? -1 : 1))
    .map((receiver) => {
      const { paused, reason, failures, heldUntil } = states.get(receiver) ?? untouchedReceiver;
      const { url, types } = configured.get(receiver) ?? { url: null, types: [] };
      const { waiting, parked, oldest } = counts.get(receiver) ?? { waiting: 0, parked: 0, oldest: null };
      return { receiver, url, types, paused, reason, failures, heldUntil, waiting, parked, oldest };
    });
}
