/** Our own load generator, a process of its own: a job as JSON on standard input, the result on standard output. */
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";

interface Job {
  readonly port: number;
  readonly connections: number;
  readonly requests: readonly {
    readonly method: string;
    readonly target: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
  }[];
  readonly seconds?: number;
  readonly status: number;
  readonly find?: string;
}

const END_OF_HEAD = "\r\n\r\n";

/** The bytes of a request, as a client with a connection that it keeps sends them. */
function bytesOf(port: number, { method, target, headers, body = "" }: Job["requests"][number]): string {
  const all = { host: `127.0.0.1:${port}`, ...headers };
  const length = method === "POST" ? { "content-length": String(Buffer.byteLength(body)) } : {};
  const lines = Object.entries({ ...all, ...length }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** Reads whole answers off a connection; every server here says how long its body is, or chunks it. */
function onAnswers(socket: Socket, tell: (answer: string) => void): void {
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

async function perform(job: Job): Promise<{ perSecond: number; found: string[] }> {
  const requests = job.requests.map((request) => bytesOf(job.port, request));
  const find = job.find === undefined ? undefined : new RegExp(job.find);
  const found: string[] = [];
  let next = 0;
  let answered = 0;
  const began = performance.now();
  const end = job.seconds === undefined ? Infinity : began + job.seconds * 1000;
  const take = (): string | undefined => {
    if (job.seconds === undefined ? next >= requests.length : performance.now() >= end) return undefined;
    next += 1;
    return requests[(next - 1) % requests.length];
  };
  const work = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect({ port: job.port, host: "127.0.0.1", noDelay: true });
      const go = (): void => {
        const request = take();
        if (request === undefined) socket.end(resolve);
        else socket.write(request, "latin1");
      };
      socket.once("error", reject).once("connect", go);
      onAnswers(socket, (answer) => {
        if (Number(answer.slice(9, 12)) !== job.status) {
          socket.destroy();
          reject(new Error(`an answer other than ${job.status}: ${answer.slice(0, 600)}`));
          return;
        }
        answered += 1;
        const match = find?.exec(answer)?.[1];
        if (match !== undefined) found.push(match);
        go();
      });
    });
  await Promise.all(Array.from({ length: job.connections }, work));
  return { perSecond: answered / ((performance.now() - began) / 1000), found };
}

console.log(JSON.stringify(await perform(JSON.parse(await text(process.stdin)) as Job)));
