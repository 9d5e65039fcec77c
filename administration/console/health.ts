/** The health of the service: first whether anything needs somebody, then everything that was looked at. */
import { hasSecondFactor } from "../../accounts/factors/factor.ts";
import { fullName } from "../../accounts/names.ts";
import { pagesOf } from "../../core/pages.ts";
import type { PageServices } from "../../interactions/services.ts";
import { shortened } from "./derived/values.ts";
import type { SigningKey } from "../../accounts/operations/keys.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";
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
    ]);
    const checks = found.flat();
    const waiting = checks.filter(({ tone }) => tone !== "good");
    const isBad = waiting.some(({ tone }) => tone === "bad");
    return {
      kind: "page",
      view: "console-health",
      heading: t("admin.entry.health"),
      locals: {
        verdict: {
          tone: waiting.length === 0 ? "good" : isBad ? "bad" : "warning",
          text:
            waiting.length === 0
              ? t("admin.health.well")
              : t("admin.health.needs", { count: waiting.length }),
        },
        checks: [...waiting, ...checks.filter(({ tone }) => tone === "good")],
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

async function partsOf({ t, health }: ConsoleRequest): Promise<Check[]> {
  const { parts } = await health();
  return Object.entries(parts).map(([name, { ok, required, detail }]) => ({
    tone: ok ? "good" : required ? "bad" : "warning",
    text: t(ok ? "admin.health.part" : "admin.health.part.down", {
      part: t.has(`admin.part.${name}`) ? t(`admin.part.${name}`) : name,
    }),
    detail,
    href: "",
  }));
}

/** Every item of a list. */
async function all<Item>({ perform }: ConsoleRequest, noun: string): Promise<readonly Item[]> {
  const items: Item[] = [];
  const pages = pagesOf(async (after) => {
    const input = { limit: 200, ...(after !== undefined && { after }) };
    const { result } = await perform(noun, "list", { target: [], input });
    return result as { readonly items: readonly Item[]; readonly next: string | null };
  });
  for await (const page of pages) items.push(...page.items);
  return items;
}

async function receiversOf(request: ConsoleRequest): Promise<Check[]> {
  const { t } = request;
  const receivers = await all<ReceiverReport>(request, "receivers");
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

/** Keys that stop to sign within a week, and have none that follows. */
async function keysOf(request: ConsoleRequest): Promise<Check[]> {
  const { t, now } = request;
  const keys = await all<SigningKey>(request, "keys");
  const soon = now / 1000 + WEEK_SECONDS;
  return keys.flatMap(({ kid, alg, state, retires_at }) => {
    const isFollowed = keys.some((other) => other.alg === alg && other.state === "published");
    if (state !== "signing" || retires_at === null || retires_at > soon || isFollowed) return [];
    return [{ tone: "warning", text: t("admin.health.key", { kid }), detail: "", href: "/keys" } as const];
  });
}
