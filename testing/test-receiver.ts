/** A receiver of notifications for tests, which fails on demand. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { NotificationBody } from "../receiver/notification.ts";

/** How a receiver fails. Without `status`, `close` and `delay` it answers 503. */
interface ReceiverFault {
  /** The status of its responses. Default 503, or 200 if only `delay` is set. */
  readonly status?: number;
  /** Seconds by which its responses are delayed, in the system's time. */
  readonly delay?: number;
  /** Closes the connection without a response. */
  readonly close?: boolean;
  /** How many requests fail before the receiver works again. Default: all, until `recover()` is called. */
  readonly times?: number;
}

/** A notification that was sent to a receiver. */
export interface ReceivedNotification {
  /** Its `webhook-id`, the same at each attempt. */
  readonly id: string;
  readonly body: NotificationBody;
  /** The status of the response; `null` if the connection was closed. */
  readonly status: number | null;
}

/** A receiver on a loopback port; see `TestSignIn.addReceiver`. */
export class TestReceiver {
  /** `service:KEY`, as in `TestNotification.receiver`. */
  readonly name: string;
  readonly url: string;
  /** Every request with the right credentials, oldest first, including those that it refused. */
  readonly received: ReceivedNotification[] = [];
  readonly #server: Server;
  readonly #authorization: string;
  #fault: ReceiverFault | undefined;
  #left = Infinity;

  private constructor(name: string, server: Server, authorization: string) {
    this.name = name;
    this.#server = server;
    this.#authorization = authorization;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
    server.on("request", (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  /** @param credentials that the service sends. */
  static async open(
    name: string,
    credentials: { readonly client_id: string; readonly client_secret: string },
  ): Promise<TestReceiver> {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { client_id, client_secret } = credentials;
    const basic = Buffer.from(`${client_id}:${client_secret}`).toString("base64");
    return new TestReceiver(name, server, `Basic ${basic}`);
  }

  /** Fails from now on. Replaces an earlier fault. */
  fail(fault: ReceiverFault = {}): void {
    const { times = Infinity } = fault;
    if (!(times > 0)) throw new TypeError("times: must be 1 or more");
    this.#fault = fault;
    this.#left = times;
  }

  /** Works again. */
  recover(): void {
    this.#fault = undefined;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => void this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (request.headers.authorization !== this.#authorization) {
      response.writeHead(401).end();
      return;
    }
    const fault = this.#fault;
    this.#left -= 1;
    if (this.#left <= 0) this.#fault = undefined;
    const { delay = 0, close = false } = fault ?? {};
    const status = fault?.status ?? (fault === undefined || delay > 0 ? 200 : 503);
    const body = JSON.parse(Buffer.concat(parts).toString()) as NotificationBody;
    const id = String(request.headers["webhook-id"]);
    this.received.push({ id, body, status: close ? null : status });
    if (delay > 0) await pause(delay * 1000, undefined, { ref: false });
    if (close) request.socket.destroy();
    else response.writeHead(status).end();
  }
}
