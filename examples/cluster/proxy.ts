/** A proxy in front of several app processes: one request after the other goes to the next of them. */
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from "node:http";

/** Somewhere on this machine. */
export interface Target {
  readonly port: number;
}

/** Milliseconds for which a target that did not take a connection is passed over. */
const REST = 1_000;

const UNAVAILABLE = JSON.stringify({
  error: "temporarily_unavailable",
  error_description: "no process of the service can be reached",
});

/** What belongs to a connection and not to the request (RFC 9110 section 7.6.1). */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
]);

function headersFor({ headers, socket }: IncomingMessage): NodeJS.Dict<string | string[]> {
  const kept = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name));
  const before = headers["x-forwarded-for"];
  const address = socket.remoteAddress ?? "";
  return {
    ...Object.fromEntries(kept),
    ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
    "x-forwarded-for": before === undefined ? address : `${String(before)}, ${address}`,
  };
}

function answerUnavailable(response: ServerResponse): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(503, {
    "content-type": "application/json",
    "retry-after": "1",
    "cache-control": "no-store",
  });
  response.end(UNAVAILABLE);
}

/** Whether the target cannot have begun with the request, or did nothing that a second time would change. */
function mayGoOn(error: NodeJS.ErrnoException, outgoing: ClientRequest): boolean {
  if (error.code === "ECONNREFUSED") return true;
  // A kept connection that was closed while the request was on its way.
  return outgoing.reusedSocket && (outgoing.method === "GET" || outgoing.method === "HEAD");
}

/** What changes something is sent once: where it is not known what became of it, the answer is 503. */
export function createProxy(targets: readonly Target[]): RequestListener {
  const agent = new Agent({ keepAlive: true });
  const restingUntil = new Map<Target, number>();
  let turn = 0;

  /** All of them, the next one first; those that rest at the end. */
  function inTurn(): Target[] {
    turn = (turn + 1) % targets.length;
    const order = [...targets.slice(turn), ...targets.slice(0, turn)];
    const rests = (target: Target): boolean => (restingUntil.get(target) ?? 0) > performance.now();
    return [...order.filter((target) => !rests(target)), ...order.filter(rests)];
  }

  function pass(
    incoming: IncomingMessage,
    response: ServerResponse,
    [target, ...others]: readonly Target[],
  ): void {
    if (target === undefined) {
      answerUnavailable(response);
      return;
    }
    const { method, url } = incoming;
    const where = { host: "127.0.0.1", port: target.port, path: url, agent };
    const outgoing = request({
      ...where,
      ...(method !== undefined && { method }),
      headers: headersFor(incoming),
    });
    outgoing.once("response", (answer) => {
      const headers = Object.entries(answer.headers).filter(([name]) => !OF_CONNECTION.has(name));
      response.writeHead(answer.statusCode ?? 502, Object.fromEntries(headers));
      answer.pipe(response);
      answer.once("error", () => response.destroy());
    });
    outgoing.once("error", (error: NodeJS.ErrnoException) => {
      if (response.headersSent || !mayGoOn(error, outgoing)) {
        answerUnavailable(response);
        return;
      }
      if (error.code === "ECONNREFUSED") restingUntil.set(target, performance.now() + REST);
      // Nothing of a body has been read: it is sent when there is a connection.
      pass(incoming, response, others);
    });
    outgoing.once("socket", (socket) => {
      if (socket.connecting) socket.once("connect", () => void incoming.pipe(outgoing));
      else incoming.pipe(outgoing);
    });
    response.once("close", () => {
      if (!response.writableFinished) outgoing.destroy();
    });
  }

  return (incoming, response) => pass(incoming, response, inTurn());
}
