/** What Prometheus reads. */
import { expect, it } from "@jest/globals";
import { createEvents } from "../../lib/events.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { type BacklogSources, createMetrics } from "../../lib/metrics.ts";
import { tableAfter } from "../examples/documents.ts";

const NOTHING: BacklogSources = {
  deliveries: () => Promise.resolve([]),
  mail: () => Promise.resolve({ count: 0, oldest: undefined }),
};

it("can be read without the storage, then without its values", async () => {
  const events = createEvents((error) => {
    throw error;
  });
  let isAway = false;
  const metrics = createMetrics(events, {
    async deliveries() {
      if (isAway) throw new StorageUnavailable("planted");
      return [{ receiver: "service:1", waiting: 2, parked: 3 }];
    },
    async mail() {
      if (isAway) throw new StorageUnavailable("planted");
      return { count: 4, oldest: 1_800_000_000_000 };
    },
  });
  events.emit("fault", { where: "token", code: "storage_unavailable" });
  const backlog = /^sign_in_deliveries\{receiver="service:1",state="waiting"\} 2$/m;
  const outbox = /^sign_in_mail_outbox 4$\n[^]*^sign_in_mail_oldest_timestamp_seconds 1800000000$/m;
  await expect(metrics.text()).resolves.toMatch(backlog);
  await expect(metrics.text()).resolves.toMatch(outbox);
  isAway = true;
  const text = await metrics.text();
  expect(text).toContain('sign_in_faults_total{where="token"} 1');
  // An old value would look current.
  expect(text).not.toMatch(/^sign_in_deliveries\{/m);
  expect(text).not.toMatch(/^sign_in_mail_o/m);
  isAway = false;
  await expect(metrics.text()).resolves.toMatch(backlog);
});

it("count parked deliveries, also of a removed receiver", async () => {
  const events = createEvents((error) => {
    throw error;
  });
  const metrics = createMetrics(events, NOTHING);
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
    NOTHING,
  );
  const names = [...(await metrics.text()).matchAll(/^# HELP (sign_in_deliver\S*)/gm)].map(
    ([, name]) => name,
  );
  const documented = tableAfter("docs/operating-notifications.md", "never personal data. Metrics:").map(
    ([name]) => name,
  );
  expect(new Set(documented)).toEqual(new Set(names));
});

it("count mail by kind and result, and say nothing of the oldest when none waits", async () => {
  const events = createEvents(() => undefined);
  const metrics = createMetrics(events, NOTHING);
  const kind = "password-changed";
  events.emit("mail.failed", { kind, reason: "delayed", retryAt: 1 });
  events.emit("mail.failed", { kind, reason: "refused", retryAt: null });
  events.emit("mail.sent", { kind });
  const text = await metrics.text();
  for (const result of ["retried", "failed", "sent"])
    expect(text).toContain(`sign_in_mails_total{kind="password-changed",result="${result}"} 1`);
  expect(text).toContain("sign_in_mail_outbox 0");
  expect(text).not.toMatch(/^sign_in_mail_oldest/m);
});
