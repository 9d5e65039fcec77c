/** One POST on one connection, with everything that the other side may do in answer. */
import type { ClientRequest, IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import type { GuardedAgents } from "../lib/guarded-agents.ts";
import { AddressRefused } from "../lib/guarded-agents.ts";
import { http, https } from "../lib/node-http.ts";
import { type AnswerBody, readAnswerBody } from "./answer-body.ts";
import type { RunningAttempts } from "./running-attempts.ts";
import type { Place } from "./url-guard.ts";

export interface Post {
  readonly place: Place;
  /** Names and values in turns, without `Host`. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly agents: GuardedAgents;
  /** Milliseconds until a new connection must be usable, its TLS included. */
  readonly connect: number;
  /** Milliseconds for everything. */
  readonly total: number;
  readonly signal: AbortSignal;
  readonly running: RunningAttempts;
}

/** What came of it. */
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
      /** The other side closed a connection that it had kept open, and said nothing to this request. */
      readonly stale: boolean;
    }
  | { readonly kind: "refused"; readonly reason: string };

/** Interim answers (100 to 199) before the real one; what sends more is not going to answer. */
const MOST_INTERIM = 16;

/**
 * The short code of an error of Node: it names the kind of fault, and never holds what was sent.
 */
function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^[A-Z][A-Z0-9_]{1,60}$/.test(code) ? code : "unknown";
}

/** A running POST: the first thing that happens settles it, and whatever comes after is ignored. */
class Exchange {
  readonly #settle: (outcome: PostOutcome) => void;
  readonly #post: Post;
  readonly #request: ClientRequest;
  readonly #total: NodeJS.Timeout;
  #leave: (() => void) | undefined;
  #connect: NodeJS.Timeout | undefined;
  #response: { readonly message: IncomingMessage; readonly body: AnswerBody } | undefined;
  /** The connection was there before this request: kept open, or waited for. */
  #kept = false;
  #interim = 0;
  #done = false;

  constructor(details: Post, settle: (outcome: PostOutcome) => void) {
    const { place, headers, agents, total } = details;
    const { protocol, hostname, port, path } = place;
    this.#post = details;
    this.#settle = settle;
    const { request: send } = protocol === "https:" ? https : http;
    const agent = agents.agentFor(protocol);
    // As a list they go out as they are: a third of what a request costs is looking after headers.
    const list = ["host", place.host, ...headers];
    this.#request = send({ protocol, hostname, port, path, method: "POST", headers: list, agent });
    this.#total = setTimeout(() => this.#give("timeout_total"), total);
  }

  start(): void {
    this.#leave = this.#post.running.add(this.#post.signal, this.#abort);
    this.#listen();
    this.#request.end(this.#post.body);
  }

  #listen(): void {
    const request = this.#request;
    this.#kept = request.reusedSocket;
    if (!this.#kept) this.#watchConnecting();
    request.on("information", () => {
      this.#interim += 1;
      if (this.#interim > MOST_INTERIM) this.#give("too_many_interim_answers");
    });
    request.on("response", (message) => this.#answered(message));
    // 101: another protocol was not asked for, so this is an answer like any other, without a body.
    request.on("upgrade", (message, socket) => {
      socket.destroy();
      this.#answered(message);
      this.#end();
    });
    request.on("error", (error) => this.#failed(error));
  }

  #watchConnecting(): void {
    this.#request.on("socket", (socket) => {
      // A connection that was waited for is connected already.
      this.#kept = !socket.connecting;
      if (this.#kept || this.#done) return;
      this.#connect = setTimeout(() => this.#give("timeout_connect"), this.#post.connect);
      const usable = (socket as Partial<TLSSocket>).encrypted === true ? "secureConnect" : "connect";
      socket.once(usable, () => clearTimeout(this.#connect));
    });
  }

  #answered(message: IncomingMessage): void {
    const { statusCode = 0 } = message;
    if (statusCode < 100 || statusCode > 599) return this.#give("invalid_status");
    this.#response = { message, body: readAnswerBody(message, this.#end) };
  }

  readonly #end = (): void => {
    const { message, body } = this.#response!;
    const retryAfter = message.headers["retry-after"];
    this.#finish({ kind: "answered", status: message.statusCode ?? 0, retryAfter, answer: body.text() });
  };

  readonly #abort = (): void => this.#give("aborted");

  #failed(error: Error): void {
    if (this.#response !== undefined) return this.#end();
    if (error instanceof AddressRefused) return this.#finish({ kind: "refused", reason: error.message });
    const code = codeOf(error);
    const stale = this.#kept && (code === "ECONNRESET" || code === "EPIPE");
    this.#finish({ kind: "failed", code, stale });
  }

  /** Stops. With a status the answer has been given, however little of its body has come. */
  #give(code: string): void {
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
    this.#leave?.();
    this.#settle(outcome);
  }
}

/** Never rejects. Nothing is sent when the signal has ended before. */
export function post(details: Post): Promise<PostOutcome> {
  if (details.signal.aborted) return Promise.resolve({ kind: "failed", code: "aborted", stale: false });
  return new Promise((resolve) => {
    try {
      new Exchange(details, resolve).start();
    } catch (error) {
      // Such as a header that can't be sent.
      resolve({ kind: "failed", code: codeOf(error), stale: false });
    }
  });
}
