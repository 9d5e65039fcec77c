/**
 * What is asked of Redis in one turn of the event loop goes there as one command: a command costs Node more than what
 * is in it. Each question is answered, refused or `Unanswered` by itself.
 */
import type { Clock } from "../../lib/clock.ts";
import type { Connection } from "./connection.ts";
import { refusedFault } from "./faults.ts";
import { TURN } from "./turn-script.ts";

/** Questions that leave together at most: Redis has something to do while the turn goes on. */
const TOGETHER = 16;
/** Characters that leave together, unless one question has more. */
const LONGEST = 32_768;

/**
 * Asks a question of `TURN`: a kind and what belongs to it, without line feeds.
 * @returns its answer.
 * @throws Unanswered, or StorageUnavailable when Redis answered with an error.
 */
export type Ask = (question: readonly string[]) => Promise<string>;

interface Waiting {
  readonly text: string;
  readonly resolve: (answer: string) => void;
  readonly reject: (fault: unknown) => void;
}

export interface TurnParts {
  readonly connection: Connection;
  /** What all keys begin with. */
  readonly prefix: string;
  /** Decides what has expired. */
  readonly clock: Clock;
}

function settle({ resolve, reject }: Waiting, answer: string): void {
  if (answer.startsWith("=")) resolve(answer.slice(1));
  else reject(refusedFault(answer.slice(1)));
}

export function createAsk({ connection, prefix, clock }: TurnParts): Ask {
  let held: Waiting[] = [];
  let length = 0;
  let isScheduled = false;

  async function send(questions: readonly Waiting[]): Promise<void> {
    const values = [prefix, String(clock.now())];
    for (const { text } of questions) values.push(text);
    try {
      const [seconds, micros, ...answers] = (await connection.run(TURN, [], values)) as string[];
      connection.heard([seconds ?? "", micros ?? ""]);
      for (const [index, question] of questions.entries()) settle(question, answers[index] ?? "");
    } catch (error) {
      for (const { reject } of questions) reject(error);
    }
  }

  function flush(): void {
    const questions = held;
    held = [];
    length = 0;
    if (questions.length > 0) void send(questions);
  }

  return (question) =>
    new Promise((resolve, reject) => {
      const text = `${question.join("\n")}\n`;
      if (length + text.length > LONGEST) flush();
      held.push({ text, resolve, reject });
      length += text.length;
      if (held.length >= TOGETHER) flush();
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(() => {
        isScheduled = false;
        flush();
      });
    });
}
