/** The load generator, a separate process: a job as JSON on standard input, the result on standard output. */
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import type { LoadRequest, LoadResult } from "./load.ts";
import { bytesOf, onAnswers } from "./wire.ts";

interface Job {
  readonly port: number;
  readonly connections: number;
  readonly requests: readonly LoadRequest[];
  readonly seconds?: number;
  readonly status: number;
  readonly find?: string;
}

async function perform(job: Job): Promise<LoadResult> {
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
  return { perSecond: answered / ((performance.now() - began) / 1000), answered, found };
}

console.log(JSON.stringify(await perform(JSON.parse(await text(process.stdin)) as Job)));
