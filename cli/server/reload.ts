/** SIGHUP: a process reads its configuration again, without losing a request. */
import type { Logger } from "pino";
import { readConfiguration } from "../../config/read.ts";
import { isInMemory } from "../../config/storage-address.ts";
import { countReload } from "../../core/metrics.ts";
import type { SignInServiceConfig } from "../../lib/index.ts";
import { sentenceOf } from "../program/command-failure.ts";
import type { ConfigFile } from "./config-file.ts";
import type { Closable } from "./opened.ts";

/** Where a process listens. */
export interface Place {
  readonly port: number | undefined;
  /** `undefined`: on all addresses. */
  readonly host: string | undefined;
}

interface ReloadOptions<T extends Closable> {
  /** What runs now, and the configuration that it was opened with. */
  readonly running: T;
  readonly file: ConfigFile;
  readonly logger: Logger;
  /** Reads and checks the configuration. */
  readonly read: () => Promise<ConfigFile>;
  /** Opens the successor. */
  readonly open: (file: ConfigFile) => Promise<T>;
  /** Sends new requests to the successor. */
  readonly use: (running: T) => void;
  /** Where the process listens with this configuration. `undefined`: nowhere. */
  readonly placeOf?: (file: ConfigFile) => Place;
}

/** What runs in a process, and what it replaced that is still finishing its work. */
export class Reloadable<T extends Closable> implements Closable {
  readonly #options: ReloadOptions<T>;
  readonly #retiring = new Set<Promise<void>>();
  #running: T;
  #file: ConfigFile;
  #reloading: Promise<void> | undefined;
  #isAskedAgain = false;
  #isClosing = false;

  constructor(options: ReloadOptions<T>) {
    this.#options = options;
    this.#running = options.running;
    this.#file = options.file;
  }

  /** Reloads the configuration. Calls during a reload cause one more, because the file may have changed again. */
  reload(): void {
    if (this.#isClosing) return;
    if (this.#reloading !== undefined) {
      this.#isAskedAgain = true;
      return;
    }
    this.#reloading = this.#reload().finally(() => {
      this.#reloading = undefined;
      if (!this.#isAskedAgain) return;
      this.#isAskedAgain = false;
      this.reload();
    });
  }

  async close(): Promise<void> {
    // A successor that is being opened closes itself: its storage may take long to answer.
    this.#isClosing = true;
    await Promise.all([this.#running.close(), ...this.#retiring]);
  }

  /** Never rejects: after a failure, everything stays as it is. */
  async #reload(): Promise<void> {
    const { logger, read, open, use, placeOf } = this.#options;
    try {
      const { file, restart } = withoutRestart(this.#file, await read(), placeOf);
      if (isInMemory(readConfiguration(file.config).storage)) {
        await countReload("refused");
        logger.error(
          "the configuration is not reloaded: the storage is in memory, and its data would be lost",
        );
        return;
      }
      const successor = await open(file);
      if (this.#isClosing) return await successor.close();
      const replaced = this.#running;
      [this.#running, this.#file] = [successor, file];
      use(successor);
      await countReload("reloaded");
      logger.info("the configuration is reloaded");
      if (restart.length > 0) {
        logger.warn(`restart the process to change ${restart.join(", ")}: it goes on with the old value`);
      }
      this.#retire(replaced);
    } catch (error) {
      const problem = sentenceOf(error).replaceAll("\n", "; ");
      await countReload("refused");
      logger.error(`the configuration is not reloaded: ${problem}`);
    }
  }

  #retire(replaced: T): void {
    const { logger } = this.#options;
    const retiring = replaced
      .close()
      .then(() => logger.info("the service before the reload has finished"))
      .catch((error: unknown) => logger.error(`closing the service before the reload: ${sentenceOf(error)}`))
      .finally(() => this.#retiring.delete(retiring));
    this.#retiring.add(retiring);
  }
}

/** The signal to reload. Before the process is ready, it is remembered: without a listener, it would end the process. */
interface ReloadSignal {
  use(reload: () => void): void;
  end(): void;
}

export function onReloadSignal(): ReloadSignal {
  let reload: (() => void) | undefined;
  let isWaiting = false;
  function receive(): void {
    if (reload === undefined) isWaiting = true;
    else reload();
  }
  process.on("SIGHUP", receive);
  return {
    use(action) {
      reload = action;
      if (isWaiting) action();
    },
    end: () => void process.off("SIGHUP", receive),
  };
}

const STORES = ["storage", "artifacts", "queue"] as const;
const PLACE = ["port", "host"] as const;

/** The new configuration with the old values of keys that a running process can't change, and the names of these keys. */
function withoutRestart(
  old: ConfigFile,
  read: ConfigFile,
  placeOf: (file: ConfigFile) => Place = () => ({ port: undefined, host: undefined }),
): { readonly file: ConfigFile; readonly restart: readonly string[] } {
  const [before, after] = [readConfiguration(old.config), readConfiguration(read.config)];
  const [place, wanted] = [placeOf(old), placeOf(read)];
  const restart = [
    ...PLACE.filter((key) => place[key] !== wanted[key]),
    ...STORES.filter((key) => before[key] !== after[key])
      // Without a value, artifacts are in the storage.
      .filter((key) => key !== "artifacts" || old.config.artifacts !== read.config.artifacts),
    ...PLACE.filter((key) => before.metrics?.[key] !== after.metrics?.[key])
      // Without a port, the host has no meaning.
      .filter((key) => key !== "host" || (before.metrics?.port ?? after.metrics?.port) !== undefined)
      .map((key) => `metrics.${key}`),
  ];
  const { storage: _storage, artifacts: _artifacts, queue: _queue, metrics = {}, ...rest } = read.config;
  const { port: _port, host: _host, ...others } = metrics;
  const config: SignInServiceConfig = {
    ...rest,
    ...pick(old.config, STORES),
    metrics: { ...others, ...pick(old.config.metrics ?? {}, PLACE) },
  };
  return { file: { ...read, ...place, config }, restart };
}

/** Picks the members that the object has. */
function pick<T extends object, K extends keyof T>(object: T, keys: readonly K[]): Pick<T, K> {
  return Object.fromEntries(
    keys.filter((key) => object[key] !== undefined).map((key) => [key, object[key]]),
  ) as Pick<T, K>;
}
