import { describe, expect, it } from "@jest/globals";
import { createWorkQueue } from "../../../lib/passwords/work-queue.ts";
import { codeOf } from "../domain/world.ts";

describe("heavy work", () => {
  it("runs no more at once than allowed, those first who wait at a form, and refuses when too many do", async () => {
    const queue = createWorkQueue(2, { maxWaiting: 3, longestWait: 60_000 });
    const order: string[] = [];
    const gates: (() => void)[] = [];
    let running = 0;
    const work = (name: string) => async (): Promise<void> => {
      running += 1;
      expect(running).toBeLessThanOrEqual(2);
      order.push(name);
      await new Promise<void>((resolve) => void gates.push(resolve));
      running -= 1;
    };
    const patient = ["p1", "p2", "p3"].map((name) => queue("patient", work(name)));
    const urgent = ["u1", "u2", "u3"].map((name) => queue("urgent", work(name)));
    expect(await codeOf(queue("urgent", work("u4")))).toBe("storage_unavailable");
    while (order.length < 6 || gates.length > 0) {
      gates.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([...patient, ...urgent]);
    expect(order).toEqual(["p1", "p2", "u1", "u2", "u3", "p3"]);
    expect(await codeOf(queue("urgent", () => Promise.reject(new TypeError("x"))))).toBe("TypeError x");
    expect(await queue("urgent", async () => "free again")).toBe("free again");
  });
});

describe("heavy work that waited for too long", () => {
  it("is not begun any more, and holds up nobody who came later", async () => {
    const queue = createWorkQueue(1, { maxWaiting: 100, longestWait: 50 });
    const gate = Promise.withResolvers<void>();
    const begun: string[] = [];
    const named = (name: string) => async (): Promise<string> => {
      begun.push(name);
      return name;
    };
    const first = queue("urgent", () => gate.promise);
    const late = Array.from({ length: 20 }, (_each, index) =>
      codeOf(queue("urgent", named(`late ${index}`))),
    );
    const patient = queue("patient", named("patient"));
    const until = performance.now() + 60;
    while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve));
    const inTime = queue("urgent", named("in time"));
    gate.resolve();
    await first;
    expect(new Set(await Promise.all(late))).toEqual(new Set(["storage_unavailable"]));
    expect([await inTime, await patient]).toEqual(["in time", "patient"]);
    expect(begun).toEqual(["in time", "patient"]);
  });
});
