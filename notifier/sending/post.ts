/** One POST on one connection, and everything that the peer may do in return. */
import type { ClientRequest, IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { AddressRefused, type GuardedAgents, http, https } from "../../core/outbound-agents.ts";

/** Where a POST goes, in the form that `http.request` takes. */
export interface PostAddress {
  readonly protocol: "http:" | "https:";
  /** Without brackets. */
  readonly hostname: string;
  readonly port: string | number;
  /** With the query. */
  readonly path: string;
  /** The `Host` header. */
  readonly host: string;
}

export interface Post {
  readonly address: PostAddress;
  /** Alternating names and values, without `Host`. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly agents: GuardedAgents;
  /** Milliseconds until a new connection, including TLS, must be established. */
  readonly connect: number;
  /** Milliseconds for everything. */
  readonly total: number;
  readonly signal: AbortSignal;
}

export type PostOutcome =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly retryAfter: string | undefined;
      readonly answer: string;
    }
  | {
      readonly kind: "failed";
      readonly code: string;
      /** The peer closed a kept-alive connection without answering this request. */
      readonly stale: boolean;
    }
  | { readonly kind: "refused"; readonly reason: string };

/** Interim responses (100 to 199) that are accepted before the final one. */
const MAX_INTERIM = 16;
/** How much of the response body is read before the connection is closed. */
const MAX_READ_BYTES = 64 * 1024;
/** How much of the response body is kept. */
const MAX_KEPT_BYTES = 4 * 1024;

/** The code of a Node error. It names the kind of fault and never contains what was sent. */
function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^[A-Z][A-Z0-9_]{1,60}$/.test(code) ? code : "unknown";
}

/** The first 4 KiB as UTF-8. Invalid bytes become replacement characters; compressed bodies stay compressed. */
function toText(chunks: readonly Buffer[]): string {
  if (chunks.length === 0) return "";
  // `stream` drops a character that the limit cuts in two.
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, MAX_KEPT_BYTES), { stream: true });
  const whole = text.replaceAll("\0", "\uFFFD");
  const { read } = new TextEncoder().encodeInto(whole, new Uint8Array(MAX_KEPT_BYTES));
  return whole.slice(0, read);
}

/** A running POST. The first event that decides it settles it; later ones are ignored. */
class Exchange {
  readonly #settle: (outcome: PostOutcome) => void;
  readonly #post: Post;
  readonly #request: ClientRequest;
  readonly #total: NodeJS.Timeout;
  #connect: NodeJS.Timeout | undefined;
  #response: IncomingMessage | undefined;
  readonly #body: Buffer[] = [];
  #bodySize = 0;
  /** Whether the connection existed before this request: kept alive, or waited for. */
  #isReused = false;
  #interim = 0;
  #done = false;

  constructor(details: Post, settle: (outcome: PostOutcome) => void) {
    const { address, headers, agents, total } = details;
    const { protocol, hostname, port, path } = address;
    this.#post = details;
    this.#settle = settle;
    const { request: send } = protocol === "https:" ? https : http;
    const agent = agents.agentFor(protocol);
    // Node sends a list unchanged. Handling headers as an object takes a third of the cost of a request.
    const list = ["host", address.host, ...headers];
    this.#request = send({ protocol, hostname, port, path, method: "POST", headers: list, agent });
    this.#total = setTimeout(() => this.#stop("timeout_total"), total);
  }

  start(): void {
    this.#post.signal.addEventListener("abort", this.#abort);
    this.#listen();
    this.#request.end(this.#post.body);
  }

  #listen(): void {
    const request = this.#request;
    this.#isReused = request.reusedSocket;
    if (!this.#isReused) this.#watchConnecting();
    request.on("information", () => {
      this.#interim += 1;
      if (this.#interim > MAX_INTERIM) this.#stop("too_many_interim_answers");
    });
    request.on("response", (message) => this.#answered(message));
    // The request asked for no upgrade, so 101 is a response like any other, without a body.
    request.on("upgrade", (message, socket) => {
      socket.destroy();
      this.#answered(message);
      this.#end();
    });
    request.on("error", (error) => this.#failed(error));
  }

  #watchConnecting(): void {
    this.#request.on("socket", (socket) => {
      // A request that waited for a free connection gets one that is already connected.
      this.#isReused = !socket.connecting;
      if (this.#isReused || this.#done) return;
      this.#connect = setTimeout(() => this.#stop("timeout_connect"), this.#post.connect);
      const usable = (socket as Partial<TLSSocket>).encrypted === true ? "secureConnect" : "connect";
      socket.once(usable, () => clearTimeout(this.#connect));
    });
  }

  #answered(message: IncomingMessage): void {
    const { statusCode = 0 } = message;
    if (statusCode < 100 || statusCode > 599) return this.#stop("invalid_status");
    this.#response = message;
    message.on("data", (chunk: Buffer) => {
      if (this.#bodySize < MAX_KEPT_BYTES) this.#body.push(chunk);
      this.#bodySize += chunk.length;
      if (this.#bodySize <= MAX_READ_BYTES) return;
      message.destroy();
      this.#end();
    });
    message.on("end", this.#end);
    // The peer left in the middle of the body: its status still counts.
    message.on("error", this.#end);
  }

  /** Settles with the response, however much of its body has arrived. */
  readonly #end = (): void => {
    const { statusCode = 0, headers } = this.#response!;
    const retryAfter = headers["retry-after"];
    this.#finish({ kind: "answered", status: statusCode, retryAfter, answer: toText(this.#body) });
  };

  readonly #abort = (): void => this.#stop("aborted");

  #failed(error: Error): void {
    if (this.#response !== undefined) return this.#end();
    if (error instanceof AddressRefused) return this.#finish({ kind: "refused", reason: error.message });
    const code = codeOf(error);
    const stale = this.#isReused && (code === "ECONNRESET" || code === "EPIPE");
    this.#finish({ kind: "failed", code, stale });
  }

  #stop(code: string): void {
    if (this.#done) return;
    if (this.#response === undefined) this.#finish({ kind: "failed", code, stale: false });
    else this.#end();
    this.#request.destroy();
  }

  #finish(outcome: PostOutcome): void {
    if (this.#done) return;
    this.#done = true;
    clearTimeout(this.#total);
    clearTimeout(this.#connect);
    this.#post.signal.removeEventListener("abort", this.#abort);
    this.#settle(outcome);
  }
}

/** Never rejects. Sends nothing when the signal is already aborted. */
export function post(details: Post): Promise<PostOutcome> {
  if (details.signal.aborted) return Promise.resolve({ kind: "failed", code: "aborted", stale: false });
  return new Promise((resolve) => {
    try {
      new Exchange(details, resolve).start();
    } catch (error) {
      // For example a header that can't be sent.
      resolve({ kind: "failed", code: codeOf(error), stale: false });
    }
  });
}
