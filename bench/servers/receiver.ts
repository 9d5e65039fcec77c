/** A receiver that records arrivals: `/take/NAME` responds immediately, `/hang` never, `/fail` with 500. */
import type { IncomingMessage } from "node:http";
import { machineTime, obey } from "./commands.ts";
import { serve } from "./ready.ts";

interface Arrival {
  readonly at: number;
  readonly receiver: string;
  readonly id: string;
  readonly body: Buffer;
}

const ARRIVAL_TIMEOUT_MS = 120_000;

let arrivals: Arrival[] = [];
/** Waits for this many arrivals. */
let expected: { readonly count: number; readonly come: () => void } | undefined;

function note(request: IncomingMessage, body: Buffer): void {
  const { url = "", headers } = request;
  const id = String(headers["webhook-id"]);
  arrivals.push({ at: machineTime(), receiver: url.slice("/take/".length), id, body });
  if (arrivals.length === expected?.count) expected.come();
}

/**
 * Arrivals per second, from the first to the last one after `from`. Earlier ones don't count, because a worker may have
 * had one in flight.
 */
function rate(from: number): number {
  const times = arrivals.map(({ at }) => at).filter((at) => at >= from);
  return ((times.length - 1) * 1000) / ((times.at(-1) ?? from) - (times[0] ?? from));
}

function come(count: number): Promise<void> {
  if (arrivals.length >= count) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error(`${arrivals.length} of ${count} came`)),
      ARRIVAL_TIMEOUT_MS,
    );
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
  /** Waits for `count` arrivals. Returns their rate, and how many are different. */
  async arrived(options) {
    await come(Number(options.get("count")));
    return {
      perSecond: rate(Number(options.get("from"))),
      different: new Set(arrivals.map(({ id }) => id)).size,
    };
  },
  /** All arrivals: receiver, user and time. */
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
