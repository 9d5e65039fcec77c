/** The body of an answer: as much of it as a person may want to see, and no more than it may cost. */
import type { IncomingMessage } from "node:http";

/** Bytes of the answer that are read; the connection is closed on what goes on after them. */
const MOST_READ = 64 * 1024;
/** Bytes of it that are kept. */
const MOST_KEPT = 4 * 1024;

/** UTF-8 of at most 4 KiB; what is no text becomes replacement characters. Nothing is unpacked. */
function toText(chunks: readonly Buffer[]): string {
  // `stream` leaves out a character that the limit has cut in two.
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, MOST_KEPT), { stream: true });
  const whole = text.replaceAll("\0", "\uFFFD");
  const { read } = new TextEncoder().encodeInto(whole, new Uint8Array(MOST_KEPT));
  return whole.slice(0, read);
}

/** What has come of a body so far. */
export interface AnswerBody {
  text(): string;
}

/**
 * Reads the body, and says when it is over: complete, cut off, or too long.
 * @param over called at least once.
 */
export function readAnswerBody(response: IncomingMessage, over: () => void): AnswerBody {
  const kept: Buffer[] = [];
  let size = 0;
  response.on("data", (chunk: Buffer) => {
    if (size < MOST_KEPT) kept.push(chunk);
    size += chunk.length;
    if (size > MOST_READ) {
      response.destroy();
      over();
    }
  });
  response.on("end", over);
  // The peer went away in the middle: the status that it gave stands.
  response.on("error", over);
  return { text: () => (kept.length === 0 ? "" : toText(kept)) };
}
