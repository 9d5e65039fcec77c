/** The list of receivers, and the page of one: a verdict, what waits for it, and what can be done. */
import { namesOf } from "../../../interactions/console/console-pages.ts";
import { receiverBadge } from "../../../interactions/console/console-views.ts";
import type { ReceiverReport, TestResult } from "../../../notifier/receiver-operations.ts";
import { countText } from "../../../records/deliveries/delivery.ts";
import { briefly } from "../derived/act.ts";
import type { Look } from "../derived/pages.ts";
import { shortened } from "../derived/values.ts";
import { all } from "../applications/references.ts";
import { type ConsoleRequest, segmentOf } from "../request.ts";
import { text, time } from "../tables.ts";
import { button, may, type NotificationParts, onlyText, opens, outcome, sendChosen } from "./actions.ts";
import { listLocals } from "./list.ts";
import { receiverLocals } from "./verdict.ts";

export const allReceivers = (request: ConsoleRequest): Promise<readonly ReceiverReport[]> =>
  all(request, "receivers");

const isWell = ({ paused, failures, failing_since, circuit_open_until }: ReceiverReport): boolean =>
  !paused && failures === 0 && failing_since === null && circuit_open_until === null;

/** The services for which the receiver of a group is told, by name. */
async function servicesOf(request: ConsoleRequest, receiver: string): Promise<string> {
  const [kind, key] = receiver.split(":");
  if (kind !== "group" || !request.opens("services")) return "";
  const services = (await all(request, "services")).filter(({ group }) => group === key);
  return new Intl.ListFormat(request.t.locale).format(services.map(({ name }) => shortened(name)));
}

export function receiversLook({ storage, onDefect }: NotificationParts): Look {
  const namedOf = async (shown: Iterable<string>) => namesOf({ storage }, new Set(shown));
  return {
    called: (record) => (record as unknown as ReceiverReport).receiver,
    async list(request) {
      const { t, zone } = request;
      const known = await allReceivers(request);
      const names = await namedOf(known.map(({ receiver }) => receiver));
      const rows = known.toSorted((one, other) => Number(isWell(one)) - Number(isWell(other)));
      const of = (label: string) => ({ label: t(label), look: "number" });
      return {
        kind: "page",
        view: "console-receivers",
        heading: t("console.receivers"),
        locals: {
          only: onlyText(request),
          table: {
            caption: t("console.receivers"),
            columns: [
              { label: t("console.receiver") },
              { label: t("console.state"), look: "state" },
              of("console.state.waiting"),
              of("console.state.parked"),
              { label: t("admin.zoned", { label: t("console.oldest"), zone }) },
            ],
            rows: rows.map((report) => {
              const { receiver, waiting, parked, oldest_at } = report;
              const name = names.get(receiver) ?? "";
              return {
                cells: [
                  {
                    ...text(name === "" ? receiver : name),
                    href: `/receivers/${segmentOf(receiver)}`,
                    ...(name !== "" && { note: receiver }),
                  },
                  { value: { kind: "badge", ...receiverBadge(t, report) } },
                  text(countText([waiting])),
                  text(countText([parked])),
                  time(request, oldest_at, ""),
                ],
              };
            }),
            empty: `${t("console.noReceivers")}. ${t("console.noReceivers.text")}`,
          },
        },
      };
    },
    async record(request, { record }) {
      const { t } = request;
      const report = record as unknown as ReceiverReport;
      const { receiver, types, url } = report;
      const names = await namedOf([receiver]);
      const name = names.get(receiver) ?? receiver;
      const others = await allReceivers(request);
      const troubled = others.filter((each) => each.receiver !== receiver && !isWell(each)).length;
      const services = await servicesOf(request, receiver);
      const isStopped = report.paused || report.circuit_open_until !== null || report.failures > 0;
      return {
        kind: "page",
        view: "console-receiver",
        heading: name,
        lead: [
          ...(name === receiver ? [] : [receiver]),
          ...(url === null ? [] : [url]),
          ...(services === "" ? [] : [t("admin.receiver.toldFor", { services })]),
          types.join(", "),
        ].join(" · "),
        badge: receiverBadge(t, report),
        crumbs: [{ label: t("console.receivers"), href: "/receivers" }],
        actions: [
          ...(url !== null && may(request, "test") ? [button(request, "test", isStopped)] : []),
          ...(isStopped && may(request, "resume") ? [button(request, "resume")] : []),
          ...(!report.paused && may(request, "pause") ? [opens(request, "pause")] : []),
        ],
        locals: {
          ...(await receiverLocals(request, report, { name, troubled })),
          ...(await listLocals(
            request,
            { receiver },
            { waiting: [report.waiting], parked: [report.parked] },
            { isHeld: report.circuit_open_until !== null, isAllowed: may(request, "redrive") },
          )),
        },
      };
    },
    forms: {
      again: sendChosen,
      test: (request) =>
        outcome(request, async () => {
          const [receiver = ""] = request.params;
          const done = await briefly(request.perform("receivers", "test", { target: [receiver] }), onDefect);
          if (done === undefined) return { code: "testUnderWay", values: { receiver } };
          const { ok, status, error, duration_ms } = done.result as TestResult;
          const values = { receiver, what: status ?? error ?? "", duration: Math.ceil(duration_ms) };
          return ok ? { code: "testTaken", values } : { code: "testFailed", values, isBad: true };
        }),
      resume: (request) =>
        outcome(request, async () => {
          const [receiver = ""] = request.params;
          await request.perform("receivers", "resume", { target: [receiver] });
          return { code: "resumed", values: { receiver } };
        }),
    },
    acting: {
      pause: async ({ params: [receiver = ""] }) => ({
        said: () => ({ code: "paused", values: { receiver } }),
      }),
    },
  };
}
