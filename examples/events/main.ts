/**
 * Receives account events: npx node examples/events/main.ts --port 4000
 *
 * The secret is that of `events.receivers.crm.signing_secret`, in the environment variable SIGNING_SECRET.
 */
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { parseArguments, toPort } from "../arguments.ts";
import { endOnSignal } from "../ending.ts";

/** The secret of the documentation. Choose another one. */
const { SIGNING_SECRET = "whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlciBvZiB0aGUgY3Jt" } = process.env;

interface AccountEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly data: { readonly sub?: string; readonly user_id?: number };
}

/** The IDs of the events that were handled. A real system keeps them in the database that it changes. */
const handled = new Set<string>();

function handle({ type, timestamp, data }: AccountEvent): void {
  console.log(timestamp, type, JSON.stringify(data));
}

const server = createServer((request, response) => {
  void (async () => {
    const body = await text(request);
    const {
      "webhook-id": id = "",
      "webhook-timestamp": at = "",
      "webhook-signature": by = "",
    } = request.headers;
    const headers = {
      "webhook-id": String(id),
      "webhook-timestamp": String(at),
      "webhook-signature": String(by),
    };
    let event: AccountEvent;
    try {
      event = new Webhook(SIGNING_SECRET).verify(body, headers) as AccountEvent;
    } catch {
      response.writeHead(401).end();
      return;
    }
    // The same event may arrive twice.
    if (!handled.has(headers["webhook-id"])) handle(event);
    handled.add(headers["webhook-id"]);
    response.writeHead(200).end();
  })();
});

const { port = "4000" } = parseArguments(process.argv.slice(2), { port: { type: "string" } });
server.listen(toPort(port), "127.0.0.1", () => {
  const address = server.address();
  console.log(`receiving events at http://127.0.0.1:${typeof address === "object" ? address?.port : port}/`);
});
endOnSignal(async () => void server.close());
