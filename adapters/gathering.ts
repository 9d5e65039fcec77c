/**
 * Questions about the same thing that are asked while one about it is being answered go together in the next one: by
 * themselves they would meet in a storage, and most of what it does would be done in vain.
 */

interface Asking<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export class Gathering<Question, Answer> {
  readonly #send: (key: string, questions: readonly Question[]) => Promise<readonly Answer[]>;
  readonly #most: number;
  /** Who waits, by key; a key is in it as long as something about it is under way. */
  readonly #waiting = new Map<string, Asking<Question, Answer>[]>();

  /**
   * @param send asks, and gives the answers in the order of the questions; one that it leaves out is `undefined`.
   * @param most how many questions go together at most; default any number.
   */
  constructor(
    send: (key: string, questions: readonly Question[]) => Promise<readonly Answer[]>,
    most: number = Infinity,
  ) {
    this.#send = send;
    this.#most = most;
  }

  /** Whether something about the key is under way. */
  isBusy(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** Behind all that was asked about the key before. Rejects as `send` does. */
  ask(key: string, question: Question): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const one = { question, resolve, reject };
    const others = this.#waiting.get(key);
    if (others === undefined) {
      this.#waiting.set(key, [one]);
      void this.#drain(key);
    } else others.push(one);
    return promise;
  }

  async #drain(key: string): Promise<void> {
    for (;;) {
      const all = this.#waiting.get(key)?.splice(0, this.#most) ?? [];
      if (all.length === 0) break;
      try {
        const questions = all.map(({ question }) => question);
        const answers = await this.#send(key, questions);
        for (const [at, { resolve }] of all.entries()) resolve(answers[at] as Answer);
      } catch (error) {
        for (const { reject } of all) reject(error);
      }
    }
    this.#waiting.delete(key);
  }
}
