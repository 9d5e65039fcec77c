/** The log: JSON lines on standard output, unless the host passes its own pino. */
import { constants, createWriteStream, fstatSync, openSync } from "node:fs";
import { Socket } from "node:net";
import type { Writable } from "node:stream";
import { pino, type Logger } from "pino";
import { StorageUnavailable } from "./errors.ts";

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

/** Bytes that wait to be written, at most. Then lines are dropped. */
const MAX_WAITING_BYTES = 1_048_576;

const STANDARD_OUTPUT = 1;

/**
 * Where lines go. A full disk, or a reader that has stopped, loses lines, which are counted; it never stops the process. So
 * nothing is written synchronously, as `console` and pino's own destination would.
 */
export class LogDestination {
  readonly #fd: number;
  #stream: Writable | undefined;
  #dropped = 0;
  /** Whether a part of a line may have been written, when the disk became full: the next line begins a new one. */
  #isTorn = false;

  /** @param fd a file descriptor. */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** How many lines were lost. */
  get dropped(): number {
    return this.#dropped;
  }

  write(line: string): void {
    try {
      this.#stream ??= this.#open();
      if (this.#stream.writableLength < MAX_WAITING_BYTES) {
        this.#stream.write(this.#isTorn ? `\n${line}` : line, (error) => this.#count(error));
        this.#isTorn = false;
      } else this.#dropped += 1;
    } catch {
      this.#dropped += 1;
    }
  }

  /** Resolves when everything is written, or after `timeoutMs`. */
  async flush(timeoutMs: number): Promise<void> {
    const stream = this.#stream;
    if (stream === undefined || stream.writableLength === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    stream.write("", () => resolve());
    await promise;
    clearTimeout(timer);
  }

  #count(error: Error | null | undefined): void {
    if (!error) return;
    this.#dropped += 1;
    this.#isTorn = true;
  }

  #open(): Writable {
    const stream = openStream(this.#fd);
    // A stream ends with its first error. The next line tries again.
    stream.once("error", () => (this.#stream = undefined));
    return stream;
  }
}

function openStream(fd: number): Writable {
  const stat = fstatSync(fd);
  if (stat.isFIFO()) {
    // Opened again, because others who have this pipe expect it to block.
    const own = openSync(`/dev/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    return new Socket({ fd: own, readable: false, writable: true }).unref();
  }
  if (stat.isSocket()) return new Socket({ fd, readable: false, writable: true }).unref();
  return createWriteStream("", { fd, autoClose: false });
}

/**
 * @param options.name of the process, in every line. Default: `sign-in-service`.
 * @param options.level a pino level. Default: `info`.
 * @param options.destination default: standard output.
 */
export function createLogger({
  name = "sign-in-service",
  level = "info",
  destination = new LogDestination(STANDARD_OUTPUT),
}: {
  readonly name?: string;
  readonly level?: string;
  readonly destination?: LogDestination;
} = {}): Logger {
  const redact = { paths: SECRET.flatMap((secret) => [secret, `*.${secret}`]), remove: true };
  return pino({ name, level, redact }, destination);
}

/** How many lines a logger has lost; 0 for a logger of the host. */
export function droppedLines(logger: Logger): number {
  const destination: unknown = Reflect.get(logger, pino.symbols.streamSym);
  return destination instanceof LogDestination ? destination.dropped : 0;
}

/** Whether a server outside failed, and the error says what it said. */
function isExplained(error: Error): error is Error & Pick<StorageUnavailable, "reason" | "call"> {
  return error instanceof StorageUnavailable || ("reason" in error && "call" in error);
}

/**
 * What is safe to log about an error: of a store or a mail server that fails, what it said, and in which call; of an unexpected one, its
 * name, its code and where it was thrown, but not the message, which may contain data of the request.
 */
export function describeDefect(error: unknown): Readonly<Record<string, unknown>> {
  if (!Error.isError(error)) return { kind: typeof error };
  // What the server said leads to the cause; where the error was thrown does not.
  if (isExplained(error)) return { kind: error.name, reason: error.reason, ...error.call };
  const { name, code, stack } = error as Error & { code?: unknown };
  const frames = (stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return {
    kind: name,
    error_code: typeof code === "string" ? code : undefined,
    at: frames.slice(0, 6).map((line) => line.trim()),
  };
}
