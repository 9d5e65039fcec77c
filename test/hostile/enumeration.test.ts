/** Whether the answers of a running service, or their time, tell which names have an account. */
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { defaults } from "../../config/defaults.ts";
import { createPasswords } from "../../accounts/passwords/passwords.ts";
import { type RelyingParty, relyingParty } from "../flows/relying-party.ts";
import { NEWS, type RunningService, startService, UNLIMITED } from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";

const TRIES = rounds(20, 200);
/** A busy machine spoils a round, but not all of them. A difference of its own is in each. */
const ROUNDS = rounds(10, 5);
/** As cheap as OWASP allows. */
const COST = { memory: 7168, passes: 5 };
const PASSWORD = "a lighthouse in the fog";

let running: RunningService;
let news: RelyingParty;
beforeAll(async () => {
  const now = Date.now();
  running = await startService({
    config: {
      rateLimits: UNLIMITED,
      passwords: COST,
      mail: async () => undefined,
      interactions: { registration: { fields: { username: "optional" } } },
      // The pages say how much time is left.
      clock: { now: () => now },
    },
  });
  news = relyingParty(running, "oauth2", NEWS);
  await running.service.clients.update(NEWS.client_id, { password_grant: true });
  const passwords = createPasswords({ ...defaults.passwords, ...COST });
  const password_hash = await passwords.hash(PASSWORD);
  await passwords.close();
  for (let number = 0; number < TRIES; number += 1)
    await running.service.accounts.import({ ...namesOf("known", number), password_hash });
});
afterAll(() => running.close());

/** Names of one length, because their length is in the answers. */
function namesOf(kind: "known" | "other", number: number) {
  const username = `${kind}${String(number).padStart(4, "0")}`;
  return { username, email: `${username}@example.com` };
}

type Names = ReturnType<typeof namesOf>;
/** Asks, and returns all that the answer shows. */
type Ask = () => Promise<unknown>;

/** A browser at a page of the sign-in. @returns what submits its form. */
async function form(way: string, field: string, values: Readonly<Record<string, string>>): Promise<Ask> {
  const browser = await news.browser().get(news.authorizeUrl());
  if (way !== "") await browser.get(`${browser.url.href}/${way}`);
  return async () => {
    await browser.submit(browser.form(field), values);
    const statuses = browser.visits.map(({ status }) => status);
    const headers = [...browser.headers].filter(([name]) => name !== "date" && name !== "set-cookie");
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
  return JSON.stringify(answer)
    .replaceAll(username, "NAME")
    .replaceAll(/name=\\"csrf\\" value=\\"[^"]*\\"/g, "")
    .replaceAll(/interaction\/[\w-]+/g, "interaction");
}

function median(durations: readonly number[]): number {
  return durations.toSorted((one, other) => one - other)[Math.floor(durations.length / 2)] as number;
}

async function round(question: (names: Names) => Promise<Ask>) {
  const durations = { known: [] as number[], other: [] as number[] };
  const answers = { known: new Set<string>(), other: new Set<string>() };
  for (let number = 0; number < TRIES; number += 1) {
    const order = number % 2 === 0 ? (["known", "other"] as const) : (["other", "known"] as const);
    for (const kind of order) {
      const names = namesOf(kind, number);
      const ask = await question(names);
      const begun = performance.now();
      const answer = await ask();
      durations[kind].push(performance.now() - begun);
      answers[kind].add(stable(answer, names));
    }
  }
  return { ratio: median(durations.known) / median(durations.other), answers };
}

it.each(Object.keys(QUESTIONS))(
  "%s is answered in the same way and time, whether or not there is such an account [D-ENUM-2]",
  async (what) => {
    let difference = Infinity;
    for (let count = 0; count < ROUNDS && difference >= 0.1; count += 1) {
      const { ratio, answers } = await round(QUESTIONS[what]!);
      expect(answers.known).toEqual(answers.other);
      expect(answers.known.size).toBe(1);
      difference = Math.abs(ratio - 1);
    }
    expect(difference).toBeLessThan(0.1);
  },
  240_000,
);
