import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { configurationPage, withTable } from "../../build/configuration.ts";
import { pages } from "../../build/docs.ts";
import { defaults } from "../../config/defaults.ts";
import { configurationTable } from "../../config/document.ts";
import { readEnvironment } from "../../config/environment.ts";

const document = readFileSync(join(import.meta.dirname, "..", "..", configurationPage.file), "utf8");

/** The rows of the table: key → type, default, meaning. */
function rows(): ReadonlyMap<string, readonly string[]> {
  const lines = configurationTable().split("\n").slice(2);
  return new Map(
    lines.map((line) => {
      const [, key = "", ...cells] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
      return [key.replaceAll("`", ""), cells.slice(0, -1)];
    }),
  );
}

function leaves(value: unknown, path: string): string[] {
  const isSection =
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
  if (!isSection) return [path];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, path === "" ? key : `${path}.${key}`));
}

describe("docs/configuration.md", () => {
  it("says what the schema says (npm run docs brings it up to date)", () => {
    expect(pages).toContain(configurationPage);
    expect(configurationPage.generate()).toBe(document);
  });

  it("would be rewritten when a default or a hand in its table changed it", () => {
    const changed = document.replace("| `36000` |", "| `3600` |");
    expect(changed).not.toBe(document);
    expect(withTable(changed, configurationTable())).toBe(document);
    expect(() => withTable("no markers", "")).toThrow("once each and in this order");
    expect(() => withTable(document + document, "")).toThrow("once each and in this order");
  });

  it("has a row with type, default and meaning for every key, by its full path", () => {
    const table = rows();
    const withDefaults = leaves(defaults, "").filter((path) => path !== "interactions.theme");
    expect(withDefaults.filter((path) => !table.has(path))).toEqual([]);
    const others =
      "deployments.oauth2.url artifacts keys.secrets mail mail.from cookies.domain stripPrefix logger clock mailer fetch";
    expect(others.split(" ").filter((path) => !table.has(path))).toEqual([]);
    const holes = [...table].filter(
      ([, cells]) => cells.length !== 3 || cells.some((cell) => cell === "" || cell === "none: "),
    );
    expect(holes).toEqual([]);
    expect(table.get("lifetimes.accessToken")?.[1]).toBe("`36000`");
    expect(table.get("interactions.theme.accent")?.[1]).toBe("built in");
  });
});

describe("the environment of entry points", () => {
  it("is read with defaults, and empty counts as not set", () => {
    const nothing = { logLevel: "info", production: false };
    expect(readEnvironment({})).toEqual(nothing);
    expect(readEnvironment({ PORT: "", HOST: "", LOG_LEVEL: "", NODE_ENV: "" })).toEqual(nothing);
    expect(
      readEnvironment({ PORT: "8080", HOST: "::1", LOG_LEVEL: "DEBUG", NODE_ENV: "production", OTHER: "x" }),
    ).toEqual({ port: 8080, host: "::1", logLevel: "debug", production: true });
    expect(readEnvironment({ npm_lifecycle_event: "start" })).toEqual({ ...nothing, byNpm: true });
    expect(Object.isFrozen(readEnvironment({}))).toBe(true);
    expect(readEnvironment()).toEqual(readEnvironment(process.env));
  });

  it("is refused with all problems at once and without its values", () => {
    expect(() => readEnvironment({ PORT: "80a", HOST: "a b", LOG_LEVEL: "loud" })).toThrow(
      expect.objectContaining({
        code: "configuration",
        problems: [
          "environment.PORT: must be a whole number from 0 to 65535",
          "environment.HOST: must be an IP address or a host name, without a port",
          "environment.LOG_LEVEL: must be one of fatal, error, warn, info, debug, trace, silent",
        ],
      }),
    );
    for (const PORT of ["65536", "-1", "1.5", "1e3", " 80", "0x50"]) {
      expect(() => readEnvironment({ PORT })).toThrow("environment.PORT");
    }
  });
});
