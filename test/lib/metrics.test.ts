/** What Prometheus reads. */
import { expect, it } from "@jest/globals";
import { createEvents } from "../../lib/events.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { createMetrics } from "../../lib/metrics.ts";
import { tableAfter } from "../examples/documents.ts";

it("can be read without the storage, then without its values", async () => {
  const events = createEvents((error) => {
    throw error;
  });
  let isAway = false;
  const metrics = createMetrics(events, async () => {
    if (isAway) throw new StorageUnavailable("planted");
    return [{ receiver: "service:1", waiting: 2, parked: 3 }];
  });
  events.emit("fault", { where: "token", code: "storage_unavailable" });
  const backlog = /^sign_in_deliveries\{receiver="service:1",state="waiting"\} 2$/m;
  await expect(metrics.text()).resolves.toMatch(backlog);
  isAway = true;
  const text = await metrics.text();
  expect(text).toContain('sign_in_faults_total{where="token"} 1');
  // An old value would look current.
  expect(text).not.toMatch(/^sign_in_deliveries\{/m);
  isAway = false;
  await expect(metrics.text()).resolves.toMatch(backlog);
});

it("count parked deliveries, also of a removed receiver", async () => {
  const events = createEvents((error) => {
    throw error;
  });
  const metrics = createMetrics(events, () => Promise.resolve([]));
  const about = { id: "msg_1", receiver: "service:1", sub: "s", type: "PROFILE_CHANGED", attempts: 0 };
  events.emit("delivery.parked", { ...about, reason: "receiver_removed" });
  events.emit("receiver.removed", { receiver: "service:1", parked: 41 });
  await expect(metrics.text()).resolves.toContain(
    'sign_in_deliveries_parked_total{receiver="service:1",reason="receiver_removed"} 42',
  );
});

it("use the documented names for deliveries", async () => {
  const metrics = createMetrics(
    createEvents(() => undefined),
    () => Promise.resolve([]),
  );
  const names = [...(await metrics.text()).matchAll(/^# HELP (sign_in_deliver\S*)/gm)].map(
    ([, name]) => name,
  );
  const documented = tableAfter("docs/operating-notifications.md", "Or watch the metrics:").map(
    ([name]) => name,
  );
  expect(new Set(documented)).toEqual(new Set(names));
});
