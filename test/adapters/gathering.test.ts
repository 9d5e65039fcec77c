/** What is asked about one thing at the same time: here, wake-ups of one receiver that want a claim. */
import { describe, expect, it } from "@jest/globals";
import type { Claim } from "../../lib/deliveries/delivery.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { Gathering } from "../../adapters/gathering.ts";

interface Call {
  readonly receiver: string;
  readonly limit: number;
  readonly answer: (claims: readonly Claim[]) => void;
  readonly fail: (error: unknown) => void;
}

/** A storage that answers when it is told to. */
function storage(most?: number) {
  const calls: Call[] = [];
  const claims = new Gathering<null, Claim | undefined>((receiver, { length: limit }) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly Claim[]>();
    calls.push({ receiver, limit, answer: resolve, fail: reject });
    return promise;
  }, most);
  const claimOne = (receiver: string) => claims.ask(receiver, null);
  return { calls, claims, claimOne };
}

/** Of a claim only what tells it from another. */
function claim(fence: number): Claim {
  return { fence } as Claim;
}

const fences = (claims: readonly (Claim | undefined)[]) => claims.map((each) => each?.fence);
const asked = (calls: readonly Call[]) => calls.map(({ receiver, limit }) => `${receiver} ${limit}`);

describe("wake-ups that claim at the same time", () => {
  it("share the next claim, each gets another one, and who comes too late gets none", async () => {
    const { calls, claimOne } = storage();
    const first = claimOne("service:1");
    const others = [claimOne("service:1"), claimOne("service:1"), claimOne("service:1")];
    expect(asked(calls)).toEqual(["service:1 1"]);
    calls[0]?.answer([claim(1)]);
    expect(fences([await first])).toEqual([1]);
    expect(asked(calls)).toEqual(["service:1 1", "service:1 3"]);
    calls[1]?.answer([claim(2), claim(3)]);
    expect(fences(await Promise.all(others))).toEqual([2, 3, undefined]);
    const last = claimOne("service:1");
    calls[2]?.answer([]);
    await expect(last).resolves.toBeUndefined();
    expect(asked(calls)).toEqual(["service:1 1", "service:1 3", "service:1 1"]);
  });

  it("don't wait for other receivers", async () => {
    const { calls, claimOne } = storage();
    void claimOne("service:hangs");
    const other = claimOne("service:1");
    expect(asked(calls)).toEqual(["service:hangs 1", "service:1 1"]);
    calls[1]?.answer([claim(7)]);
    expect(fences([await other])).toEqual([7]);
  });

  it("are told of a fault, those that it met and no others", async () => {
    const { calls, claimOne } = storage();
    const first = claimOne("service:1");
    const second = claimOne("service:1");
    const fault = new StorageUnavailable("away");
    calls[0]?.fail(fault);
    await expect(first).rejects.toBe(fault);
    calls[1]?.answer([claim(4)]);
    expect(fences([await second])).toEqual([4]);
  });

  it("go together up to a number, and a receiver is busy until all of them are answered", async () => {
    const { calls, claims, claimOne } = storage(2);
    const all = [1, 2, 3, 4].map(() => claimOne("service:1"));
    calls[0]?.answer([claim(1)]);
    await all[0];
    expect(asked(calls)).toEqual(["service:1 1", "service:1 2"]);
    calls[1]?.answer([claim(2), claim(3)]);
    expect(fences(await Promise.all(all.slice(0, 3)))).toEqual([1, 2, 3]);
    expect([claims.isBusy("service:1"), claims.isBusy("service:2")]).toEqual([true, false]);
    calls[2]?.answer([claim(4)]);
    await all[3];
    await Promise.resolve();
    expect(claims.isBusy("service:1")).toBe(false);
  });
});
