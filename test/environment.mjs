// Node, as jest offers it, and a check that a file closes what it opens: servers, connections, timers, processes.
// jest itself looks only at the last file of each worker, and gives it half a second, which a busy machine takes anyway.
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { ModernFakeTimers } from "@jest/fake-timers";
import { ModuleMocker } from "jest-mock";

/** How long closing may take after the last test of a file. */
const CLOSE_TIMEOUT_MS = 15_000;

/** More than any test makes for one service. */
const RSA_KEYS = 12;

/**
 * The first start of a service makes an RSA key, which takes most of the processor that the start takes. The services of
 * this process take turns with a few keys.
 */
function reuseRsaKeys() {
  const make = promisify(crypto.generateKeyPair);
  const made = [];
  let turn = 0;
  const generateKeyPair = Object.assign(crypto.generateKeyPair.bind(), {
    [promisify.custom](type, options) {
      if (type !== "rsa" || JSON.stringify(options) !== '{"modulusLength":2048}') return make(type, options);
      turn += 1;
      return (made[turn % RSA_KEYS] ??= make(type, options));
    },
  });
  Object.assign(crypto, { generateKeyPair });
  syncBuiltinESMExports();
}
reuseRsaKeys();

// Tests start hundreds of processes, each of which would compile the same modules. The processes that run tests gain nothing:
// they load each module once, and writing it to the cache would delay their end.
process.env.NODE_COMPILE_CACHE = join(tmpdir(), "node-compile-cache");

/** What keeps the process alive, by type. */
function open() {
  const counts = new Map();
  for (const type of process.getActiveResourcesInfo()) counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}

const isLast = ({ type }) => type === "afterAll" || type === "afterEach";

/**
 * Runs the `afterAll` and `afterEach` hooks of a block in reverse order, so that a server outlives what a test file has opened
 * on it. jest runs them in the order of their definition, and those of imported modules come first.
 */
function closeLastOpenedFirst(block) {
  const { hooks } = block;
  block.hooks = [...hooks.filter((hook) => !isLast(hook)), ...hooks.filter(isLast).toReversed()];
  for (const child of block.children) if (child.type === "describeBlock") closeLastOpenedFirst(child);
}

/** Where jest keeps what belongs to one test file; it reads and writes them on `globalThis`. */
const OF_THE_FILE = ["EVENT_HANDLERS", "TEST_TIMEOUT_SYMBOL"].map((name) => Symbol.for(name));

export default class ClosingEnvironment {
  global = globalThis;
  #before = new Map();
  #hasFailed = false;
  #replaced = { console, exit: Reflect.get(process, "exit") };

  constructor({ projectConfig }) {
    this.moduleMocker = new ModuleMocker(globalThis);
    this.fakeTimersModern = new ModernFakeTimers({ config: projectConfig, global: globalThis });
  }

  setup() {
    // As without jest, which would collect a hundred frames whenever `expect` is called.
    Error.stackTraceLimit = 10;
    // Node opens the standard streams when they are first used, and closes them with the process.
    for (const name of ["stdin", "stdout", "stderr"]) Reflect.get(process, name);
    this.#before = open();
  }

  /** The tests run where Node runs, see test/runtime.mjs. */
  getVmContext() {
    return null;
  }

  handleTestEvent({ name, test }, { rootDescribeBlock }) {
    if (name === "run_start") closeLastOpenedFirst(rootDescribeBlock);
    if (name === "test_done" && test.errors.length > 0) this.#hasFailed = true;
  }

  async teardown() {
    const left = await this.#left();
    this.fakeTimersModern.dispose();
    for (const name of OF_THE_FILE) delete globalThis[name];
    globalThis.console = this.#replaced.console;
    process.exit = this.#replaced.exit;
    // A failed test may have skipped what closes things, and jest would report this error in its place.
    if (left.length > 0 && !this.#hasFailed)
      throw new Error(`the file left something open: ${left.join(", ")}`);
  }

  async #left() {
    const end = performance.now() + CLOSE_TIMEOUT_MS;
    for (;;) {
      const left = [...open()].filter(([type, count]) => count > (this.#before.get(type) ?? 0));
      if (left.length === 0 || performance.now() > end)
        return left.map(([type, count]) => `${count} ${type}`);
      await pause(20, undefined, { ref: false });
    }
  }
}
