/** A receiver that notes what arrives: `/take/NAME` answers at once, `/hang` never, `/fail` with 500. */
import type { IncomingMessage } from "node:http";
import { machineTime, obey } from "./commands.ts";
import { serve } from "./ready.ts";

interface Arrival {
  readonly at: number;
  readonly receiver: string;
  readonly id: string;
  readonly body: Buffer;
}

/** Milliseconds after which a notification that has not come is not waited for any more. */
const PATIENCE = 120_000;

let arrivals: Arrival[] = [];
/** Until that many have arrived. */
let expected: { readonly count: number; readonly come: () => void } | undefined;

function note(request: IncomingMessage, body: Buffer): void {
  const { url = "", headers } = request;
  const id = String(headers["webhook-id"]);
  arrivals.push({ at: machineTime(), receiver: url.slice("/take/".length), id, body });
  if (arrivals.length === expected?.count) expected.come();
}

/** Arrivals in a second, from the first to the last one after `from`: a worker may have had one in its hands. */
function rate(from: number): number {
  const times = arrivals.map(({ at }) => at).filter((at) => at >= from);
  return ((times.length - 1) * 1000) / ((times.at(-1) ?? from) - (times[0] ?? from));
}

function come(count: number): Promise<void> {
  if (arrivals.length >= count) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${arrivals.length} of ${count} came`)), PATIENCE);
    expected = {
      count,
      come() {
        clearTimeout(late);
        resolve();
      },
    };
  });
}

const commands = obey({
  async reset() {
    arrivals = [];
    expected = undefined;
  },
  /** Waits for `count` arrivals; how many there were in a second, and how many of them are different. */
  async arrived(options) {
    await come(Number(options.get("count")));
    return {
      perSecond: rate(Number(options.get("from"))),
      different: new Set(arrivals.map(({ id }) => id)).size,
    };
  },
  /** What arrived until now: receiver, user, and when. */
  arrivals: async () =>
    arrivals.map(({ receiver, body, at }) => {
      const { data } = JSON.parse(body.toString()) as { readonly data: { readonly user_uuid: string } };
      return [receiver, data.user_uuid, at];
    }),
});

await serve(async () => ({
  handle(request, response) {
    const { url = "" } = request;
    if (request.method === "GET") {
      commands(request, response);
      return;
    }
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (url === "/hang") return;
      if (url === "/fail") response.statusCode = 500;
      else note(request, Buffer.concat(chunks));
      response.end();
    });
  },
}));
