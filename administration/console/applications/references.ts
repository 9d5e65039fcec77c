/** What of the directory refers to what: lists that are small are read whole, in the name of the operator. */
import type { Api } from "../../../accounts/operations/apis.ts";
import type { Client } from "../../../accounts/operations/clients.ts";
import type { Entry, ServiceEntry } from "../../../accounts/operations/directory.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { ReceiverReport } from "../../../notifier/receiver-operations.ts";
import { shortened, type ShownValue } from "../derived/values.ts";
import { type ConsoleRequest, segmentOf } from "../request.ts";
import { type Cell, nothing, text } from "../tables.ts";

/** The items of lists that are read whole. */
interface Items {
  readonly apis: Api;
  readonly clients: Client;
  readonly groups: Entry;
  readonly portals: Entry;
  readonly receivers: ReceiverReport;
  readonly services: ServiceEntry;
}

/** Every item of a list. */
export async function all<Noun extends keyof Items>(
  { perform }: ConsoleRequest,
  noun: Noun,
  filter: Readonly<Record<string, unknown>> = {},
): Promise<readonly Items[Noun][]> {
  const items: Items[Noun][] = [];
  const pages = pagesOf(async (after) => {
    const input = { ...filter, limit: 200, ...(after !== undefined && { after }) };
    const { result } = await perform(noun, "list", { input });
    return result as { readonly items: readonly Items[Noun][]; readonly next: string | null };
  });
  for await (const page of pages) items.push(...page.items);
  return items;
}

/** The names of all records of a kind, by identifier. */
export async function namesOf(
  request: ConsoleRequest,
  noun: "apis" | "groups" | "services",
): Promise<ReadonlyMap<string, string>> {
  const items = await all(request, noun);
  return new Map(items.map((item) => ["key" in item ? item.key : item.identifier, item.name]));
}

/** A link to a record, with its name. */
export const link = (entry: string, id: string, name: string = id): Cell => ({
  value: linked(entry, id, name),
});

export const linked = (entry: string, id: string, name: string): ShownValue => ({
  kind: "link",
  text: shortened(name),
  href: `/${entry}/${segmentOf(id)}`,
});

/** How many, as a link to them. Nothing for none. */
export const counted = (count: number, href: string): Cell =>
  count === 0 ? nothing : { ...text(String(count)), href };

/** The receiver that is told about the accounts of a service: that of its group comes first. `undefined`: nobody is told. */
export function receiverOf(
  { key, group, receiver }: ServiceEntry,
  groups: readonly Entry[],
): string | undefined {
  const merged = groups.some((each) => each.key === group && each.receiver !== null);
  if (merged) return `group:${group}`;
  return receiver === null ? undefined : `service:${key}`;
}

/** The receiver of an entry, with what is wrong with it. `undefined`: it has none. */
export function receiverCell(
  { t, opens }: ConsoleRequest,
  name: string | undefined,
  reports: readonly ReceiverReport[],
): Cell {
  if (name === undefined) return nothing;
  const report = reports.find(({ receiver }) => receiver === name);
  const [label, tone] =
    report === undefined
      ? [t("admin.receiver.works"), "good"]
      : report.paused
        ? [t("admin.flag.paused"), "warning"]
        : report.failures > 0
          ? [t("admin.receiver.failing"), "bad"]
          : [t("admin.receiver.works"), "good"];
  return {
    value: tone === "good" ? { kind: "text", text: label } : { kind: "badge", text: label, tone },
    ...(opens("receivers") && { href: `/receivers/${segmentOf(name)}` }),
  };
}
