/** Keeps track of what a process of the bundled server has opened, and closes it. */
import type { RequestListener } from "node:http";
import type Koa from "koa";
import type { Logger } from "pino";
import { createLogger, LogDestination } from "../../core/logger.ts";
import type { Certificate, Listener, PortWords } from "./listener.ts";
import { within } from "../../core/with-timeout.ts";

/** How long running requests may take when the process stops. */
export const DRAIN_MS = 30_000;

/** A process that is still closing after this time exits. */
const EXIT_TIMEOUT_MS = 35_000;

/** A service or a worker. */
export interface Closable {
  close(): Promise<void>;
}

interface ListenOptions {
  /** How long running requests may take when the process stops. Default 30 seconds. */
  readonly drainMs?: number;
  /** How to change the port, for error messages. */
  readonly words?: PortWords;
  /** Speaks TLS. Default: plain HTTP. */
  readonly certificate?: Certificate | undefined;
}

/** How long lines of the log may take to be written when the process stops. */
const LOG_FLUSH_MS = 1_000;

const STANDARD_OUTPUT = 1;

export class Opened {
  readonly #log = new LogDestination(STANDARD_OUTPUT);
  #logger: Logger | undefined;
  readonly #listeners: { readonly listener: Listener; readonly drainMs: number }[] = [];
  readonly #services: Closable[] = [];
  #isClosed = false;

  /** Opens the log of the process, which also gets the warnings of Node.js: nothing else is written to its output. */
  openLog(name: string, level: string): Logger {
    const logger = createLogger({ name, level, destination: this.#log });
    process.removeAllListeners("warning");
    process.on("warning", ({ name: kind, message }) => logger.warn({ kind }, message));
    this.#logger = logger;
    return logger;
  }

  /** Says what somebody waits for: a person at a terminal, or a program that reads the log, whatever its level. */
  say(text: string): void {
    if (process.stdout.isTTY) process.stdout.write(`${text}\n`);
    else this.#logger?.child({}, { level: "info" }).info(text);
  }

  /** @throws CommandFailure if the port isn't available. */
  async listen(
    port: number,
    host: string | undefined,
    { drainMs = DRAIN_MS, words, certificate }: ListenOptions = {},
  ): Promise<Listener> {
    // Loaded only if needed, because the HTTP server takes memory: most workers have no port.
    const { listen } = await import("./listener.ts");
    const listener = await listen(port, host, words, certificate);
    this.#listeners.push({ listener, drainMs });
    return listener;
  }

  /** Closes the service after the listeners. */
  add<T extends Closable>(service: T): T {
    // The process was stopped while it started.
    if (this.#isClosed) void service.close();
    else this.#services.push(service);
    return service;
  }

  /** Finishes running requests and closes everything. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#listeners.map(({ listener, drainMs }) => listener.stop(drainMs)));
    await Promise.all(this.#services.map((service) => service.close()));
    await this.#log.flush(LOG_FLUSH_MS);
  }
}

/**
 * Runs what `start` opens until the process is stopped, and closes it.
 * @returns whether everything was closed in time.
 * @throws what `start` throws, after closing what it has opened.
 */
export async function untilStopped(
  signal: AbortSignal,
  start: (opened: Opened) => Promise<void>,
): Promise<boolean> {
  const opened = new Opened();
  const stopped = Promise.withResolvers<void>();
  if (signal.aborted) stopped.resolve();
  else signal.addEventListener("abort", () => stopped.resolve(), { once: true });
  const starting = start(opened);
  try {
    await Promise.race([starting, stopped.promise]);
  } catch (error) {
    await opened.close();
    throw error;
  }
  // If the process is stopped while it starts, a failure of the start does not matter.
  starting.catch(() => undefined);
  await stopped.promise;
  return within(
    EXIT_TIMEOUT_MS,
    opened.close().then(() => true),
    () => false,
  );
}

/** Koa handles its own errors, so the promise of the handler can be ignored. */
export function listenerOf(app: Koa): RequestListener {
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}
