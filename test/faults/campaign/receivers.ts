/** The receivers of a campaign: real servers that misbehave until they recover, and record what arrived. */
import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Webhook } from "standardwebhooks";
import { bodyOf } from "../../notifier/peers.ts";
import { credentialsOf, type Manner, type Receiver, RECEIVERS } from "./directory.ts";
import type { Random } from "./random.ts";

/** A POST that was read to its end. */
export interface Arrival {
  readonly receiver: string;
  /** `webhook-id`. */
  readonly id: string;
  readonly body: string;
  /** It was answered with 200. */
  readonly taken: boolean;
  /** In milliseconds since the epoch. */
  readonly at: number;
}

export interface Receivers {
  /** In the order in which they came. */
  readonly arrivals: readonly Arrival[];
  /** How many of them had arrived before. */
  repeats(): number;
  /** What was wrong with requests: the method, the credentials or the signature. */
  readonly faults: readonly string[];
  url(receiver: string): string;
  /** From now on all of them answer 200. */
  recover(): void;
  close(): Promise<void>;
}

const PATH = "/notify";
type Span = readonly [least: number, most: number];

/** Milliseconds for which a receiver hangs, and of the break after it. */
const HANGING: Span = [3000, 6000];
const BREAK: Span = [500, 1500];

/** How one request is answered. */
type Answer = "take" | "fail" | "nothing" | "cut" | "cut head" | "cut body";

/** What a receiver of this manner does with its next request. */
function createMood(manner: Manner, random: Random): () => Answer {
  let hanging = false;
  let until = 0;
  function inSpell(): boolean {
    if (Date.now() < until) return hanging;
    hanging = !hanging;
    until = Date.now() + random.between(...(hanging ? HANGING : BREAK));
    return hanging;
  }
  const moods: Readonly<Record<Manner, () => Answer>> = {
    answers: () => "take",
    fails: () => (random.chance(0.5) ? "fail" : "take"),
    closes: () => (random.chance(0.6) ? random.pick(["cut", "cut head", "cut body"]) : "take"),
    hangs: () => (inSpell() ? "nothing" : "take"),
  };
  return moods[manner];
}

/** Answers a request. @returns whether the sender could see a 200. */
function give(answer: Answer, response: ServerResponse): boolean {
  const socket = response.socket as Socket;
  if (answer === "take") response.writeHead(200).end();
  else if (answer === "fail") response.writeHead(500).end("out of order");
  else if (answer === "cut") socket.destroy();
  else if (answer === "cut head") socket.end("HTTP/1.1 200 OK\r\nContent-Le");
  else if (answer === "cut body") socket.end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  // The status is the answer, whatever happens to the body after it.
  return answer === "take" || answer === "cut body";
}

const same = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));

/** What is wrong with a request of this receiver. */
function createInspection(
  receiver: Receiver,
): (request: IncomingMessage, body: string) => string | undefined {
  const { client_id, client_secret, signing_secret } = credentialsOf(receiver);
  const expected = `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`;
  const webhook = signing_secret === undefined ? undefined : new Webhook(signing_secret);
  return ({ method, url, headers }, body) => {
    if (method !== "POST" || url !== PATH) return `${method} ${url}`;
    if (!same(headers.authorization ?? "", expected)) return "credentials";
    if (headers["content-type"] !== "application/json") return "content-type";
    if (webhook === undefined) return headers["webhook-signature"] === undefined ? undefined : "signature";
    try {
      webhook.verify(body, headers as Record<string, string>);
      return undefined;
    } catch {
      return "signature";
    }
  };
}

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
}

export async function openReceivers(random: Random): Promise<Receivers> {
  const arrivals: Arrival[] = [];
  const faults: string[] = [];
  const ids = new Set<string>();
  const servers: Server[] = [];
  const urls = new Map<string, string>();
  let recovered = false;
  for (const receiver of RECEIVERS) {
    const { name, manner } = receiver;
    const inspect = createInspection(receiver);
    const mood = createMood(manner, random);
    const server = createServer((request, response) => {
      const read = async (): Promise<void> => {
        const body = await bodyOf(request);
        const fault = inspect(request, body);
        if (fault !== undefined) faults.push(`${name}: ${fault}`);
        const taken = give(recovered ? "take" : mood(), response);
        const id = String(request.headers["webhook-id"]);
        ids.add(id);
        arrivals.push({ receiver: name, id, body, taken, at: Date.now() });
      };
      // A request that its killed sender did not finish does not count.
      read().catch(() => undefined);
    });
    if (manner === "closes") {
      server.on("connection", (socket) => void (!recovered && random.chance(0.1) && socket.destroy()));
    }
    await listen(server);
    servers.push(server);
    urls.set(name, `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`);
  }
  return {
    arrivals,
    faults,
    repeats: () => arrivals.length - ids.size,
    url: (name) => urls.get(name) ?? "",
    recover() {
      recovered = true;
    },
    async close() {
      const closed = servers.map((server) => {
        const end = new Promise((resolve) => void server.close(resolve));
        server.closeAllConnections();
        return end;
      });
      await Promise.all(closed);
    },
  };
}
