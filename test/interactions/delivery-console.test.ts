import { describe, expect, it } from "@jest/globals";
import { createDeliveryConsole } from "../../interactions/console/delivery-console.ts";
import type { Notifications } from "../../notifier/notifications.ts";

/** A stub of the notifications. */
function standIn(calls: Partial<Notifications>): Notifications {
  return calls as Notifications;
}

const ENTRIES = {
  async findEntry(kind: string, key: string) {
    return kind === "service" && key === "1" ? { key, name: "News", group: null, receiver: null } : undefined;
  },
};

const BY = { actor: { kind: "operator", id: "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f" } } as const;

describe("the delivery console", () => {
  it("does not wait for slow calls, and reports their later failure", async () => {
    const test = Promise.withResolvers<undefined>();
    const reported = Promise.withResolvers<unknown>();
    const console = createDeliveryConsole(
      standIn({ test: () => test.promise }),
      ENTRIES,
      reported.resolve,
      1,
    );
    await expect(console.test("service:1", BY)).resolves.toBe("under way");
    const fault = new Error("later");
    test.reject(fault);
    await expect(reported.promise).resolves.toBe(fault);
  });

  it("returns the results and errors of fast calls", async () => {
    const counts = { redriven: 1, superseded: 0, waiting: 0, purged: 0, unknown: 0 };
    const fault = new Error("now");
    const defects: unknown[] = [];
    const console = createDeliveryConsole(
      standIn({ redriveAll: async () => counts, test: () => Promise.reject(fault) }),
      ENTRIES,
      (defect) => void defects.push(defect),
    );
    await expect(console.redriveAll({}, BY)).resolves.toBe(counts);
    await expect(console.test("service:1", BY)).rejects.toBe(fault);
    expect(defects).toEqual([]);
  });

  it("lists the newest first", async () => {
    const pages: unknown[] = [];
    const console = createDeliveryConsole(
      standIn({
        async page(page) {
          pages.push(page);
          return { deliveries: [] };
        },
      }),
      ENTRIES,
      () => undefined,
    );
    await console.page({ state: "parked", limit: 5 });
    expect(pages).toEqual([{ state: "parked", limit: 5, first: "newest" }]);
  });

  it("names what is in the directory", async () => {
    const console = createDeliveryConsole(standIn({}), ENTRIES, () => undefined);
    await expect(console.names(["service:1", "service:2", "portal:1"])).resolves.toEqual(
      new Map([["service:1", "News"]]),
    );
  });
});
