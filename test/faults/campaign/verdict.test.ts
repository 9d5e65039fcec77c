import { describe, expect, it } from "@jest/globals";
import type { AccountState, Committed } from "./journal.ts";
import { audit, type Entry, givenTwice } from "./ledger.ts";
import { expectedFrom } from "./oracle.ts";
import type { Arrival } from "./receivers.ts";
import { judge } from "./verdict.ts";

const ada: AccountState = {
  sub: "a",
  user_id: 7,
  email: "ada@example.com",
  username: null,
  name: "Ada",
  surname: null,
  date_of_birth: null,
  gender: null,
  portal: "north",
  services: { "1": 11, "2": null, "3": 33 },
  updated_at: 100,
};

const change = (before: AccountState | undefined, after: AccountState | undefined): Committed => ({
  before,
  after,
  at: 200.5,
});

const renamed = { ...ada, name: "Augusta", updated_at: 101 };
const moved = { ...renamed, email: "augusta@example.com", updated_at: 102 };
/** Two changes of a profile, and the deletion. */
const JOURNAL = [change(ada, renamed), change(renamed, moved), change(moved, undefined)];

/** What arrives when all goes well: in the order of the changes at each receiver. */
function arrivalsOf(journal: readonly Committed[]): Arrival[] {
  return expectedFrom(journal).map(({ receiver, shape, to }, index) => ({
    receiver,
    id: `d${index}`,
    body: shape.replace('"timestamp":"ANY"', `"timestamp":${to}`),
    taken: true,
    at: 1_000 * to,
  }));
}

const storedOf = (arrivals: readonly Arrival[]): { id: string; state: string }[] =>
  arrivals.map(({ id }) => ({ id, state: "delivered" }));

const expected = expectedFrom(JOURNAL);
const arrivals = arrivalsOf(JOURNAL);
const stored = storedOf(arrivals);
const counted = (came: readonly Arrival[], held = stored): object => judge(expected, came, held).counts;
const [first, ...others] = arrivals as [Arrival, ...Arrival[]];

describe("what has to arrive", () => {
  it("is what the documents say, in their words", () => {
    expect(arrivalsOf([change(ada, renamed)]).map(({ receiver, body }) => [receiver, body])).toEqual(
      Object.entries({
        "group:media": { "1": 11, "2": null },
        "service:3": { "3": 33 },
        "portal:north": ada.services,
      }).map(([receiver, services]) => [
        receiver,
        `{"notification_type":"PROFILE_CHANGED","data":{"user_id":7,"user_uuid":"a","user_email":"ada@example.com","timestamp":101,"services":${JSON.stringify(services)}}}`,
      ]),
    );
  });

  it.each([
    ["a creation", undefined, ada, []],
    ["a change of nothing", ada, { ...ada, updated_at: 5 }, []],
    ["another portal", ada, { ...ada, portal: "south" }, []],
    ["an assignment", ada, { ...ada, services: { ...ada.services, "4": 44 } }, []],
    ["an unassignment", ada, { ...ada, services: { "3": 33 } }, ["group:media", "portal:north"]],
    [
      "what its receiver does not take",
      { ...ada, services: { "5": 55 } },
      { ...renamed, services: { "5": 55 } },
      ["portal:north"],
    ],
    [
      "what its portal does not take",
      { ...ada, portal: "south" },
      { ...ada, portal: "south", services: {} },
      ["group:media", "service:3"],
    ],
    ["nobody's service", { ...ada, portal: "east", services: { "6": 66 } }, undefined, []],
    ["no service at all", { ...ada, services: {} }, undefined, ["portal:north"]],
  ] as const)("of %s", (_what, before, after, receivers) => {
    expect(expectedFrom([change(before, after)]).map(({ receiver }) => receiver)).toEqual(receivers);
  });
});

/** One that nobody expects. */
const stray = (at: number): Arrival => ({ ...first, id: `x${at}`, at });

describe("the verdict", () => {
  it("is good when everything arrived", () => {
    const [size, none] = [expected.length, 0];
    expect(size).toBe(9);
    expect(judge(expected, arrivals, stored)).toEqual({
      counts: {
        expected: size,
        taken: size,
        lost: none,
        unexpected: none,
        aboutLost: none,
        outOfOrder: none,
        posts: size,
        repeats: none,
        changedRepeats: none,
        unfinished: none,
        falselyFinished: none,
      },
      problems: [],
    });
  });

  it("counts repeats, and those that differ from the first arrival", () => {
    expect(counted([...arrivals, first])).toMatchObject({ repeats: 1, changedRepeats: 0, unexpected: 0 });
    const other = { ...first, body: first.body.replace("101", "102") };
    expect(counted([...arrivals, other])).toMatchObject({ repeats: 1, changedRepeats: 1 });
    const elsewhere = { ...first, receiver: "service:2" };
    expect(counted([...arrivals, elsewhere])).toMatchObject({ repeats: 1, changedRepeats: 1 });
  });

  it("finds what is lost, whether it never came or was never taken", () => {
    expect(counted(others)).toMatchObject({ lost: 1, taken: 8, falselyFinished: 1 });
    expect(counted([{ ...first, taken: false }, ...others])).toMatchObject({ lost: 1, taken: 8 });
    expect(counted([{ ...first, taken: false }, ...others, first])).toMatchObject({ lost: 0, repeats: 1 });
    expect(judge(expected, others, stored).problems[0]).toMatch(/^lost at group:media: .*PROFILE_CHANGED/u);
  });

  it("finds what should not have been sent: another receiver, body, time, or a second delivery", () => {
    expect(counted([...arrivals, { ...first, id: "x" }])).toMatchObject({ unexpected: 1, lost: 0 });
    for (const wrong of [
      { ...first, receiver: "service:2" },
      { ...first, body: first.body.replace('"1":11,', "") },
      { ...first, body: first.body.replace('"timestamp":101', '"timestamp":99') },
      { ...first, body: `${first.body} ` },
    ]) {
      expect(counted([wrong, ...others])).toMatchObject({ unexpected: 1, lost: 1 });
    }
    const late = arrivals.map((each) => ({
      ...each,
      body: each.body.replace('"timestamp":200', '"timestamp":180'),
    }));
    expect(counted(late)).toMatchObject({ unexpected: 3, lost: 3 });
  });

  it("excuses what was about a change that was lost with the primary, and nothing later", () => {
    const loss = { from: 101_000, to: 102_000, promoted: 102_100, renewed: 102_500 };
    const came = [...arrivals, stray(101_500), stray(103_900), stray(100_999), stray(104_001)];
    expect(judge(expected, came, stored, [loss]).counts).toMatchObject({ aboutLost: 2, unexpected: 2 });
  });

  it("finds what came too early, for each receiver and user by itself", () => {
    const lanes = Map.groupBy(arrivals, ({ receiver }) => receiver);
    expect(counted([...lanes.values()].flat())).toMatchObject({ outOfOrder: 0 });
    const [one, two, three] = lanes.get("group:media") as [Arrival, Arrival, Arrival];
    const rest = arrivals.filter(({ receiver }) => receiver !== "group:media");
    expect(counted([two, one, three, ...rest])).toMatchObject({ outOfOrder: 1, lost: 0, unexpected: 0 });
    expect(counted([three, one, two, ...rest])).toMatchObject({ outOfOrder: 2 });
    // A repeat may come at any time.
    expect(counted([one, two, three, one, ...rest])).toMatchObject({ outOfOrder: 0 });
  });

  it("finds where the storage and the receivers disagree", () => {
    const parked = [{ id: first.id, state: "parked" }, ...stored.slice(1)];
    expect(counted(arrivals, parked)).toMatchObject({ unfinished: 1 });
    expect(counted([{ ...first, taken: false }, ...others])).toMatchObject({ falselyFinished: 1 });
  });
});

const entry = (kind: "delete" | "unassign", outcome: Entry["outcome"]): Entry => ({
  change: kind === "delete" ? { kind, sub: "a" } : { kind, sub: "a", services: ["1"] },
  outcome,
  askedAt: 0,
});

const done = { kind: "done", changed: true, account: undefined } as const;
const deletedAt = (answeredAt: number): Entry => ({
  ...entry("delete", done),
  askedAt: answeredAt - 10,
  answeredAt,
});

describe("the ledger", () => {
  const deleted = change(ada, undefined);
  const left = change(ada, { ...ada, services: { "2": null, "3": 33 } });

  it.each([
    ["acknowledged and committed", [entry("delete", done)], [deleted], {}],
    ["acknowledged, not committed", [entry("delete", done)], [], { forgotten: 1 }],
    ["acknowledged, another one committed", [entry("delete", done)], [left], { forgotten: 1, unasked: 1 }],
    [
      "unanswered, committed",
      [entry("unassign", undefined)],
      [left],
      { unanswered: 1, unansweredCommitted: 1 },
    ],
    ["unanswered, not committed", [entry("unassign", undefined)], [], { unanswered: 1 }],
    ["changed nothing", [entry("delete", { ...done, changed: false })], [], {}],
    [
      "changed nothing, but committed",
      [entry("delete", { ...done, changed: false })],
      [deleted],
      { unasked: 1 },
    ],
    [
      "refused",
      [entry("delete", { kind: "refused", code: "not_found", account: undefined })],
      [],
      { refused: 1 },
    ],
    [
      "a fault of the storage",
      [entry("delete", { kind: "failed", code: "storage_unavailable" })],
      [],
      { unanswered: 1 },
    ],
    [
      "an error of the code",
      [entry("delete", { kind: "failed", code: "TypeError: x" })],
      [],
      { unanswered: 1, surprises: 1 },
    ],
    ["never asked for", [], [deleted], { unasked: 1 }],
  ] as const)("of a change that was %s", (_what, entries, journal, counts) => {
    const none = {
      unanswered: 0,
      unansweredCommitted: 0,
      refused: 0,
      forgotten: 0,
      lostWithPrimary: 0,
      unasked: 0,
      surprises: 0,
    };
    const size = { asked: entries.length, committed: journal.length };
    expect(audit(entries, journal).counts).toEqual({ ...size, ...none, ...counts });
  });

  it("excuses what was acknowledged while the standby received nothing, and was lost", () => {
    const losses = [{ from: 1_000, to: 3_000, promoted: 3_100, renewed: 3_500 }];
    const counts = (...entries: Entry[]): object => audit(entries, [deleted], losses).counts;
    expect(counts(deletedAt(500), deletedAt(2_000))).toMatchObject({ lostWithPrimary: 1, forgotten: 0 });
    expect(counts(deletedAt(500), deletedAt(3_011))).toMatchObject({ lostWithPrimary: 0, forgotten: 1 });
  });

  it("finds a number of two accounts", () => {
    expect(
      givenTwice([
        [1, "a"],
        [2, "b"],
        [1, "a"],
      ]),
    ).toEqual([]);
    expect(
      givenTwice([
        [1, "a"],
        [1, "b"],
      ]),
    ).toEqual(["user_id 1 is given twice: a and b"]);
  });

  it("knows changes by what they wrote", () => {
    const written = { email: "x@example.com", date_of_birth: "1900-01-02" };
    const update: Entry = {
      change: { kind: "update", sub: "a", changes: written },
      outcome: done,
      askedAt: 0,
    };
    const assigned: Entry = {
      change: { kind: "assign", sub: "a", service: "4", number: 9 },
      outcome: done,
      askedAt: 0,
    };
    const away: Entry = { change: { kind: "move", sub: "a", portal: null }, outcome: done, askedAt: 0 };
    const born: Entry = {
      change: { kind: "create", email: ada.email, portal: null },
      outcome: done,
      askedAt: 0,
    };
    const entries = [update, assigned, away, born];
    const journal = [
      change(undefined, ada),
      change(ada, { ...ada, ...written }),
      change(ada, { ...ada, services: { ...ada.services, "4": 9 } }),
      change(ada, { ...ada, portal: null }),
    ];
    expect(audit(entries, journal).problems).toEqual([]);
    const otherwise = [change(ada, { ...ada, ...written, email: "y@example.com" }), ...journal.slice(2)];
    expect(audit(entries, otherwise).counts).toMatchObject({ forgotten: 2, unasked: 1 });
  });
});
