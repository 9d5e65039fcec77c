/** How far a command is, on the standard error: one line that moves on a terminal, else a line now and then. */

/** Where text goes. */
export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Milliseconds between two lines, on a terminal and elsewhere. */
const TERMINAL_PAUSE = 100;
const LOG_PAUSE = 5000;
const BAR = 20;
/** Back to the first column, and the rest of the line away. */
const CLEAR = "\r\u001B[2K";

const number = new Intl.NumberFormat("en");

function shareOf(done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.round(share * BAR);
  return `[${"#".repeat(filled)}${".".repeat(BAR - filled)}] ${Math.floor(share * 100)} %  `;
}

/** Tells what is going on. */
export class Progress {
  readonly #output: Output;
  readonly #now: () => number;
  /** When the last line was written. */
  #last: number;
  #isShown = false;

  /** @param now milliseconds on any scale. */
  constructor(output: Output, now: () => number = () => performance.now()) {
    this.#output = output;
    this.#now = now;
    this.#last = now() - TERMINAL_PAUSE;
  }

  /** @param total about how many there will be, where that is known. */
  update(what: string, done: number, total?: number): void {
    const isTerminal = this.#output.isTTY === true;
    const now = this.#now();
    if (now - this.#last < (isTerminal ? TERMINAL_PAUSE : LOG_PAUSE)) return;
    this.#last = now;
    const counts =
      total === undefined
        ? number.format(done)
        : `${number.format(done)} of ${number.format(Math.max(done, total))}`;
    if (!isTerminal) {
      this.#output.write(`${what}: ${counts}\n`);
      return;
    }
    const line = `${what.padEnd(22)} ${total === undefined ? "" : shareOf(done, total)}${counts}`;
    this.#output.write(CLEAR + line.slice(0, (this.#output.columns ?? 80) - 1));
    this.#isShown = true;
  }

  /** Takes the moving line away: something else is written next. */
  clear(): void {
    if (this.#isShown) this.#output.write(CLEAR);
    this.#isShown = false;
  }
}
