/** The one file that reads the environment, for entry points; the library itself never does. */
import { ConfigurationError } from "../lib/errors.ts";

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** A level of pino. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What entry points take from the environment. A variable that is not set, or empty, has no value. */
export interface Environment {
  /** `PORT`: 0 to 65535; 0 is any free port. Wins over the port of a configuration file. */
  readonly port?: number;
  /** `HOST`: the address to listen on. Default: all addresses. */
  readonly host?: string;
  /** `LOG_LEVEL`: a level of pino. Default `info`. */
  readonly logLevel: LogLevel;
  /** `NODE_ENV` is `production`: views are kept in memory and not read again. */
  readonly production: boolean;
  /** npm runs this process as one of its scripts (it sets `npm_lifecycle_event`). */
  readonly byNpm?: true;
}

/** One variable whose name an operator gives, as for an address with a password; `undefined` when not set, or empty. */
export function readVariable(
  name: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  return env[name] || undefined;
}

/**
 * Reads and checks the environment.
 *
 * @throws ConfigurationError with one line for each problem, as `environment.<NAME>: <problem>`.
 */
export function readEnvironment(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Environment {
  const problems: string[] = [];
  const port = env["PORT"] || undefined;
  if (port !== undefined && (!/^\d{1,5}$/u.test(port) || Number(port) > 65_535)) {
    problems.push("environment.PORT: must be a whole number from 0 to 65535");
  }
  const host = env["HOST"] || undefined;
  if (host !== undefined && !/^[A-Za-z0-9.:_-]{1,253}$/u.test(host)) {
    problems.push("environment.HOST: must be an IP address or a host name, without a port");
  }
  const level = env["LOG_LEVEL"] || "info";
  const logLevel = LOG_LEVELS.find((known) => known === level.toLowerCase());
  if (logLevel === undefined) problems.push(`environment.LOG_LEVEL: must be one of ${LOG_LEVELS.join(", ")}`);
  if (problems.length > 0) throw new ConfigurationError(problems);
  return Object.freeze({
    ...(port !== undefined && { port: Number(port) }),
    ...(host !== undefined && { host }),
    logLevel: logLevel ?? "info",
    production: env["NODE_ENV"] === "production",
    ...(env["npm_lifecycle_event"] !== undefined && { byNpm: true as const }),
  });
}
