/** A minimal BullMQ worker for comparison: the job is the message, and the worker sends it in one POST. */
import { createHmac, randomUUID } from "node:crypto";
import { Agent, request as httpRequest } from "node:http";
import { Queue, Worker } from "bullmq";
import { obey } from "./commands.ts";
import { CREDENTIALS, documentedBody, SIGNING_SECRET } from "./notices.ts";
import { paced } from "./paced.ts";
import { serve } from "./ready.ts";

interface Options {
  readonly redis: string;
  readonly url: string;
  readonly concurrency: number;
  /** `queue`: adds jobs for another process. Default: also works on them. */
  readonly role?: "queue";
}

interface Message {
  readonly id: string;
  readonly body: string;
}

const QUEUE = "bare";
/** Jobs that are added in one step. */
const STEP = 500;

const { redis, url, concurrency, role } = JSON.parse(process.argv[2] ?? "{}") as Options;
const agent = new Agent({ keepAlive: true, maxSockets: concurrency, maxFreeSockets: concurrency });
const key = Buffer.from(SIGNING_SECRET.slice("whsec_".length), "base64");
const basic = Buffer.from(`${CREDENTIALS.client_id}:${CREDENTIALS.client_secret}`).toString("base64");

function post({ id, body }: Message): Promise<number> {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const digest = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const headers = {
    authorization: `Basic ${basic}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${digest}`,
  };
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method: "POST", agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const { hostname, port } = new URL(redis);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue<Message>(QUEUE, { connection });
const worker =
  role === "queue"
    ? undefined
    : new Worker<Message>(
        QUEUE,
        async ({ data }) => {
          if ((await post(data)) !== 200) throw new Error("a notification was not taken");
        },
        { connection, concurrency },
      );
worker?.on("error", (error) => console.error(error.message));

/** The options for a message that must not be lost at the first failure. */
const opts = {
  attempts: 10,
  backoff: { type: "exponential", delay: 5_000 },
  removeOnComplete: true,
} as const;

function message(user: string = randomUUID()): Message {
  return { id: `msg_${randomUUID()}`, body: JSON.stringify(documentedBody(user)) };
}

await serve(async () => ({
  handle: obey({
    async fill(options) {
      await worker?.pause();
      for (let left = Number(options.get("count")); left > 0; left -= STEP) {
        const length = Math.min(left, STEP);
        await queue.addBulk(Array.from({ length }, () => ({ name: "send", data: message(), opts })));
      }
    },
    async release() {
      await worker?.resume();
    },
    /** Adds `perSecond` jobs for a number of `seconds`. */
    pace(options) {
      const perSecond = Number(options.get("perSecond"));
      const users = Array.from({ length: perSecond * Number(options.get("seconds")) }, () => randomUUID());
      return paced(users, perSecond, (user) => queue.add("send", message(user), opts));
    },
  }),
  async close() {
    await worker?.close();
    await queue.close();
  },
}));
