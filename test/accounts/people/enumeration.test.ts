/** What a stranger's question about a name costs: the same reads, writes and comparisons, whether or not somebody has it. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { AskedAt } from "../../../accounts/people/requests.ts";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { withCalls } from "../../servers/storage.ts";
import { everyMailLimit, from, openPeople, PASSWORD, PASSWORDS, type PeopleStage } from "./stage.ts";
import { defaults } from "../../../config/schema.ts";
import type { RateLimits } from "../../../config/rate-limits.ts";

const MANY = { points: 1_000_000, seconds: 3_600 };
const ONE = { points: 1, seconds: 3_600 };

let stage: PeopleStage;
let asker: string;
/** What was read, written, hashed and compared since this was last reset. */
let work: string[];

const kindsOf = (refs: readonly { readonly kind: string }[] = []): string =>
  refs.map(({ kind }) => kind).join();

/** The same store, whose calls are noted with the kinds of the records. */
function noted(store: RecordStore): RecordStore {
  return withCalls(store, {
    get(refs, options) {
      work.push(`get ${kindsOf(refs)}`);
      return store.get(refs, options);
    },
    list(queries) {
      work.push(`list ${kindsOf(queries)}`);
      return store.list(queries);
    },
    commit(change) {
      work.push(`commit ${kindsOf(change.put)} ${kindsOf(change.remove)}`);
      return store.commit(change);
    },
  });
}

async function open(limit: RateLimits["registrations"]): Promise<void> {
  work = [];
  const signIn = { accountAndAddress: limit, account: limit, address: limit };
  const limits = { ...defaults.rateLimits, registrations: limit, mail: everyMailLimit(limit), signIn };
  const hash = async (password: string): Promise<string> => {
    work.push("hash");
    return PASSWORDS.hash(password);
  };
  const verify: typeof PASSWORDS.verify = async (...values) => {
    work.push("verify");
    return PASSWORDS.verify(...values);
  };
  stage = await openPeople({ fields: { username: "optional" } }, limits, { hash, verify }, noted, {
    signIn: { emailCode: true },
  });
  const known = { email: "known@example.com", email_verified: true, username: "known", password: PASSWORD };
  await stage.accounts.create(known);
  ({ sub: asker } = await stage.accounts.create({ email: "asker@example.com" }));
}

/** A browser with the device cookie of another account: it is compared with that of the name. */
const withCookie = (at: AskedAt): AskedAt => ({
  ...at,
  device(_account) {
    work.push("compare");
    return undefined;
  },
});

let tries = 0;

interface Place {
  readonly interaction: string;
  readonly at: AskedAt;
}

async function registered(place: Place, email: string): Promise<void> {
  await stage.registrations.start(place.interaction, { password: PASSWORD, email }, place.at);
}

/** What a stranger can ask about a name: prepares the question, and asks it. */
const QUESTIONS: Readonly<Record<string, (name: string, place: Place) => Promise<() => Promise<unknown>>>> = {
  "a sign-in":
    async (name, { at }) =>
    async () => {
      const { kind } = await stage.signIn(name, "the password of nobody", at);
      return { kind };
    },
  "a reset by address":
    async (name, { interaction, at }) =>
    () =>
      stage.passwordResets.start(interaction, `${name}@example.com`, at),
  "a reset by username":
    async (name, { interaction, at }) =>
    () =>
      stage.passwordResets.start(interaction, name, at),
  "a wrong code of a reset": async (name, { interaction, at }) => {
    await stage.passwordResets.start(interaction, name, at);
    return () => stage.passwordResets.finish({ interaction, code: "00000000" }, PASSWORD, at);
  },
  "a code to sign in by address":
    async (name, { interaction, at }) =>
    () =>
      stage.signInCodes.start(interaction, `${name}@example.com`, false, { ...at, userAgent: undefined }),
  "a code to sign in by username":
    async (name, { interaction, at }) =>
    () =>
      stage.signInCodes.start(interaction, name, false, { ...at, userAgent: undefined }),
  "a recent code to sign in":
    async (name, { interaction, at }) =>
    () =>
      stage.signInCodes.start(interaction, name, true, { ...at, userAgent: undefined }),
  "a wrong code to sign in": async (name, { interaction, at }) => {
    await stage.signInCodes.start(interaction, name, false, { ...at, userAgent: undefined });
    return () => stage.signInCodes.use(interaction, name, "00000000", at);
  },
  "a registration of an address":
    async (name, { interaction, at }) =>
    () =>
      stage.registrations.start(interaction, { email: `${name}@example.com`, password: PASSWORD }, at),
  "a registration of a username":
    async (name, { interaction, at }) =>
    () =>
      stage.registrations.start(
        interaction,
        { email: `free${interaction}@example.com`, username: name, password: PASSWORD },
        at,
      ),
  "another mail for a registration": async (name, place) => {
    await registered(place, `${name}@example.com`);
    return () => stage.registrations.resend(place.interaction, place.at);
  },
  "a wrong code of a registration": async (name, place) => {
    await registered(place, `${name}@example.com`);
    return () => stage.registrations.confirm(place.interaction, { code: "00000000" }, place.at);
  },
  "a change to an address":
    async (name, { at }) =>
    () =>
      stage.addressChanges.start(asker, `${name}@example.com`, at),
};

/** The answer to a question, and the work for it. */
async function ask(what: string, name: string, change: (at: AskedAt) => AskedAt) {
  tries += 1;
  const question = await QUESTIONS[what]!(name, { interaction: `i${tries}`, at: change(from(tries)) });
  work = [];
  const answer = await question();
  return { answer, work: [...work] };
}

/** A call, with the kinds of its records in order. */
const sorted = (call: string): string => call.split(/[ ,]/).filter(Boolean).toSorted().join(" ");

const unchanged = (at: AskedAt): AskedAt => at;

const BROWSERS = [
  ["without a device cookie", unchanged],
  ["with a device cookie", withCookie],
] as const;

describe.each(BROWSERS)("in a browser %s", (_browser, change) => {
  beforeEach(() => open(MANY));

  it.each(Object.keys(QUESTIONS))(
    "%s has the same answer for known and unknown names, after the same work [D-ENUM-1]",
    async (what) => {
      const known = await ask(what, "known", change);
      // The very first answer reads what later ones have cached.
      for (const name of ["nobody", "known", "nobody"]) expect(await ask(what, name, change)).toEqual(known);
      expect(known.work).not.toEqual([]);
    },
  );
});

describe("a reset that uses up the mail of an account", () => {
  beforeEach(() => open(MANY));

  it("costs the same for known and unknown names, also where another name has used it up [D-ENUM-1, D-MAILLIMIT-1]", async () => {
    await open(ONE);
    for (const name of ["someone", "somebody"]) await ask("a reset by username", name, unchanged);
    const last = await ask("a reset by address", "known", unchanged);
    expect(last.work.join()).toMatch(/commit confirmation,.*mail confirmation/);
    expect(await ask("a reset by address", "nobody", unchanged)).toEqual(last);
    // Its address can get no more: the last mail lasts longer.
    const [known, unknown] = [
      await ask("a reset by username", "known", unchanged),
      await ask("a reset by username", "nobody", unchanged),
    ];
    // The one lets an earlier mail last longer, the other replaces it: as many reads, commits and written records.
    expect(unknown.work.map(sorted)).toEqual(known.work.map(sorted));
    expect([known.answer, unknown.answer]).toEqual([last.answer, last.answer]);
    expect(last.answer).toEqual({ kind: "sent" });
  });
});

describe.each(BROWSERS)("over a limit, in a browser %s", (_browser, change) => {
  beforeEach(() => open(ONE));

  it.each([
    "a sign-in",
    "a reset by address",
    "a reset by username",
    "a code to sign in by address",
    "a code to sign in by username",
    "a registration of an address",
    "a change to an address",
  ])("%s costs the same for known and unknown names, and looks up no name without a cookie", async (what) => {
    for (const name of ["known", "nobody"]) await ask(what, name, change);
    const known = await ask(what, "known", change);
    expect(known.answer).toMatchObject({ kind: "limited" });
    expect(await ask(what, "nobody", change)).toEqual(known);
    if (change !== withCookie) expect(known.work.join()).not.toContain("sign-in-name");
  });
});
