/** The keys that sign: how each stands, what comes next, and whether one ends without another that follows. */
import type { SigningKey } from "../../../accounts/operations/keys.ts";
import type { Page } from "../../../accounts/operations/operation.ts";
import type { Item } from "../derived/list.ts";
import type { Look } from "../derived/pages.ts";
import type { ConsoleRequest } from "../request.ts";
import { type Cell, clip, nothing, time, type Verdict } from "../tables.ts";

const WEEK_SECONDS = 604_800;

const keyIn = (item: Item): SigningKey => item as unknown as SigningKey;

/** Keys that stop to sign within a week, and have none that follows. */
export function endingKeys(keys: readonly SigningKey[], now: number): readonly SigningKey[] {
  const soon = now / 1000 + WEEK_SECONDS;
  return keys.filter(({ alg, state, retires_at }) => {
    const isFollowed = keys.some((other) => other.alg === alg && other.state === "published");
    return state === "signing" && retires_at !== null && retires_at <= soon && !isFollowed;
  });
}

/** The keys, all of them: there are few. */
export async function signingKeys({ perform }: ConsoleRequest): Promise<readonly SigningKey[]> {
  const { result } = await perform("keys", "list", { input: { limit: 200 } });
  return (result as Page<SigningKey>).items;
}

/** What waits in the entry of the keys. */
export async function keysTodo(request: ConsoleRequest): Promise<readonly [entry: string, count: number]> {
  return ["keys", endingKeys(await signingKeys(request), request.now).length];
}

/** When it has come to stand as it does. */
function sinceOf({ state, published_at, signs_from, retires_at }: SigningKey): number | null {
  if (state === "published") return published_at;
  return state === "signing" ? signs_from : retires_at;
}

function nextOf({ t, moments }: ConsoleRequest, key: SigningKey): Cell {
  const next = {
    published: ["admin.key.signs", key.signs_from],
    signing: ["admin.key.retires", key.retires_at],
    retired: ["admin.key.leaves", key.published_until],
  } as const;
  const [words, at] = next[key.state];
  return at === null ? nothing : clip(t(words, { when: moments(at * 1000).text }));
}

function verdictOf(request: ConsoleRequest, items: readonly Item[]): Verdict | undefined {
  const { t, now, moments } = request;
  const [ending] = endingKeys(items.map(keyIn), now);
  if (ending === undefined || ending.retires_at === null) return undefined;
  const when = moments(ending.retires_at * 1000).relative;
  return {
    tone: "warning",
    title: t("admin.key.verdict", { kid: ending.kid, when }),
    texts: [t("admin.key.verdict.text")],
  };
}

export const KEYS: Look = {
  isSmall: true,
  columns: ["kid", "alg", "state", "in_state_since", "next_step", "removable_from"],
  without: ["rotate", "retire"],
  verdict: verdictOf,
  async cells(request) {
    return (item) => {
      const key = keyIn(item);
      return {
        in_state_since: time(request, sinceOf(key), ""),
        next_step: nextOf(request, key),
        removable_from: time(request, key.published_until, ""),
      };
    };
  },
  commands: ["sign-in-service keys rotate signing", "sign-in-service keys retire KID --now"],
};
