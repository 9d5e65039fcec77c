/** Whether the time of a wrong password tells that there is such an account, whatever hash it has. */
import { join } from "node:path";
import type { LoadRequest } from "../load.ts";
import type { Measurement } from "../result.ts";
import { type Effort, median } from "../rounds.ts";
import { basic, IMPORTED, PERSON } from "../servers/people.ts";
import { startSide } from "../side.ts";
import { openWire, type Wire } from "../wire.ts";

/** Tries of each kind. */
const TRIES = 200;
const QUICK_TRIES = 40;
/** Percent by which the medians may differ. */
const MOST = 10;

const NOBODY = "nobody";
const NAMES: Readonly<Record<string, string>> = {
  "a hash of ours": PERSON.username,
  ...Object.fromEntries(Object.keys(IMPORTED).map((username) => [username, username])),
};

function attempt(username: string): LoadRequest {
  const form = { grant_type: "password", username, password: "this is not the password" };
  return {
    method: "POST",
    target: "/oauth2/token",
    headers: { "content-type": "application/x-www-form-urlencoded", authorization: basic() },
    body: new URLSearchParams(form).toString(),
  };
}

/** Milliseconds until a wrong password was answered. */
async function timeOf(wire: Wire, username: string): Promise<number> {
  const request = attempt(username);
  const began = performance.now();
  const answer = await wire.ask(request);
  const time = performance.now() - began;
  if (!answer.includes('"invalid_grant"')) throw new Error(`an answer that was not expected: ${answer}`);
  return time;
}

/** Milliseconds of each name, tried in turns. */
async function timesOf(wire: Wire, { rounds }: Effort): Promise<ReadonlyMap<string, number>> {
  const tries = rounds < 5 ? QUICK_TRIES : TRIES;
  const names = [NOBODY, ...Object.values(NAMES)];
  const times = new Map<string, number[]>(names.map((name) => [name, []]));
  for (let number = -10; number < tries; number += 1) {
    // In any order: what comes after a cheap hash finds another cache than what comes after a dear one.
    const order = names.map((name) => [Math.random(), name] as const).toSorted(([a], [b]) => a - b);
    for (const [, name] of order) {
      const time = await timeOf(wire, name);
      // The first ones start the threads and let the code be compiled.
      if (number >= 0) times.get(name)?.push(time);
    }
  }
  return new Map([...times].map(([name, seen]) => [name, median(seen)]));
}

export const unknownNames: Measurement = {
  name: "unknown-names",
  async run(effort, folder) {
    const service = await startSide("strangers", { options: { file: join(folder, "names.db") } });
    const wire = await openWire(Number(new URL(service.ready["base"] ?? "").port));
    try {
      const medians = await timesOf(wire, effort);
      const unknown = medians.get(NOBODY) ?? Number.NaN;
      return Object.entries(NAMES).map(([kind, name]) => {
        const known = medians.get(name) ?? Number.NaN;
        return {
          work: "a wrong password",
          against: `unknown name to ${kind}`,
          value: Math.abs(known / unknown - 1) * 100,
          unit: "%",
          target: MOST,
          raw: `${unknown.toFixed(2)} ms to ${known.toFixed(2)} ms`,
        };
      });
    } finally {
      wire.close();
      await service.stop();
    }
  },
};
