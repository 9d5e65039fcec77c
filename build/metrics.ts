/** `docs/metrics.md`: the text is written by hand, the table is generated from the declarations of the metrics. */
import { METRICS, type MetricDeclaration } from "../core/metric-catalogue.ts";
import { type Page, pageWithTables } from "./page.ts";

function labelsOf({ labels }: MetricDeclaration): string {
  return Object.entries(labels)
    .map(([label, values]) => {
      const text = typeof values === "string" ? values : values.map((value) => `\`${value}\``).join(", ");
      return `\`${label}\`: ${text}`;
    })
    .join("<br>");
}

export const metricsPage: Page = pageWithTables("docs/metrics.md", () => ({
  metrics: [
    ["Metric", "Type", "Labels", "Meaning", "Of"],
    Array.from({ length: 5 }, () => "---"),
    ...METRICS.map((metric) => [
      `\`sign_in_${metric.name}\``,
      metric.type,
      labelsOf(metric),
      metric.help,
      metric.of === "process" ? "one process" : "the service",
    ]),
  ]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n"),
}));
