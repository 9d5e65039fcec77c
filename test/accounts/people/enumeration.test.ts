/** Whether answers or their time tell which names have an account. */
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { defaults } from "../../../config/defaults.ts";
import { rounds } from "../../rounds.ts";
import { everyMailLimit, from, openPeople, PASSWORD, type PeopleStage } from "./stage.ts";

const TRIES = rounds(60, 200);
/** A busy machine spoils a round, but not all of them. A difference of its own is in each. */
const ROUNDS = 8;
const MANY = { points: 1_000_000, seconds: 3_600 };

let stage: PeopleStage;
let asker: string;
beforeAll(async () => {
  stage = await openPeople(
    { fields: { username: "optional" } },
    { ...defaults.rateLimits, registrations: MANY, mail: everyMailLimit(MANY) },
    // It is the same work for every name, and would hide the rest.
    {
      hash: async () =>
        "$argon2id$v=19$m=7168,t=5,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaA",
    },
  );
  for (let number = 0; number < TRIES; number += 1)
    await stage.accounts.create({ email: `known${number}@example.com`, username: `known${number}` });
  ({ sub: asker } = await stage.accounts.create({ email: "asker@example.com" }));
});
afterAll(() => stage.storage.close());

let tries = 0;
/** Every try has a sign-in and a network of its own. */
const next = () => {
  tries += 1;
  return { interaction: `i${tries}`, at: from(tries) };
};

async function registered(form: { readonly email: string; readonly username?: string }): Promise<string> {
  const { interaction, at } = next();
  await stage.registrations.start(interaction, { password: PASSWORD, ...form }, at);
  return interaction;
}

/** What a stranger can ask about a name: prepares the question, and asks it. */
const QUESTIONS: Readonly<Record<string, (name: string) => Promise<() => Promise<unknown>>>> = {
  "a reset by address": async (name) => () => {
    const { interaction, at } = next();
    return stage.passwordResets.start(interaction, `${name}@example.com`, at);
  },
  "a reset by username": async (name) => () => {
    const { interaction, at } = next();
    return stage.passwordResets.start(interaction, name, at);
  },
  "a wrong code of a reset": async (name) => {
    const { interaction, at } = next();
    await stage.passwordResets.start(interaction, name, at);
    return () => stage.passwordResets.finish({ interaction, code: "00000000" }, PASSWORD, at);
  },
  "a registration of an address": async (name) => () => {
    const { interaction, at } = next();
    const form = { email: `${name}@example.com`, password: PASSWORD };
    return stage.registrations.start(interaction, form, at);
  },
  "a registration of a username": async (name) => () => {
    const { interaction, at } = next();
    const form = { email: `free${interaction}@example.com`, username: name, password: PASSWORD };
    return stage.registrations.start(interaction, form, at);
  },
  "another mail for a registration": async (name) => {
    const interaction = await registered({ email: `${name}@example.com` });
    return () => stage.registrations.resend(interaction, from(tries));
  },
  "a wrong code of a registration": async (name) => {
    const interaction = await registered({ email: `${name}@example.com` });
    return () => stage.registrations.confirm(interaction, { code: "00000000" }, from(tries));
  },
  "a change to an address": async (name) => () =>
    stage.addressChanges.start(asker, `${name}@example.com`, next().at),
};

function median(durations: readonly number[]): number {
  return durations.toSorted((one, other) => one - other)[Math.floor(durations.length / 2)] as number;
}

/** The medians for known and unknown names in turn, and every answer that there was. */
async function round(ask: (name: string) => Promise<() => Promise<unknown>>) {
  const durations = { known: [] as number[], unknown: [] as number[] };
  const answers = { known: new Set<string>(), unknown: new Set<string>() };
  for (let number = 0; number < TRIES; number += 1) {
    const order = number % 2 === 0 ? (["known", "unknown"] as const) : (["unknown", "known"] as const);
    for (const kind of order) {
      const question = await ask(`${kind}${number}`);
      const begun = performance.now();
      const answer = await question();
      durations[kind].push(performance.now() - begun);
      answers[kind].add(JSON.stringify(answer));
    }
  }
  return { known: median(durations.known), unknown: median(durations.unknown), answers };
}

it.each(Object.keys(QUESTIONS))(
  "the answer to %s is the same for known and unknown names, in the same time [D-ENUM-1]",
  async (what) => {
    const ratios: number[] = [];
    while (ratios.length < ROUNDS) {
      const { known, unknown, answers } = await round(QUESTIONS[what]!);
      expect(answers.known).toEqual(answers.unknown);
      expect(answers.known.size).toBe(1);
      ratios.push(known / unknown);
      if (Math.abs(known / unknown - 1) < 0.1) break;
    }
    expect(Math.abs((ratios.at(-1) ?? 0) - 1)).toBeLessThan(0.1);
  },
  60_000,
);
