/** Receivers for the tests of one attempt: real sockets, some of which do what no server should. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttp, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTcp, type AddressInfo, isIP, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A listening server. */
export interface Peer {
  readonly port: number;
  /** Connections that came in so far. */
  connections(): number;
  readonly close: () => Promise<void>;
}

async function listen(server: Server): Promise<Peer> {
  const open = new Set<Socket>();
  let count = 0;
  server.on("connection", (socket: Socket) => {
    count += 1;
    open.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve) => void server.listen(0, "0.0.0.0", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => count,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}

/** A server that speaks with sockets: no HTTP of its own. */
export function tcpPeer(onConnection: (socket: Socket) => void): Promise<Peer> {
  return listen(createTcp(onConnection));
}

export function httpPeer(listener: RequestListener): Promise<Peer> {
  return listen(createHttp(listener));
}

/** Calls back with each whole request of a connection that has a body of a known length. */
export function onRequests(socket: Socket, answer: (head: string, body: string) => void): void {
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    for (;;) {
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? 0);
      if (end === -1 || text.length < end + 4 + length) return;
      const [head, body] = [text.slice(0, end), text.slice(end + 4, end + 4 + length)];
      text = text.slice(end + 4 + length);
      answer(head, Buffer.from(body, "latin1").toString());
    }
  });
}

/** A server that writes these bytes for an answer, whatever they are. */
export function bytesPeer(answer: string | Buffer, then?: (socket: Socket) => void): Promise<Peer> {
  return tcpPeer((socket) =>
    onRequests(socket, () => {
      socket.write(answer);
      then?.(socket);
    }),
  );
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** A certificate that nobody has signed but itself. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** @param hosts the host names and IP addresses in the certificate. */
export function selfSigned(...hosts: readonly [string, ...string[]]): Certificate {
  const folder = mkdtempSync(join(tmpdir(), "certificate-"));
  try {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    const names = hosts.map((host) => `${isIP(host) === 0 ? "DNS" : "IP"}:${host}`).join();
    const named = ["-days", "2", "-subj", `/CN=${hosts[0]}`, "-addext", `subjectAltName=${names}`];
    execFileSync("openssl", [...made, ...named, "-keyout", key, "-out", cert], { stdio: "pipe" });
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
