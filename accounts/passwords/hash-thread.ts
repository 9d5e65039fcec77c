/** The script of the threads in `hash-threads.ts`: hashes and compares passwords, one at a time. */
import { type MessagePort, parentPort } from "node:worker_threads";
import { hashSync } from "@node-rs/argon2";
import type { HashAnswer, HashTask } from "./hash-threads.ts";
import { readForeignHash } from "./password-formats.ts";

function work(task: HashTask): string | boolean {
  // Argon2id is the default of the package.
  if ("cost" in task) return hashSync(task.password, task.cost);
  const matches = readForeignHash(task.hash)?.matches(task.password) ?? false;
  if (!matches && task.costIfWrong !== undefined) hashSync(task.password, task.costIfWrong);
  return matches;
}

function answerTo(task: HashTask): HashAnswer {
  try {
    return { id: task.id, result: work(task) };
  } catch (error) {
    return { id: task.id, error };
  }
}

function serve(port: MessagePort): void {
  port.on("message", (task: HashTask) => port.postMessage(answerTo(task)));
}

if (parentPort !== null) serve(parentPort);
