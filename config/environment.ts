/** Reads environment variables, for entry points only. The library itself never reads them. */
import { ConfigurationError } from "../core/errors.ts";

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** A level of pino. */
type LogLevel = (typeof LOG_LEVELS)[number];

/** The variables that entry points use. An empty variable counts as not set. */
export interface Environment {
  /** `PORT`: 0 to 65535; 0 picks a free port. Overrides the port of the configuration file. */
  readonly port?: number;
  /** `HOST`: the address to listen on. Overrides the host of the configuration file. */
  readonly host?: string;
  /** `LOG_LEVEL`: a level of pino. Default `info`. */
  readonly logLevel: LogLevel;
  /** Whether `NODE_ENV` is `production`: views are cached. */
  readonly production: boolean;
  /** Whether npm runs this process as a script (it sets `npm_lifecycle_event`). */
  readonly byNpm?: true;
}

/** The variable that an operator names, such as one that holds an address with a password. `undefined` if it is not set or empty. */
export function readVariable(
  name: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  return env[name] || undefined;
}

/** The variables of the configuration, by name: all that begin with `SIGN_IN_`. */
export function configurationVariables(
  env: Readonly<Record<string, string | undefined>> = process.env,
): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith("SIGN_IN_") && entry[1] !== undefined,
    ),
  );
}

/**
 * Reads and checks the environment.
 *
 * @throws ConfigurationError with one line per problem: `environment.<NAME>: <problem>`.
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
