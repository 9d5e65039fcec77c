/** What an operator sees of each fault, and how the runbook leads from the alert to the cause. */
import { afterAll, beforeAll, describe, expect, it, jest } from "@jest/globals";
import { COMMANDS } from "../../../cli/commands.ts";
import { textOf } from "../../examples/documents.ts";
import { Prometheus, severities } from "./alerts.ts";
import { FAULTS, openLanes } from "./faults.ts";
import { type Course, measure, type Seen } from "./measure.ts";
import { documentedTable, tableOf, withoutSeconds, writeTable } from "./table.ts";
import { formsOf } from "./visitors.ts";

jest.setTimeout(600_000);

/** What a busy machine adds: requests and mail that are slow, or have waited too long. They lead to no wrong cause. */
const OF_A_BUSY_MACHINE = new Set(
  ["Slow", "StorageSlow", "Busy", "PoolFull", "HashingRefused", "Faults", "StorageFailing", "MailLate"].map(
    (name) => `SignIn${name}`,
  ),
);
/** Seconds after which somebody is woken up at last, unless the fault itself takes longer. */
const PAGED_WITHIN = 120;

let courses: readonly Course[] = [];
const all = new Map<string, Seen>();
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  const prometheus = await Prometheus.open();
  opened.push(prometheus);
  const deployments = await openLanes();
  opened.push(deployments);
  courses = await Promise.all(deployments.lanes.map((lane) => measure(lane, prometheus)));
  for (const seen of courses.flatMap((course) => course.seen)) all.set(seen.fault.name, seen);
  if (process.env["WRITE_FAULTS"] === "yes") writeTable(tableOf([...all.values()]));
});
afterAll(async () => {
  for (const each of opened) await each.close();
});

/** The section of an alert. */
const section = (alert: string): string =>
  textOf("docs/operate/runbooks/alerts.md")
    .split(/^## /mu)
    .find((text) => text.startsWith(`${alert}\n`)) ?? "";

describe.each(FAULTS)("%s:", (name) => {
  it("health, log and metrics say so, and everything works again by itself [D-HEALTH-1, D-HEALTH-4, D-HEALTH-5, D-HEALTH-6, D-CLOCK-1, D-CLOCK-2, D-LOG-2]", () => {
    expect(all.get(name)?.missing).toEqual([]);
  });

  it("its alerts fire, and none that leads elsewhere; people are woken up within two minutes [D-METRICS-1]", () => {
    const { fault, alerts } = all.get(name)!;
    const own = new Set(fault.alerts);
    const fired = [...alerts.keys()].filter((alert) => own.has(alert) || !OF_A_BUSY_MACHINE.has(alert));
    expect(fired.toSorted()).toEqual([...own].toSorted());
    const { within = PAGED_WITHIN } = fault;
    // How fast the others follow depends on how many requests there are.
    expect(alerts.get(fault.alerts[0]!)).toBeLessThanOrEqual(within);
  });

  it("the runbook leads to the cause", () => {
    const { fault, runbook } = all.get(name)!;
    for (const [index, [command, cause]] of fault.runbook.entries()) {
      expect(section(fault.alerts[0]!)).toContain(`sign-in-service ${command}`);
      expect(runbook[index]?.output).toMatch(cause);
    }
  });
});

describe("over all faults", () => {
  it("each of them happened", () => {
    expect([...all.keys()]).toEqual(FAULTS);
  });

  it("nothing is lost that was acknowledged, and SIGTERM ends every process [D-LOG-5]", () => {
    for (const { fault, refused } of all.values())
      expect([fault.name, refused > 0]).toEqual([fault.name, fault.losesSessions === true]);
    for (const { visitors, codes } of courses) {
      expect(visitors.signIns).toBeGreaterThan(10);
      expect(new Set(codes)).toEqual(new Set([0]));
    }
  });

  it("a text is found in a log in each form, wherever it stands", () => {
    for (const before of ["", "a", "ab"])
      for (const encoding of ["utf8", "base64", "base64url"] as const) {
        const log = Buffer.from(`${before}zoë@post.example>?>?"}`).toString(encoding);
        expect(formsOf("zoë@post.example>?>?").some((form) => log.includes(form))).toBe(true);
      }
    expect(formsOf("zoë@post.example")).toContain("zo%C3%AB%40post.example");
  });

  it("no line of a log holds personal data, a secret, a code or a token [D-LOG-3]", () => {
    for (const { log, visitors } of courses) {
      expect(log.length).toBeGreaterThan(10_000);
      expect(visitors.secrets.size).toBeGreaterThan(50);
      const found = [...visitors.secrets].flatMap((secret) =>
        formsOf(secret).filter((form) => log.includes(form)),
      );
      expect(found).toEqual([]);
    }
  });

  it("the documented table is what was measured, except for the times", () => {
    expect(withoutSeconds(documentedTable())).toBe(withoutSeconds(tableOf([...all.values()])));
  });
});

describe("the runbook", () => {
  it("names commands and options that exist", () => {
    const named = [...textOf("docs/operate/runbooks/alerts.md").matchAll(/`sign-in-service ([^`]+)`/gu)];
    const problems = named.flatMap(([, text = ""]) => {
      const command = COMMANDS.commands.find(({ words }) => `${text} `.startsWith(`${words.join(" ")} `));
      if (command === undefined) return [text];
      const options = new Set((command.options ?? []).map(({ form }) => form.split(/[ ,]/u, 1)[0]));
      return [...text.matchAll(/--[\w-]+/gu)].flatMap(([option]) =>
        options.has(option) ? [] : [`${text}: ${option}`],
      );
    });
    expect(named.length).toBeGreaterThan(8);
    expect(problems).toEqual([]);
  });

  it("has a severity for each alert of the campaign", () => {
    const known = severities();
    for (const { fault } of all.values())
      for (const alert of fault.alerts) expect(known.get(alert)).toMatch(/^(?:page|ticket)$/u);
  });
});
