/**
 * Whether a password is known from a data breach, asked by k-anonymity: only the first five of the 40 hexadecimal digits of
 * its SHA-1 leave the process, and the answer lists the suffix of every known hash that begins with them. The
 * interface is the one of Pwned Passwords, which you can also mirror yourself.
 */
import { hash } from "node:crypto";
import { SignInError } from "../../core/errors.ts";
import { FairQueue } from "../../core/fair-queue.ts";
import type { Outage } from "../../core/outages.ts";
import { withTimeout } from "../../core/with-timeout.ts";

/**
 * Whether a password is known from a breach. `false` without an answer in time.
 * @param party who waits: see `Passwords.verify`.
 * @throws StorageUnavailable when too many wait: nobody makes the check disappear by asking often.
 */
export type BreachCheck = (password: string, party: string) => Promise<boolean>;

interface BreachCheckOptions {
  /** Base URL; the prefix is added as the last segment of its path. */
  readonly url: string;
  /** After this time the password is accepted without an answer. */
  readonly timeoutMs: number;
  readonly fetch: typeof globalThis.fetch;
  /** Gets the outcome of each request. */
  readonly outage: Outage;
}

/** How many requests run at once, and how many wait for that. */
const QUEUE = {
  capacity: 20,
  maxWaiting: 40,
  maxWaitMs: 4_500,
  refusal: "too many new passwords are being checked at once",
};
const PREFIX_LENGTH = 5;
/** A padded answer has about 1,000 lines of 40 characters. */
const MAX_ANSWER_BYTES = 512 * 1024;
/** The suffix of a hash, and in how many breaches it was. Lines that pad the answer have the count 0. */
const LINE = /^([\dA-F]{35}):(\d{1,15})$/i;

/** A failure of the other side. The message reveals nothing about the password. */
function noAnswer(reason: string): SignInError {
  return new SignInError("unexpected_answer", `the breach check has no answer: ${reason}`);
}

export function createBreachCheck({ url, timeoutMs, fetch, outage }: BreachCheckOptions): BreachCheck {
  const queue = new FairQueue(QUEUE);

  /** @returns whether the response lists this suffix. */
  async function ask(prefix: string, suffix: string, signal: AbortSignal): Promise<boolean> {
    const response = await fetch(`${url.replace(/\/+$/, "")}/${prefix}`, {
      // Padding hides from an observer how many hashes have the prefix.
      headers: { "Add-Padding": "true", "User-Agent": "sign-in-service" },
      redirect: "error",
      signal,
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw noAnswer(`status ${response.status}`);
    }
    const lines = (await bounded(response)).split(/\r?\n/).filter((line) => line !== "");
    const known = lines.map((line) => LINE.exec(line));
    // An error page is not an answer. A truncated answer would look like one, so every line is checked.
    if (known.length === 0 || known.includes(null)) throw noAnswer("not a list of hashes");
    return known.some((match) => match?.[1]?.toUpperCase() === suffix && Number(match[2]) > 0);
  }

  async function isBreached(password: string): Promise<boolean> {
    const digest = hash("sha1", password, "hex").toUpperCase();
    const giveUp = new AbortController();
    try {
      const asked = ask(digest.slice(0, PREFIX_LENGTH), digest.slice(PREFIX_LENGTH), giveUp.signal);
      // The `fetch` of a host application may ignore the signal.
      const isKnown = await withTimeout(timeoutMs, asked, () => {
        giveUp.abort();
        return noAnswer("timeout");
      });
      outage.worked();
      return isKnown;
    } catch (error) {
      // The error of a `fetch` may hold the address, and with it the prefix.
      outage.failed(error instanceof SignInError ? error : noAnswer("no connection"));
      return false;
    }
  }

  return async (password, party) => {
    // The wait is not part of the time-out: a password is not accepted because others are being checked.
    const leave = await queue.enter(party);
    try {
      return await isBreached(password);
    } finally {
      leave();
    }
  };
}

async function bounded({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_ANSWER_BYTES) throw noAnswer("too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("latin1");
}
