import { describe, expect, it } from "@jest/globals";
import { Running } from "../../core/running.ts";

describe("waiting for what runs", () => {
  it("ends at once when nothing runs", async () => {
    await new Running().idle(60_000);
  });

  it("ends with the last one, for all who wait; ending twice counts once", async () => {
    const running = new Running();
    const [one, other] = [running.begin(), running.begin()];
    let waiting = 2;
    const waits = [running.idle(60_000), running.idle(60_000)].map((idle) => idle.then(() => (waiting -= 1)));
    one();
    one();
    await new Promise(setImmediate);
    expect(waiting).toBe(2);
    other();
    await Promise.all(waits);
  });

  it("ends after the time-out", async () => {
    const running = new Running();
    running.begin();
    await running.idle(1);
  });

  it("waits again after it was idle", async () => {
    const running = new Running();
    const first = running.begin();
    const idle = running.idle(60_000);
    first();
    await idle;
    const second = running.begin();
    let isIdle = false;
    const again = running.idle(60_000).then(() => (isIdle = true));
    await new Promise(setImmediate);
    expect(isIdle).toBe(false);
    second();
    await again;
  });
});
