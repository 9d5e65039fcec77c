/** The alert rules for Prometheus and the dashboard for Grafana, against what the service really says. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { METRICS } from "../../core/metric-catalog.ts";
import { createTestSignIn } from "../../testing/index.ts";
import { ROOT, textOf } from "../examples/documents.ts";
import { programFor } from "../machine.mjs";
import { type AlertCase, CASES, HEALTHY } from "./alert-cases.ts";
import { newFolder, closing } from "../closing.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook: string };
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const RULES_FILE = join(ROOT, "deploy/prometheus/alerts.yml");
const rules = (
  parse(readFileSync(RULES_FILE, "utf8")) as { groups: readonly { rules: readonly Rule[] }[] }
).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(textOf("deploy/grafana/sign-in-service.json")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
};

/** Where an expression stands, and the expression as Prometheus gets it. */
const expressions: readonly (readonly [where: string, expression: string])[] = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(
      ({ expr }) =>
        [title, expr.replaceAll("$__rate_interval", "5m").replaceAll("$job", "sign-in-service")] as const,
    ),
  ),
];

const LABELS_OF_PROMETHEUS = ["job", "instance", "le"];

/** The names of the series of a service, and the labels of each. */
const labels = new Map<string, Readonly<Record<string, readonly string[] | string>>>([["up", {}]]);

/** What a service says after a sign-in, and a notification that failed. */
let exposition = "";

beforeAll(async () => {
  const signIn = await createTestSignIn();
  try {
    await signIn.service.metrics();
    const receiver = await signIn.addReceiver();
    const ada = await signIn.signInAs("ada", await signIn.addClient());
    receiver.fail();
    await signIn.service.accounts.delete(ada.account.sub);
    await signIn.deliver();
    exposition = await signIn.service.metrics();
    for (const [, name = "", type = ""] of exposition.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
      const declared = METRICS.find((metric) => `sign_in_${metric.name}` === name)?.labels ?? {};
      const series = type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => name + end) : [name];
      for (const each of series) labels.set(each, declared);
    }
  } finally {
    await signIn.close();
  }
});

/** What in an expression is no series of the service, no label of it, or no value of that label. */
function unknownIn(expression: string): string[] {
  const found: string[] = [];
  const named = [...expression.matchAll(/\b((?:sign_in|process|nodejs)_\w+|up)\b(?:\{([^}]*)\})?/g)];
  const known = new Set(LABELS_OF_PROMETHEUS);
  for (const [, name = "", matchers = ""] of named) {
    const own = labels.get(name);
    if (own === undefined) found.push(name);
    for (const label of Object.keys(own ?? {})) known.add(label);
    for (const [, label = "", operator, text = ""] of matchers.matchAll(
      /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g,
    )) {
      if (LABELS_OF_PROMETHEUS.includes(label)) continue;
      const values = own?.[label];
      if (values === undefined) found.push(`${name}.${label}`);
      else if (typeof values !== "string")
        for (const value of operator?.endsWith("~") === true ? text.split("|") : [text])
          if (!values.includes(value)) found.push(`${name}.${label}=${value}`);
    }
  }
  for (const [, list = ""] of expression.matchAll(/\bby \(([^)]*)\)/g))
    for (const label of list.split(",")) if (!known.has(label.trim())) found.push(`by ${label.trim()}`);
  return named.length === 0 ? ["no series"] : found;
}

describe("the alert rules and the dashboard", () => {
  it.each(expressions)(
    "%s: names only series, labels and values that the service has",
    (_where, expression) => {
      expect(unknownIn(expression)).toEqual([]);
    },
  );

  it("are checked by a test that finds mistakes", () => {
    expect(
      unknownIn('sum by (planted) (rate(sign_in_sign_ins_total{result="planted", other="x"}[5m]))'),
    ).toEqual(["sign_in_sign_ins_total.result=planted", "sign_in_sign_ins_total.other", "by planted"]);
    expect(unknownIn("sign_in_planted > 0")).toEqual(["sign_in_planted"]);
    expect(unknownIn("vector(1)")).toEqual(["no series"]);
  });

  it("use each metric of the service somewhere", () => {
    const all = expressions.map(([, expression]) => expression).join("\n");
    expect(METRICS.map(({ name }) => `sign_in_${name}`).filter((name) => !all.includes(name))).toEqual([]);
  });
});

describe("the alert rules", () => {
  it("find every counter that they read from the first scrape on, with 0 [D-METRICS-1]", async () => {
    const signIn = closing(await createTestSignIn());
    const lines = (await signIn.service.metrics()).split("\n");
    const read = rules.flatMap(({ expr }) => [
      ...expr.matchAll(/\b(sign_in_\w+_(?:total|count))(?:\{([^}]*)\})?/g),
    ]);
    const absent = read.filter(([, name = "", matchers = ""]) => {
      const wanted = [...matchers.matchAll(/(\w+)="([^"]*)"/g)].map(([text]) => text);
      const isThere = lines.some(
        (line) => line.startsWith(name) && wanted.every((each) => line.includes(each)),
      );
      // Receivers have series of their own once they are configured.
      return !isThere && !name.includes("_delivery_");
    });
    expect(absent.map(([text]) => text)).toEqual([]);
    expect(lines).toContain('sign_in_limit_refusals_total{limit="interactions"} 0');
    expect(lines).toContain('sign_in_faults_total{where="token"} 0');
  });

  it("each have a severity, a summary, and a section of docs/operate/runbooks/alerts.md that says what to do", () => {
    const sections = [...textOf("docs/operate/runbooks/alerts.md").matchAll(/^## (.+)$/gm)].map(
      ([, title]) => title,
    );
    expect(sections).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, labels: own, annotations } of rules) {
      expect(annotations.runbook).toBe(`docs/operate/runbooks/alerts.md#${alert.toLowerCase()}`);
      expect(annotations.summary).not.toBe("");
      expect(["page", "ticket"]).toContain(own.severity);
    }
  });
});

describe("the dashboard", () => {
  it("has panels with titles and ids of their own, and queries for the job that is chosen", () => {
    const { panels, templating } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(templating.list.map(({ name }) => name)).toEqual(["datasource", "job"]);
    for (const { type, title, targets = [] } of panels) {
      expect(title).not.toBe("");
      if (type !== "row") expect(targets.length).toBeGreaterThan(0);
      for (const { expr } of targets) expect(expr).toContain('job="$job"');
    }
  });
});

/** How many alerts fire after so many minutes. */
function firing(minute: number, count: number, alert?: string): object {
  return {
    expr: `count(ALERTS{alertstate="firing"${alert === undefined ? "" : `,alertname="${alert}"`}}) or vector(0)`,
    eval_time: `${minute}m`,
    exp_samples: [{ labels: "{}", value: count }],
  };
}

function inputOf(series: AlertCase["series"]): object[] {
  return Object.entries({ ...HEALTHY, ...series }).flatMap(([name, values]) =>
    values === undefined ? [] : [{ series: name, values }],
  );
}

describe("what promtool says", () => {
  const promtool = programFor("promtool");
  const folder = newFolder();

  const check = (args: readonly string[]): string =>
    execFileSync(promtool, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

  /** Runs unit tests of the rules. YAML includes JSON. */
  function runTests(tests: readonly object[]): string {
    const file = join(folder, "tests.json");
    writeFileSync(file, JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: "1m", tests }));
    return check(["test", "rules", file]);
  }

  it("finds nothing wrong with the metrics of the service", () => {
    const { stdout, stderr } = spawnSync(promtool, ["check", "metrics"], {
      input: exposition,
      encoding: "utf8",
    });
    expect(exposition).toContain(
      'sign_in_delivery_attempts_total{receiver="service:1",result="failure"} 1\n',
    );
    // prom-client gives names to those of the process that promtool would not.
    const ours = `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("nodejs_"));
    expect(ours).toEqual([]);
  });

  it("finds the rules valid", () => {
    expect(check(["check", "rules", RULES_FILE])).toContain(`SUCCESS: ${rules.length} rules found`);
  });

  it("finds the queries of the dashboard valid", () => {
    const file = join(folder, "queries.json");
    const queries = expressions.map(([, expr], index) => ({ record: `query:${index}`, expr }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboard", rules: queries }] }));
    expect(check(["check", "rules", file])).toContain(`SUCCESS: ${queries.length} rules found`);
  });

  it("finds the rules quiet while all is well, and each firing alone for what it is about", () => {
    expect(CASES.map(({ alert }) => alert)).toEqual(rules.map(({ alert }) => alert));
    const tests = CASES.map(({ alert, series, fires, quiet, count = 1 }) => ({
      interval: "1m",
      input_series: inputOf(series),
      promql_expr_test: [
        firing(fires, count, alert),
        firing(fires, count),
        ...(quiet === undefined ? [] : [firing(quiet, 0)]),
      ],
    }));
    const healthy = { interval: "1m", input_series: inputOf({}), promql_expr_test: [firing(100, 0)] };
    expect(runTests([healthy, ...tests])).toContain("SUCCESS");
  });
});
