/** HTTP/1.1 on a plain socket: enough for a load generator, at a fraction of the cost of a client library. */
import { connect, type Socket } from "node:net";
import type { LoadRequest } from "./load.ts";

const END_OF_HEAD = "\r\n\r\n";

/** The bytes of a request on a keep-alive connection. */
export function bytesOf(port: number, { method, target, headers, body = "" }: LoadRequest): string {
  const all = { host: `127.0.0.1:${port}`, ...headers };
  const length = method === "POST" ? { "content-length": String(Buffer.byteLength(body)) } : {};
  const lines = Object.entries({ ...all, ...length }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** Reads complete responses from a connection. Every server here sends a length or chunks. */
export function onAnswers(socket: Socket, tell: (answer: string) => void): void {
  let read = "";
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    read += chunk;
    for (;;) {
      const head = read.indexOf(END_OF_HEAD);
      if (head === -1) return;
      const start = head + END_OF_HEAD.length;
      const length = /\r\ncontent-length: *(\d+)/i.exec(read.slice(0, start))?.[1];
      const chunksEnd = read.indexOf("0\r\n\r\n", start);
      const end = length === undefined ? chunksEnd + 5 : start + Number(length);
      if ((length === undefined && chunksEnd === -1) || read.length < end) return;
      const answer = read.slice(0, end);
      read = read.slice(end);
      tell(answer);
    }
  });
}

/** A connection for one request after the other. */
export interface Wire {
  /** The whole response, head and body. */
  ask(request: LoadRequest): Promise<string>;
  close(): void;
}

/** Connects to a port of this machine. */
export async function openWire(port: number): Promise<Wire> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let waiting: PromiseWithResolvers<string> | undefined;
  await new Promise<void>((resolve, reject) => void socket.once("connect", resolve).once("error", reject));
  socket.on("close", () => waiting?.reject(new Error("the connection was closed")));
  onAnswers(socket, (answer) => waiting?.resolve(answer));
  return {
    ask(request) {
      waiting = Promise.withResolvers();
      socket.write(bytesOf(port, request), "latin1");
      return waiting.promise;
    },
    close: () => void socket.destroy(),
  };
}
