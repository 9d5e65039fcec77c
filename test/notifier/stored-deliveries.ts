/** Everything that `service.notifications` lists, in the order in which it was stored. */
import { pagesOf } from "../../core/pages.ts";
import type { Notifications, ShownDelivery } from "../../notifier/operations.ts";

export async function storedDeliveries(
  { list }: Pick<Notifications, "list">,
  filter: Parameters<Notifications["list"]>[0] = {},
): Promise<ShownDelivery[]> {
  const all: ShownDelivery[] = [];
  const pages = pagesOf((after) => list({ limit: 1_000, order: "oldest", ...filter, after }));
  for await (const { items } of pages) all.push(...items);
  return all;
}
