/** Shows progress on standard error: on a terminal as one line that is rewritten, otherwise as a line now and then. */

/** A stream for text. */
export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Between two lines, on a terminal and elsewhere. */
const TERMINAL_INTERVAL_MS = 100;
const LOG_INTERVAL_MS = 5000;
const BAR_CHARACTERS = 20;
/** Moves to the first column and clears the line. */
const CLEAR = "\r\u001B[2K";

const number = new Intl.NumberFormat("en");

function shareOf(done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.round(share * BAR_CHARACTERS);
  return `[${"#".repeat(filled)}${".".repeat(BAR_CHARACTERS - filled)}] ${Math.floor(share * 100)} %  `;
}

/** Shows the progress of a command. */
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
    this.#last = now() - TERMINAL_INTERVAL_MS;
  }

  /** @param total approximately how many there are, if known. */
  update(what: string, done: number, total?: number): void {
    const isTerminal = this.#output.isTTY === true;
    const now = this.#now();
    if (now - this.#last < (isTerminal ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS)) return;
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

  /** Removes the progress line before other output. */
  clear(): void {
    if (this.#isShown) this.#output.write(CLEAR);
    this.#isShown = false;
  }
}
