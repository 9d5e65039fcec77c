/** HTTP byte by byte, for requests that client libraries can't send. */
import { connect } from "node:net";

/** A response. */
export interface RawAnswer {
  readonly status: number;
  /** By lowercase name. Repeated headers are joined by a newline. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

const ANSWER_TIMEOUT_MS = 20_000;

/** The complete response, or `undefined`. */
function parse(bytes: Buffer, ended: boolean): RawAnswer | undefined {
  const text = bytes.toString("latin1");
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [statusLine = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [name = "", ...value] = line.split(":");
    const earlier = headers.get(name.toLowerCase());
    const own = value.join(":").trim();
    headers.set(name.toLowerCase(), earlier === undefined ? own : `${earlier}\n${own}`);
  }
  const status = Number(statusLine.split(" ")[1]);
  if (status === 100) return parse(bytes.subarray(end + 4), ended);
  const rest = bytes.subarray(end + 4);
  const length = headers.get("content-length");
  const whole = ended || (length !== undefined && rest.length >= Number(length)) || status === 204;
  return whole ? { status, headers, body: rest.toString() } : undefined;
}

/**
 * Sends the bytes over a connection of their own and reads one answer. The connection stays open for writing, so a
 * request without an end has none.
 * @param more gets a function that sends further bytes, until the answer arrives.
 * @throws Error when the connection ends without an answer, or there is none in 20 s.
 */
export function sendRaw(
  port: number,
  bytes: string | Buffer,
  more?: (write: (chunk: string) => boolean) => void,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const chunks: Buffer[] = [];
    const settle = (ended: boolean): boolean => {
      const answer = parse(Buffer.concat(chunks), ended);
      if (answer === undefined) return false;
      clearTimeout(timeout);
      socket.destroy();
      resolve(answer);
      return true;
    };
    const fail = (why: string): void => {
      clearTimeout(timeout);
      socket.destroy();
      reject(new Error(`${why}: ${Buffer.concat(chunks).toString("latin1")}`));
    };
    const timeout = setTimeout(() => fail("no answer"), ANSWER_TIMEOUT_MS);
    socket.on("data", (chunk) => {
      chunks.push(chunk);
      settle(false);
    });
    // A server may reset the connection after the response.
    socket.on("error", () => settle(true) || fail("reset"));
    socket.on("close", () => settle(true) || fail("closed"));
    socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
    more?.((chunk) => !socket.destroyed && socket.write(chunk));
  });
}

/** A raw request. Adds `Host` and `Connection: close` unless given. */
export function rawRequest(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body = "",
): string {
  const all: Record<string, string> = { Host: "127.0.0.1", Connection: "close", ...headers };
  if (body !== "" && !("Content-Length" in all) && !("Transfer-Encoding" in all)) {
    all["Content-Length"] = String(Buffer.byteLength(body, "latin1"));
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** Sends the beginning of a request and breaks the connection off. */
export function breakOff(port: number, bytes: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.on("error", reject);
    socket.write(bytes, () => socket.resetAndDestroy());
    socket.on("close", () => resolve());
  });
}
