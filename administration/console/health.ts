/** The health of the service: first whether anything needs somebody, then everything that was looked at. */
import { hasSecondFactor } from "../../accounts/factors/factor.ts";
import { fullName } from "../../accounts/names.ts";
import type { Page } from "../../accounts/operations/operation.ts";
import { pagesOf } from "../../core/pages.ts";
import type { PageServices } from "../../interactions/services.ts";
import { shortened } from "./derived/values.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";
import { endingKeys, signingKeys } from "./applications/keys.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { secondsOf } from "./local-time.ts";
import type { ConsolePage, ConsoleRequest } from "./request.ts";
import { segmentOf } from "./request.ts";

/** Something that was looked at. */
interface Check {
  readonly tone: "good" | "warning" | "bad";
  readonly text: string;
  /** What a part says of itself, in English; or `""`. */
  readonly detail: string;
  readonly href: string;
}

const WEEK_SECONDS = 604_800;

/** What the page looks at besides what requests can read. */
export type HealthParts = Pick<PageServices, "configuration" | "storage"> & {
  /** How many administration tokens end within so many seconds. */
  readonly tokensEnding: (seconds: number) => Promise<number>;
};

/** The alert SignInAdministrationRefused has the same number, for a quarter of an hour. */
const MOST_REFUSED = 50;

/** Says how old the page is. */
const AGE_SCRIPT = `for (const time of document.querySelectorAll("[data-ticks]")) {
  const words = new Intl.RelativeTimeFormat(document.documentElement.lang);
  setInterval(() => (time.textContent = words.format(-Math.floor(performance.now() / 1000), "second")), 1000);
}`;

export const healthPage = (parts: HealthParts): ConsolePage => ({
  path: "/health",
  entry: "health",
  role: "viewer",
  async get(request) {
    const { t } = request;
    const found = await Promise.all([
      partsOf(request),
      receiversOf(request),
      keysOf(request),
      operatorsOf(request, parts),
      tokensOf(request, parts),
      refusalsOf(request),
    ]);
    const checks = found.flat();
    const waiting = checks.filter(({ tone }) => tone !== "good");
    const isBad = waiting.some(({ tone }) => tone === "bad");
    return {
      kind: "page",
      view: "console-health",
      heading: t("admin.entry.health"),
      script: AGE_SCRIPT,
      locals: {
        verdict: {
          tone: waiting.length === 0 ? "good" : isBad ? "bad" : "warning",
          text:
            waiting.length === 0
              ? t("admin.health.well")
              : t("admin.health.needs", { count: waiting.length }),
        },
        waiting,
        // Nobody needs to read these: they are folded.
        good: checks.filter(({ tone }) => tone === "good"),
        checked: request.moments(request.now),
      },
    };
  },
});

/** Operators whom the console does not let in. */
async function operatorsOf(
  { t, opens }: ConsoleRequest,
  { configuration, storage }: HealthParts,
): Promise<Check[]> {
  const checks: Check[] = [];
  for (const sub of Object.keys(configuration.operators)) {
    const account = await storage.directory.findAccount(sub);
    if (account === undefined || hasSecondFactor(account)) continue;
    const name = shortened(fullName(account) || account.email);
    checks.push({
      tone: "warning",
      text: t("admin.health.operator", { name }),
      detail: "",
      href: opens("people") ? `/people/${segmentOf(sub)}` : "",
    });
  }
  return checks;
}

async function tokensOf({ t }: ConsoleRequest, { tokensEnding }: HealthParts): Promise<Check[]> {
  const count = await tokensEnding(WEEK_SECONDS);
  return count === 0
    ? []
    : [{ tone: "warning", text: t("admin.health.tokens", { count }), detail: "tokens list", href: "" }];
}

/** Parts that also say how much they have to do. What another part says is something to look at, such as a clock that is wrong. */
const TALKATIVE: ReadonlySet<string> = new Set(["notifications", "receivers"]);

async function partsOf({ t, health }: ConsoleRequest): Promise<Check[]> {
  const { parts } = await health();
  return Object.entries(parts).map(([name, { ok, required, detail }]) => ({
    tone: !ok && required ? "bad" : !ok || (detail !== "" && !TALKATIVE.has(name)) ? "warning" : "good",
    text: t(ok ? "admin.health.part" : "admin.health.part.down", {
      part: t.has(`admin.part.${name}`) ? t(`admin.part.${name}`) : name,
    }),
    detail,
    href: "",
  }));
}

/** All records of a list. */
async function everyItem<T>(
  { perform }: ConsoleRequest,
  noun: string,
  filters: Readonly<Record<string, unknown>> = {},
): Promise<readonly T[]> {
  const items: T[] = [];
  const pages = pagesOf(async (after) => {
    const input = { ...filters, limit: 200, ...(after !== undefined && { after }) };
    const { result } = await perform(noun, "list", { target: [], input });
    return result as Page<T>;
  });
  for await (const page of pages) items.push(...page.items);
  return items;
}

async function receiversOf(request: ConsoleRequest): Promise<Check[]> {
  const { t } = request;
  const receivers = await everyItem<ReceiverReport>(request, "receivers");
  return receivers.flatMap(({ receiver, paused, failures, parked }) => {
    const href = `/receivers/${segmentOf(receiver)}`;
    const states = [
      { key: "failing", tone: "bad", count: failures },
      { key: "paused", tone: "warning", count: paused ? 1 : 0 },
      { key: "parked", tone: "warning", count: parked },
    ] as const;
    return states
      .filter(({ count }) => count > 0)
      .map(({ key, tone, count }) => ({
        tone,
        text: t(`admin.health.receiver.${key}`, { receiver, count }),
        detail: "",
        href,
      }));
  });
}

async function keysOf(request: ConsoleRequest): Promise<Check[]> {
  const { t, now } = request;
  return endingKeys(await signingKeys(request), now).map(({ kid }) => ({
    tone: "warning",
    text: t("admin.health.key", { kid }),
    detail: "",
    href: "/keys",
  }));
}

/** Somebody tries tokens, or has done as much as an hour allows: what all processes have refused in the last day. */
async function refusalsOf(request: ConsoleRequest): Promise<Check> {
  const { t, opens } = request;
  const filters = { action: "administration.refused", since: secondsOf("24h", request) };
  const records = await everyItem<AuditRecord>(request, "audit", filters);
  const countOf = (isLimit: boolean): number =>
    records
      .filter(({ reason }) => (reason === "limit") === isLimit)
      .reduce((sum, { count }) => sum + count, 0);
  const [limited, refused] = [countOf(true), countOf(false)];
  return {
    tone: limited > 0 || refused > MOST_REFUSED ? "warning" : "good",
    text: t("admin.health.refusals", { refused, limited }),
    detail: "",
    href: opens("audit") ? `/audit?${new URLSearchParams({ action: filters.action, since: "24h" })}` : "",
  };
}
