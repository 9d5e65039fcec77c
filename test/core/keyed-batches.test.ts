/** Batches of requests for one key; here, workers that claim deliveries of one receiver at the same time. */
import { describe, expect, it } from "@jest/globals";
import type { Claim } from "../../records/deliveries/delivery.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { KeyedBatches } from "../../core/keyed-batches.ts";

interface Call {
  readonly receiver: string;
  readonly limit: number;
  readonly answer: (claims: readonly Claim[]) => void;
  readonly fail: (error: unknown) => void;
}

/** A storage that answers when the test says so. */
function storage(limit?: number) {
  const calls: Call[] = [];
  const claims = new KeyedBatches<null, Claim | undefined>((receiver, requests) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly Claim[]>();
    calls.push({ receiver, limit: requests.length, answer: resolve, fail: reject });
    return promise;
  }, limit);
  const claimOne = (receiver: string) => claims.add(receiver, null);
  return { calls, claimOne };
}

/** Requests of one tick share a batch. */
const tick = () => new Promise<void>((resolve) => process.nextTick(resolve));

/** A claim with nothing but what identifies it. */
function claim(fence: number): Claim {
  return { fence } as Claim;
}

const fences = (claims: readonly (Claim | undefined)[]) => claims.map((each) => each?.fence);
const sent = (calls: readonly Call[]) => calls.map(({ receiver, limit }) => `${receiver} ${limit}`);

describe("requests for one key", () => {
  it("share the next batch; each gets its own result, or undefined when there are too few", async () => {
    const { calls, claimOne } = storage();
    const first = claimOne("service:1");
    await tick();
    const others = [claimOne("service:1"), claimOne("service:1"), claimOne("service:1")];
    expect(sent(calls)).toEqual(["service:1 1"]);
    calls[0]?.answer([claim(1)]);
    expect(fences([await first])).toEqual([1]);
    expect(sent(calls)).toEqual(["service:1 1", "service:1 3"]);
    calls[1]?.answer([claim(2), claim(3)]);
    expect(fences(await Promise.all(others))).toEqual([2, 3, undefined]);
    const last = claimOne("service:1");
    await tick();
    calls[2]?.answer([]);
    await expect(last).resolves.toBeUndefined();
    expect(sent(calls)).toEqual(["service:1 1", "service:1 3", "service:1 1"]);
  });

  it("do not wait for other keys", async () => {
    const { calls, claimOne } = storage();
    void claimOne("service:hangs");
    const other = claimOne("service:1");
    await tick();
    expect(sent(calls)).toEqual(["service:hangs 1", "service:1 1"]);
    calls[1]?.answer([claim(7)]);
    expect(fences([await other])).toEqual([7]);
  });

  it("fail with their own batch only", async () => {
    const { calls, claimOne } = storage();
    const first = claimOne("service:1");
    await tick();
    const second = claimOne("service:1");
    const fault = new StorageUnavailable("away");
    calls[0]?.fail(fault);
    await expect(first).rejects.toBe(fault);
    calls[1]?.answer([claim(4)]);
    expect(fences([await second])).toEqual([4]);
  });

  it("go in batches up to the limit", async () => {
    const { calls, claimOne } = storage(2);
    const all = [1, 2, 3].map(() => claimOne("service:1"));
    await tick();
    expect(sent(calls)).toEqual(["service:1 2"]);
    calls[0]?.answer([claim(1), claim(2)]);
    expect(fences(await Promise.all(all.slice(0, 2)))).toEqual([1, 2]);
    calls[1]?.answer([claim(3)]);
    expect(fences([await all[2]])).toEqual([3]);
    expect(sent(calls)).toEqual(["service:1 2", "service:1 1"]);
  });
});
