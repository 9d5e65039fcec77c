/** A round-robin proxy for several app processes. */
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from "node:http";

/** An app process on this machine. */
interface Target {
  readonly port: number;
}

/** A target that refused a connection is skipped for this time. */
const SKIP_MS = 1_000;

const UNAVAILABLE = JSON.stringify({
  error: "temporarily_unavailable",
  error_description: "no process of the service can be reached",
});

/** Headers of the connection, not of the request (RFC 9110 section 7.6.1). */
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

/** Whether the request can go to another target: this one hasn't received it, or repeating it is harmless. */
function mayGoOn(error: NodeJS.ErrnoException, outgoing: ClientRequest): boolean {
  if (error.code === "ECONNREFUSED") return true;
  // The target closed an idle connection while the request was being sent.
  return outgoing.reusedSocket && (outgoing.method === "GET" || outgoing.method === "HEAD");
}

/** Creates the proxy. Requests that change something are sent once. If their outcome is unknown, the client gets a 503. */
export function createProxy(targets: readonly Target[]): RequestListener {
  const agent = new Agent({ keepAlive: true });
  const restingUntil = new Map<Target, number>();
  let first = 0;

  /** All targets, starting with the next one. Skipped targets come last. */
  function nextTargets(): Target[] {
    first = (first + 1) % targets.length;
    const order = [...targets.slice(first), ...targets.slice(0, first)];
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
      if (error.code === "ECONNREFUSED") restingUntil.set(target, performance.now() + SKIP_MS);
      // The body hasn't been read yet, because it is sent only after the connection is open.
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

  return (incoming, response) => pass(incoming, response, nextTargets());
}
