/** What Prometheus reads. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { createEvents, type ServiceEmitter } from "../../core/events.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { METRICS } from "../../core/metric-catalog.ts";
import { createMetrics, type MeasuredStorage, type Metrics, processMetrics } from "../../core/metrics.ts";
import { createTestSignIn } from "../../testing/index.ts";
import { closing } from "../closing.ts";

const SECOND = 1_000;

/** Metrics of a storage that says what the test decides. */
function open(storage: Partial<MeasuredStorage["deliveries"] & MeasuredStorage["outbox"]> = {}) {
  const events = createEvents((error) => {
    throw error;
  });
  const clock = { time: 0, now: () => clock.time };
  const {
    counts = async () => [],
    receivers = async () => new Map(),
    oldestDeletions = async () => ({ waiting: undefined, parked: undefined }),
    waiting = async () => ({ count: 0, oldest: undefined }),
  } = storage;
  const metrics = createMetrics(
    events,
    {
      deliveries: { counts, receivers, oldestDeletions },
      outbox: { waiting },
      clocks: { differences: new Map() },
      watch: { artifactsLostAt: undefined },
      pools: () => [],
      measure: () => undefined,
    },
    {
      info: {},
      droppedLines: () => 0,
      lostAudit: () => 0,
      isQueueUp: () => true,
      signingKeys: async () => [],
      tokensEnding: async () => undefined,
      known: { endpoints: [], limits: [], mails: [], providers: [], documentHosts: ["tool.example"] },
    },
    clock,
  );
  return { events, clock, metrics };
}

/** The lines of one metric, without its buckets. */
async function linesOf(metrics: Pick<Metrics, "text">, name: string): Promise<string[]> {
  const text = await metrics.text();
  return text.split("\n").filter((line) => new RegExp(`^sign_in_${name}(?:_count|_sum)?[{ ]`).test(line));
}

describe("the gauges", () => {
  it("show what is stored, and nothing while the storage is away", async () => {
    let isAway = false;
    const stored =
      <T>(value: T) =>
      async (): Promise<T> => {
        if (isAway) throw new StorageUnavailable("planted");
        return value;
      };
    const held = { paused: false, circuitOpenUntil: 5 };
    const { events, clock, metrics } = open({
      counts: stored([{ receiver: "service:1", waiting: 2, parked: 3, oldest: 1_800_000_000_000 }]),
      receivers: stored(
        new Map<string, { paused: boolean; circuitOpenUntil: number | null }>([
          ["group:a", { paused: true, circuitOpenUntil: null }],
          ["service:1", held],
          ["service:2", { paused: false, circuitOpenUntil: null }],
        ]),
      ),
      oldestDeletions: stored({ waiting: 1_800_000_001_000, parked: undefined }),
      waiting: stored({ count: 4, oldest: 1_800_000_002_000 }),
    });
    events.emit("fault", { where: "token", code: "storage_unavailable" });
    const all = {
      deliveries: ['{receiver="service:1",state="waiting"} 2', '{receiver="service:1",state="parked"} 3'],
      delivery_oldest_timestamp_seconds: ['{receiver="service:1"} 1800000000'],
      deletion_oldest_timestamp_seconds: ['{state="waiting"} 1800000001'],
      receivers_stopped: [
        '{receiver="group:a",state="paused"} 1',
        '{receiver="service:1",state="circuit_open"} 1',
      ],
      mail_outbox: [" 4"],
      mail_oldest_timestamp_seconds: [" 1800000002"],
    };
    const shown = async (): Promise<unknown> =>
      Object.fromEntries(
        await Promise.all(
          Object.keys(all).map(async (name) => [
            name,
            (await linesOf(metrics, name)).map((line) => line.slice(`sign_in_${name}`.length)),
          ]),
        ),
      );
    expect(await shown()).toEqual(all);
    isAway = true;
    clock.time += SECOND;
    // An old value would look current.
    expect(await shown()).toEqual(Object.fromEntries(Object.keys(all).map((name) => [name, []])));
    expect(await linesOf(metrics, "faults_total")).toEqual(['sign_in_faults_total{where="token"} 1']);
    isAway = false;
    clock.time += SECOND;
    expect(await shown()).toEqual(all);
  });

  it("read the storage at most once a second, however often they are read", async () => {
    let reads = 0;
    const { clock, metrics } = open({
      async counts() {
        reads += 1;
        return [];
      },
    });
    await Promise.all(Array.from({ length: 20 }, () => metrics.text()));
    clock.time += SECOND - 1;
    await metrics.text();
    expect(reads).toBe(1);
    clock.time += 1;
    await metrics.text();
    expect(reads).toBe(2);
  });

  it("wait two seconds for a storage that never answers", async () => {
    const { metrics } = open({ counts: () => new Promise(() => undefined) });
    const startedAt = performance.now();
    expect(await linesOf(metrics, "mail_outbox")).toEqual(["sign_in_mail_outbox 0"]);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
  });
});

describe("the counters", () => {
  const EVENTS: readonly [what: string, emit: (events: ServiceEmitter) => void, lines: readonly string[]][] =
    [
      [
        "parked deliveries, also of a removed receiver",
        (events) => {
          const about = {
            id: "msg_1",
            receiver: "service:1",
            sub: "s",
            type: "PROFILE_CHANGED",
            attempts: 0,
          };
          events.emit("delivery.parked", { ...about, reason: "receiver_removed" });
          events.emit("receiver.removed", { receiver: "service:1", parked: 41 });
        },
        ['deliveries_parked_total{receiver="service:1",reason="receiver_removed"} 42'],
      ],
      [
        "mail by kind and result",
        (events) => {
          const kind = "password-changed";
          events.emit("mail.failed", { kind, reason: "delayed", retry_at: 1 });
          events.emit("mail.failed", { kind, reason: "refused", retry_at: null });
          events.emit("mail.sent", { kind });
        },
        ["retried", "failed", "sent"].map(
          (result) => `mails_total{kind="password-changed",result="${result}"} 1`,
        ),
      ],
      [
        "failed back-channel logouts by reason",
        (events) => events.emit("backchannel.failed", { client_id: "news", reason: "timeout", attempts: 3 }),
        [
          'backchannel_logouts_total{result="failed",reason="timeout"} 1',
          'backchannel_logouts_total{result="failed",reason="status"} 0',
        ],
      ],
      [
        "refused token requests by error and grant, without text from outside",
        (events) => {
          events.emit("tokens.refused", { error: "invalid_grant", grant_type: "password" });
          events.emit("tokens.refused", { error: 'a"b\n', grant_type: "__proto__" });
          events.emit("tokens.refused", { error: "constructor" });
        },
        [
          'token_errors_total{error="invalid_grant",grant_type="password"} 1',
          'token_errors_total{error="other",grant_type="other"} 2',
        ],
      ],
      [
        "answers of administration by surface and status, those that refuse somebody apart",
        (events) => {
          for (const status of [200, 204, 304, 401, 403, 404, 421, 429, 503])
            events.emit("administration.answered", { surface: "rest", status });
          events.emit("administration.answered", { surface: "console", status: 303 });
        },
        [
          ...Object.entries({ "2xx": 2, "3xx": 1, "401": 1, "403": 1, "429": 1, "4xx": 2, "5xx": 1 }).map(
            ([status, number]) =>
              `administration_responses_total{surface="rest",status="${status}"} ${number}`,
          ),
          'administration_responses_total{surface="console",status="3xx"} 1',
          'administration_responses_total{surface="console",status="401"} 0',
        ],
      ],
      [
        "documents of clients that nobody registered, by the hosts that the configuration names",
        (events) => {
          for (const host of ["tool.example", "evil.example"])
            events.emit("document.fetched", { host, result: "refused" });
        },
        [
          'document_fetches_total{host="tool.example",result="refused"} 1',
          'document_fetches_total{host="other",result="refused"} 1',
          'document_fetches_total{host="tool.example",result="success"} 0',
        ],
      ],
      [
        "sign-ins from zero",
        (events) => events.emit("sign_in.failure", { reason: "limited", client_id: "news" }),
        ['sign_ins_total{result="limited"} 1', 'sign_ins_total{result="credentials"} 0'],
      ],
    ];

  it.each(EVENTS)("count %s", async (_what, emit, lines) => {
    const { events, metrics } = open();
    emit(events);
    const text = await metrics.text();
    for (const line of lines) expect(text).toContain(`\nsign_in_${line}\n`);
  });
});

describe("the metrics of the process", () => {
  it("are in the text of each service in it, once, and come from one place", async () => {
    const [one, other] = [open(), open()];
    const namesOf = async ({ metrics }: typeof one): Promise<string[]> =>
      [...(await metrics.text()).matchAll(/^# TYPE ((?:process|nodejs)_\S+)/gm)].map(([, name = ""]) => name);
    const names = await namesOf(one);
    expect(names).toEqual(
      expect.arrayContaining(["process_cpu_seconds_total", "nodejs_eventloop_lag_p99_seconds"]),
    );
    expect(new Set(names).size).toBe(names.length);
    expect(await namesOf(other)).toEqual(names);
    expect(await processMetrics()).toBe(await processMetrics());
  });
});

const days = (number: number): number => number * 24 * 60 * 60;

describe("a running service", () => {
  it("measures requests, storage and hashing, and labels nothing with text from outside", async () => {
    const signIn = closing(await createTestSignIn());
    const { accounts, directory } = signIn.service;
    await signIn.service.metrics();
    const receiver = {
      url: "https://shop.example/notifications",
      client_id: "sign-in",
      client_secret: "a secret of the shop",
      types: ["DELETE_ACCOUNT"] as const,
    };
    await directory.services.put("shop", { name: "Shop", receiver });
    const shop = await signIn.addClient({ service: "shop", password_grant: true });
    const ada = await signIn.addPerson({ services: { shop: 42 } });
    await shop.signIn(ada);
    const wrong = { grant_type: "password", username: "ada@example.org", password: "planted-password" };
    expect((await shop.token(wrong)).status).toBe(400);
    expect((await shop.token({ grant_type: "planted-grant" })).status).toBe(400);
    const before = signIn.clock.now();
    await accounts.delete(ada.account.sub);
    // What is read from the storage is shown for a second.
    let text = "";
    while (!text.includes("sign_in_deletion_oldest_timestamp_seconds{")) {
      await pause(50);
      text = await signIn.service.metrics();
    }
    const count = (line: string): number =>
      Number(
        text
          .split("\n")
          .find((each) => each.startsWith(`sign_in_${line} `))
          ?.split(" ")[1],
      );
    expect(count('request_duration_seconds_count{endpoint="token",status="2xx"}')).toBe(1);
    expect(count('request_duration_seconds_count{endpoint="token",status="4xx"}')).toBe(2);
    expect(count('hashing_duration_seconds_count{priority="interactive"}')).toBe(2);
    expect(count('hashing_wait_seconds_count{priority="interactive"}')).toBe(2);
    expect(
      count('storage_duration_seconds_count{store="storage",operation="commit",result="success"}'),
    ).toBeGreaterThan(2);
    expect(count('token_errors_total{error="invalid_grant",grant_type="password"}')).toBe(1);
    expect(count('token_errors_total{error="unsupported_grant_type",grant_type="other"}')).toBe(1);
    expect(count('deletion_oldest_timestamp_seconds{state="waiting"}')).toBe(before / 1000);
    expect(text).not.toMatch(/planted|ada@|person1/);
  });

  it("counts the administration tokens that run out within a week, and no other [D-ADM-95]", async () => {
    const { service, clock } = closing(await createTestSignIn());
    await service.tokens.create({ role: "viewer", expires: days(30) });
    await service.tokens.create({ role: "support", expires: days(6) });
    await service.tokens.create({ role: "viewer", expires: days(1) });
    const { id } = await service.tokens.create({ role: "administrator", expires: days(5) });
    await service.tokens.end(id);
    clock.advance(days(1) + 1);
    expect(await linesOf({ text: () => service.metrics() }, "administration_tokens_ending")).toEqual([
      "sign_in_administration_tokens_ending 1",
    ]);
  });

  it("has exactly the metrics of the catalog", async () => {
    const { metrics } = open();
    const names = [...(await metrics.text()).matchAll(/^# HELP sign_in_(\S+)/gm)].map(([, name]) => name);
    expect(new Set(names)).toEqual(new Set(METRICS.map(({ name }) => name)));
  });
});
