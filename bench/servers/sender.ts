/** Sends notifications for a number of seconds, and responds with their rate. */
import { createHmac, randomUUID } from "node:crypto";
import { Agent, request as httpRequest } from "node:http";
import { createDeliverer } from "../../notifier/sending/deliver.ts";
import { CREDENTIALS, documentedBody, SIGNING_SECRET } from "./notices.ts";
import { serve } from "./ready.ts";

interface Options {
  /** `deliver`: an attempt of a delivery. `bare`: `http.request` with an agent that keeps connections. */
  readonly kind: "deliver" | "bare";
  readonly signed: boolean;
  readonly url: string;
  /** Parallel requests. */
  readonly parallel: number;
}

const BODY = JSON.stringify(documentedBody("b5c6ab5e-0e4c-4d7c-8f0a-4f3e8d9f2c11"));

function bare({ url, parallel, signed }: Options): () => Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: parallel, maxFreeSockets: parallel });
  const key = Buffer.from(SIGNING_SECRET.slice("whsec_".length), "base64");
  const { client_id, client_secret } = CREDENTIALS;
  const common = {
    authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(BODY),
  };
  const signature = (): Record<string, string> => {
    const id = randomUUID();
    const timestamp = String(Math.floor(Date.now() / 1000));
    const digest = createHmac("sha256", key).update(`${id}.${timestamp}.${BODY}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${digest}` };
  };
  return () =>
    new Promise((resolve, reject) => {
      const headers = signed ? { ...common, ...signature() } : common;
      const request = httpRequest(url, { method: "POST", agent, headers }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      });
      request.on("error", reject);
      request.end(BODY);
    });
}

function deliver({ url, parallel, signed }: Options): () => Promise<number> {
  const { attempt } = createDeliverer({
    settings: {
      timeouts: { connect: 5, total: 15 },
      concurrency: { total: parallel, perReceiver: parallel },
      allowedReceivers: ["127.0.0.1"],
    },
    clock: { now: Date.now },
  });
  const target = { url, ...CREDENTIALS, signing_secrets: signed ? [SIGNING_SECRET] : [] };
  const { signal } = new AbortController();
  return async () => {
    const result = await attempt(target, BODY, { id: randomUUID(), signal });
    return result.kind === "answered" ? result.status : 0;
  };
}

const given = JSON.parse(process.argv[2] ?? "{}") as Options;
const send = given.kind === "bare" ? bare(given) : deliver(given);

async function sendFor(seconds: number): Promise<number> {
  const began = performance.now();
  const end = began + seconds * 1000;
  let sent = 0;
  const one = async (): Promise<void> => {
    while (performance.now() < end) {
      if ((await send()) !== 200) throw new Error("a notification was not taken");
      sent += 1;
    }
  };
  await Promise.all(Array.from({ length: given.parallel }, one));
  return (sent * 1000) / (performance.now() - began);
}

await serve(async () => ({
  handle: (request, response) => {
    const seconds = Number(new URL(request.url ?? "/", given.url).searchParams.get("seconds"));
    void sendFor(seconds).then(
      (rate) => response.end(String(rate)),
      () => response.writeHead(500).end(),
    );
  },
}));
