import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { answered, at, BODY, deliverer, failed, OK, opened, options, target, tried } from "./attempts.ts";
import { bytesPeer, httpPeer, tcpPeer } from "./peers.ts";

/** Sends the text again and again. */
const drip = (socket: Socket, text: string): void => {
  const timer = setInterval(() => socket.write(text), 20);
  socket.on("close", () => clearInterval(timer));
};

describe("a hostile receiver", () => {
  it("that never answers, or not to the end of the headers, runs into the time-out [D-NOTIFY-13]", async () => {
    expect(await tried(await opened(tcpPeer(() => undefined)))).toEqual(failed("timeout_total"));
    expect(await tried(await opened(bytesPeer("HTTP/1.1 200 OK\r\nX: ")))).toEqual(failed("timeout_total"));
  });

  it("that drips is cut off; the status that it gave stands [D-NOTIFY-13]", async () => {
    const inHead = await opened(bytesPeer("HTTP/1.1 200 OK\r\nX: ", (socket) => drip(socket, "y")));
    expect(await tried(inHead)).toEqual(failed("timeout_total"));
    const inBody = await opened(
      bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nhello", (socket) => drip(socket, "")),
    );
    expect(await tried(inBody)).toEqual(answered(200, "hello"));
    const inChunks = await opened(
      bytesPeer("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    );
    expect(await tried(inChunks)).toEqual(answered(500, "hello"));
  });

  it("that answers without end is closed after 64 KiB, of which 4 are kept [D-NOTIFY-13]", async () => {
    let closed: Promise<unknown> | undefined;
    const endless = await opened(
      bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\n", (socket) => {
        const more = (): void => {
          while (socket.writable && socket.write("x".repeat(16_384)));
        };
        socket.on("drain", more);
        closed = new Promise((resolve) => void socket.on("close", resolve));
        more();
      }),
    );
    expect(await tried(endless, { timeouts: { connect: 5, total: 15 } })).toEqual(
      answered(200, "x".repeat(4096)),
    );
    await closed;
  });

  it("does not get its answer unpacked, and what is no text is marked", async () => {
    const bomb = gzipSync(Buffer.alloc(10_000_000));
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`;
    const peer = await opened(bytesPeer(Buffer.concat([Buffer.from(head), bomb])));
    const { answer } = (await tried(peer)) as { answer: string };
    expect(Buffer.byteLength(answer)).toBeLessThanOrEqual(4096);
    expect(answer).toContain("\uFFFD");
    expect(answer).not.toContain("\0");
  });

  it("gets at most 4 KiB of well-formed text kept, whatever bytes it sends", async () => {
    const next: { body: Uint8Array } = { body: new Uint8Array() };
    const peer = await opened(
      httpPeer((request, response) => void request.resume().on("end", () => response.end(next.body))),
    );
    const { attempt } = deliverer();
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 5000, size: "max" }),
      fc.string({ unit: "binary", maxLength: 3000, size: "max" }).map((text) => Buffer.from(text)),
    );
    await fc.assert(
      fc.asyncProperty(bytes, async (body) => {
        next.body = body;
        const result = await attempt(target(at(peer)), BODY, options());
        const { answer = "" } = result as { answer?: string };
        expect(answer.isWellFormed() && !answer.includes("\0")).toBe(true);
        expect(Buffer.byteLength(answer)).toBeLessThanOrEqual(4096);
        const text = Buffer.from(body).toString();
        const isText = !text.includes("\uFFFD") && !text.includes("\0") && body.length <= 4096;
        expect(isText ? answer : "").toBe(isText ? text : "");
      }),
      { numRuns: 200 },
    );
  });

  it("that closes or resets the connection has failed, unless it had given a status", async () => {
    expect(await tried(await opened(tcpPeer((socket) => socket.end())))).toEqual(failed("ECONNRESET"));
    const reset = await opened(tcpPeer((socket) => socket.on("data", () => socket.resetAndDestroy())));
    expect(await tried(reset)).toEqual(failed("ECONNRESET"));
    const half = await opened(
      bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", (socket) => socket.end()),
    );
    expect(await tried(half)).toEqual(answered(200, "hello"));
    const { port, close } = await tcpPeer(() => undefined);
    await close();
    expect(await tried({ port })).toEqual(failed("ECONNREFUSED"));
  });

  it.each([
    ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", /^HPE_/],
    ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", /^(?:HPE_|invalid_status)/],
    ["a status that there is not", "HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", /^invalid_status$/],
    ["both lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", /^HPE_/],
    ["headers without end", `HTTP/1.1 200 OK\r\nX: ${"y".repeat(100_000)}`, /^HPE_HEADER_OVERFLOW$/],
    ["a header with a control character", "HTTP/1.1 200 OK\r\nX: \u0001\r\n\r\n", /^HPE_/],
  ])("that answers with %s has failed", async (_what, bytes, code) => {
    const result = await tried(await opened(bytesPeer(bytes)));
    expect(result).toEqual({ kind: "failed", code: expect.stringMatching(code) });
  });

  it("may send interim answers, but not for ever; 101 is an answer", async () => {
    const interim = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    expect(await tried(await opened(bytesPeer(`HTTP/1.1 100 Continue\r\n\r\n${interim}${OK}`)))).toEqual(
      answered(200, ""),
    );
    const flood = await opened(bytesPeer(interim.repeat(1000)));
    expect(await tried(flood)).toEqual(failed("too_many_interim_answers"));
    const upgrade = await opened(
      bytesPeer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    );
    expect(await tried(upgrade)).toEqual(answered(101, ""));
  });

  it("can't answer a later request with more than was asked for", async () => {
    const peer = await opened(bytesPeer(`${OK}HTTP/1.1 201 Another\r\nContent-Length: 0\r\n\r\n`));
    const { attempt } = deliverer();
    for (const id of ["one", "two", "three"]) {
      const result = await attempt(target(at(peer)), BODY, options(id));
      expect(result.kind === "answered" ? result.status : 200).toBe(200);
    }
  });
});
