/** Whether the answers of a running service, or the work behind them, reveal which names have an account. */
import { AsyncLocalStorage } from "node:async_hooks";
import { beforeAll, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createPasswords } from "../../accounts/passwords/passwords.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";
import { defaults } from "../../config/schema.ts";

const TRIES = rounds(4, 40);
/** As cheap as OWASP allows. */
const COST = { memory: 7168, passes: 5 };
const PASSWORD = "a lighthouse in the fog";

let running: RunningService;
let news: TestClient;
/** What the running request asks of the storage. */
const request = new AsyncLocalStorage<string[]>();
/** What all requests have asked of it, one text per request. */
const requests: string[] = [];

const note = (operation: string, kinds: readonly string[]): void =>
  void request.getStore()?.push([operation, ...kinds.toSorted()].join(" "));

/** The store, whose calls are written down: the operation, and the kinds and numbers of its records. */
function watched(store: RecordStore): RecordStore {
  return {
    get(refs, options) {
      note(
        "get",
        refs.map(({ kind }) => kind),
      );
      return store.get(refs, options);
    },
    list(queries) {
      note(
        "list",
        queries.map(({ kind, index }) => `${kind}/${index}`),
      );
      return store.list(queries);
    },
    count(queries) {
      note(
        "count",
        queries.map(({ kind, index }) => `${kind}/${index}`),
      );
      return store.count(queries);
    },
    commit(change) {
      note(
        change.relaxed === true ? "relaxed commit" : "commit",
        [...(change.put ?? []), ...(change.remove ?? [])].map(({ kind }) => kind),
      );
      return store.commit(change);
    },
    scan: (kind, after, limit) => store.scan(kind, after, limit),
    next: (counter, atLeast) => store.next(counter, atLeast),
    sweep: (limit, now) => store.sweep(limit, now),
    ping: () => store.ping(),
    close: () => store.close(),
  };
}

beforeAll(async () => {
  const now = Date.now();
  running = await startService({
    through: watched,
    host: (application) =>
      void application.use((_ctx, next) => {
        const calls: string[] = [];
        return request.run(calls, next).finally(() => void requests.push(calls.join(", ")));
      }),
    config: {
      rateLimits: UNLIMITED,
      passwords: COST,
      mail: async () => undefined,
      interactions: { registration: { fields: { username: "optional" } } },
      // The pages say how much time is left.
      clock: { virtual: true, now: () => now },
    },
  });
  news = clientAt(running, "oauth2", NEWS);
  await running.service.clients.update(NEWS.client_id, { password_grant: true });
  const { password_hash } = await hashOf(PASSWORD);
  for (let number = 0; number < TRIES; number += 1)
    await running.service.accounts.import({ ...namesOf("known", number), password_hash });
});

async function hashOf(password: string): Promise<{ readonly password_hash: string }> {
  const passwords = createPasswords({ ...defaults.passwords, ...COST });
  const password_hash = await passwords.hash(password);
  await passwords.close();
  return { password_hash };
}

/** How many passwords have been hashed or compared. */
async function hashes(): Promise<number> {
  const text = await running.service.metrics();
  const counts = [...text.matchAll(/^sign_in_hashing_duration_seconds_count\{.*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Names of one length, because their length is in the answers. */
function namesOf(kind: "known" | "other" | "factor", number: number) {
  const username = `${kind}${String(number).padStart(4, "0")}`;
  return { username, email: `${username}@example.com` };
}

type Names = ReturnType<typeof namesOf>;
/** Asks, and returns all that the answer shows. */
type Ask = () => Promise<unknown>;

/** Headers that are different at every request. */
const DIFFERENT: ReadonlySet<string> = new Set(["date", "set-cookie", "x-request-id"]);

/** A browser at a page of the sign-in. @returns what submits its form. */
async function form(way: string, field: string, values: Readonly<Record<string, string>>): Promise<Ask> {
  const browser = await news.browser().get(news.authorizeUrl());
  if (way !== "") await browser.get(`${browser.url.href}/${way}`);
  return async () => {
    await browser.submit(browser.form(field), values);
    const statuses = browser.visits.map(({ status }) => status);
    const headers = [...browser.headers].filter(([name]) => !DIFFERENT.has(name));
    return [statuses, headers, browser.html];
  };
}

const QUESTIONS: Readonly<Record<string, (names: Names) => Promise<Ask>>> = {
  "a sign-in": ({ username }) => form("", "password", { username, password: "not the password" }),
  "the password grant": async (names) => async () => {
    const { status, body } = await news.password({ ...names, password: "not the password" });
    return [status, body];
  },
  "a registration": ({ email }) => form("register", "email", { email, password: PASSWORD }),
  "a registration with a username": ({ username, email }) =>
    form("register", "email", { email: `x${email}`, username, password: PASSWORD }),
  "a reset": ({ email }) => form("forgot-password", "username", { username: email }),
};

/** Without what is different at every sign-in, and the name that was asked about. */
function stable(answer: unknown, { username }: Names): string {
  return (
    JSON.stringify(answer)
      .replaceAll(username, "NAME")
      .replaceAll(/name=\\"csrf\\" value=\\"[^"]*\\"/g, "")
      // Encrypted anew for each page: only its length could tell something.
      .replaceAll(/(?<=name=\\"again\\" value=\\")[^"\\]*/g, (sealed) => `${sealed.length}`)
      .replaceAll(/interaction\/[\w-]+/g, "interaction")
  );
}

it.each(Object.keys(QUESTIONS))(
  "%s gets the same answer for the same reads, writes and hashes, whether or not there is such an account [D-ENUM-2]",
  async (what) => {
    const seen = { known: new Set<string>(), other: new Set<string>() };
    for (let number = 0; number < TRIES; number += 1)
      for (const kind of ["known", "other"] as const) {
        const names = namesOf(kind, number);
        const ask = await QUESTIONS[what]!(names);
        const before = await hashes();
        requests.length = 0;
        const answer = stable(await ask(), names);
        const work = { requests: [...requests], hashes: (await hashes()) - before };
        expect(work.requests.join("")).toContain("get");
        expect(work.hashes > 0).toBe(what !== "a reset");
        seen[kind].add(JSON.stringify({ answer, work }));
      }
    expect(seen.known).toEqual(seen.other);
    expect(seen.known.size).toBe(1);
  },
  60_000,
);

it("the password grant does the same for an account with a second factor, whether or not the password is right [D-FACTOR-4]", async () => {
  const seen = new Set<string>();
  for (let number = 0; number < TRIES; number += 1) {
    const names = namesOf("factor", number);
    const { service } = running;
    const { password_hash } = await hashOf(PASSWORD);
    const { sub } = await service.accounts.import({ ...names, password_hash });
    await service.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    for (const password of [PASSWORD, "not the password"]) {
      const before = await hashes();
      requests.length = 0;
      const { status, body } = await news.password({ username: names.username, password });
      const work = { requests: [...requests], hashes: (await hashes()) - before };
      seen.add(stable([status, body, work], names));
    }
  }
  expect([...seen]).toEqual([expect.stringMatching(/^\[400,\{"error":"invalid_grant".*"hashes":1\}\]$/u)]);
}, 60_000);
