/** The log: JSON lines on standard output, unless the host passes its own pino. */
import { pino, type Logger } from "pino";

/** Members that are removed from every log line. */
const SECRET = [
  "password",
  "client_secret",
  "access_token",
  "refresh_token",
  "id_token",
  "code",
  "authorization",
  "cookie",
];

/** @param level a pino level; default `info`. */
export function createLogger(level = "info"): Logger {
  return pino({
    name: "sign-in-service",
    level,
    redact: { paths: SECRET.flatMap((name) => [name, `*.${name}`]), remove: true },
  });
}

/**
 * What is safe to log about an unexpected error: its name, its code and where it was thrown. The message may contain
 * data of the request.
 */
export function describeDefect(error: unknown): Readonly<Record<string, unknown>> {
  if (!Error.isError(error)) return { kind: typeof error };
  const { name, code, stack } = error as Error & { code?: unknown };
  const frames = (stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return {
    kind: name,
    code: typeof code === "string" ? code : undefined,
    at: frames.slice(0, 6).map((line) => line.trim()),
  };
}
