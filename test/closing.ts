/**
 * Closes what tests open, so that they don't have to: helpers register here how. What a test or its `beforeEach` opens is closed
 * after the test, everything else after the file, in reverse order.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach } from "@jest/globals";

type Close = () => unknown;

const servers: Close[] = [];
const ofFile: Close[] = [];
const ofTest: Close[] = [];
let isInTest = false;

async function closeAll(closings: Close[]): Promise<void> {
  const errors: unknown[] = [];
  for (let close = closings.pop(); close !== undefined; close = closings.pop()) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

beforeEach(() => {
  isInTest = true;
});
afterEach(async () => {
  isInTest = false;
  await closeAll(ofTest);
});
afterAll(async () => {
  try {
    await closeAll(ofFile);
  } finally {
    await closeAll(servers);
  }
});

/** Calls this at the end of the test, or of the file; see above. */
export function atEnd(close: Close): void {
  (isInTest ? ofTest : ofFile).push(close);
}

/** Calls this after the file, when all that may use it is closed, whoever started it. */
export function atVeryEnd(close: Close): void {
  servers.push(close);
}

/** Closes it at the end; see above. */
export function closing<T extends { close(): unknown }>(opened: T): T {
  atEnd(() => opened.close());
  return opened;
}

/** An empty folder, which is removed at the end; see above. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-test-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What `start` resolves with, before the tests of this block. It has no members until then. */
export function beforeTests<T extends object>(start: () => Promise<T>): T {
  const started = {} as T;
  beforeAll(async () => void Object.assign(started, await start()));
  return started;
}
