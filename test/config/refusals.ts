import { readConfiguration } from "../../config/read.ts";

/** The smallest valid configuration, on loopback. */
export const SMALLEST = { deployments: { oauth2: { url: "http://127.0.0.1:3000" } } };

/** The smallest valid configuration for production. */
export const PRODUCTION = {
  deployments: { oauth2: { url: "https://login.example" } },
  interactions: { theme: { name: "Example" } },
  proxy: false,
};

/** Production requires the name of the service. */
export const NAMED = { theme: { name: "Example" } };

/** The problems of a configuration. Other errors are not caught. */
export function problemsIn(input: unknown): readonly string[] {
  try {
    readConfiguration(input);
    return [];
  } catch (error) {
    const problems: unknown = error instanceof Error ? Reflect.get(error, "problems") : undefined;
    if (!Array.isArray(problems)) throw error;
    return problems.map(String);
  }
}

/** The problems of keys added to the smallest configuration. */
export function problemsWith(keys: Record<string, unknown>): readonly string[] {
  return problemsIn({ ...SMALLEST, ...keys });
}
