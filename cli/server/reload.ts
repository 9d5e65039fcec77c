/** SIGHUP: a process reads its configuration again, without losing a request. */
import type { Logger } from "pino";
import { isObject } from "../../core/untrusted-json.ts";
import type { Configuration } from "../../config/configuration.ts";
import { leavesOf } from "../../config/documented-schema.ts";
import { fileSchema } from "../../config/file-schema.ts";
import { readConfiguration } from "../../config/read.ts";
import { configurationSchema } from "../../config/schema.ts";
import { isInMemory } from "../../config/storage-address.ts";
import { countReload } from "../../core/metrics.ts";
import type { SignInServiceConfig } from "../../lib/index.ts";
import { sentenceOf } from "../program/command-failure.ts";
import type { ConfigFile } from "./config-file.ts";
import type { Closable } from "./opened.ts";

/** Where a process listens. */
export interface ListenAddress {
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
  readonly listenAddressOf?: (file: ConfigFile) => ListenAddress;
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
    const { logger, read, open, use, listenAddressOf } = this.#options;
    try {
      const { file, restart } = withoutRestart(this.#file, await read(), listenAddressOf);
      if (isInMemory(file.configuration.storage)) {
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

/** The keys that a running process can't change. */
const fixedKeys = (schema: unknown): readonly (readonly string[])[] =>
  leavesOf(schema).flatMap(({ path, restart }) => (restart === true ? [path] : []));

/** The configuration without values that have no effect of their own. */
function effective({ artifacts, metrics, admin, ...configuration }: Configuration): object {
  return {
    ...configuration,
    ...(artifacts !== configuration.storage && { artifacts }),
    ...(metrics?.port !== undefined && { metrics }),
    ...(admin?.port !== undefined && { admin }),
  };
}

/** The new configuration with the old values of keys that a running process can't change, and the names of these keys. */
function withoutRestart(
  old: ConfigFile,
  read: ConfigFile,
  listenAddressOf: (file: ConfigFile) => ListenAddress = () => ({ port: undefined, host: undefined }),
): { readonly file: ConfigFile; readonly restart: readonly string[] } {
  const [before, after] = [effective(old.configuration), effective(read.configuration)];
  const [address, wanted] = [listenAddressOf(old), listenAddressOf(read)];
  const fixed = fixedKeys(configurationSchema);
  const changed = fixed.filter((path) => valueAt(before, path) !== valueAt(after, path));
  const restart = [
    ...fixedKeys(fileSchema).filter((path) => valueAt(address, path) !== valueAt(wanted, path)),
    ...changed,
  ].map((path) => path.join("."));
  if (changed.length === 0) return { file: { ...read, ...address }, restart };
  const config = fixed.reduce<object>(
    // An object that is gone stays gone: without its other keys it would be wrong.
    (mixed, path) =>
      path.length > 1 && valueAt(mixed, path.slice(0, -1)) === undefined
        ? mixed
        : withValue(mixed, path, valueAt(old.config, path)),
    read.config,
  ) as SignInServiceConfig;
  // What stays and what changes may not fit together.
  return { file: { ...read, ...address, config, configuration: readConfiguration(config) }, restart };
}

function valueAt(object: object, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), object);
}

/** A copy with another value at a path; `undefined` removes it. */
function withValue(object: object, [key = "", ...below]: readonly string[], value: unknown): object {
  const { [key]: was, ...others } = object as Record<string, unknown>;
  const inner = below.length === 0 ? value : withValue(isObject(was) ? was : {}, below, value);
  return inner === undefined ? others : { ...others, [key]: inner };
}
