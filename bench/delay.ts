/** Simulates the distance to a server: a process that forwards everything to a port, later and in order. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** Milliseconds to sleep at a time. In between, incoming data is read. */
const NAP = 0.05;

interface Sent {
  readonly chunk: Buffer;
  readonly to: Socket;
  /** When the data arrives, by the clock of `performance`. */
  readonly due: number;
}

const { port, milliseconds } = JSON.parse(process.argv[2] ?? "{}") as {
  readonly port: number;
  readonly milliseconds: number;
};
const underWay: Sent[] = [];
const bed = new Int32Array(new SharedArrayBuffer(4));

/** Timers have a resolution of a millisecond. Sleeping leaves the core to the others. */
function deliver(): void {
  const now = performance.now();
  for (let [first] = underWay; first !== undefined && first.due <= now; [first] = underWay) {
    first.to.write(first.chunk);
    underWay.shift();
  }
  const [next] = underWay;
  if (next === undefined) return;
  Atomics.wait(bed, 0, 0, Math.min(next.due - now, NAP));
  setImmediate(deliver);
}

const server = createServer({ noDelay: true }, (from) => {
  const to = connect({ port, host: "127.0.0.1", noDelay: true });
  from.on("data", (chunk: Buffer) => {
    underWay.push({ chunk, to, due: performance.now() + milliseconds });
    if (underWay.length === 1) setImmediate(deliver);
  });
  to.on("data", (chunk: Buffer) => from.write(chunk));
  for (const [socket, other] of [
    [from, to],
    [to, from],
  ] as const) {
    socket.on("error", () => undefined).on("close", () => other.destroy());
  }
});
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
// The parent has ended, so nothing else would end this process.
process.stdin.resume().once("end", () => process.exit(0));
