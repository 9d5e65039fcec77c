/** The request as the library sees it. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";

/** What it is to see instead of what came. */
export interface Seen {
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** A form; left out for a request without a body. */
  readonly body: string | undefined;
}

/**
 * A request with another URL, other headers and another body; the rest is what came. An object of its own: one that
 * has the real one as its prototype costs Node as much as handling it.
 */
export class SeenRequest implements Seen {
  readonly url: string;
  readonly originalUrl: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: undefined;
  readonly method: string | undefined;
  readonly socket: IncomingMessage["socket"];
  readonly httpVersion: string;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  /** The stream itself has been read. */
  readonly readable: boolean;
  readonly #text: string;

  constructor(req: IncomingMessage, { url, headers, body }: Seen) {
    this.url = url;
    this.originalUrl = url;
    this.headers = headers;
    this.method = req.method;
    this.socket = req.socket;
    this.httpVersion = req.httpVersion;
    this.httpVersionMajor = req.httpVersionMajor;
    this.httpVersionMinor = req.httpVersionMinor;
    this.readable = body !== undefined;
    this.#text = body ?? "";
  }

  /** All that the library does with a stream is to iterate over it. */
  iterator(): Iterable<Buffer> {
    return [Buffer.from(this.#text)];
  }
}
