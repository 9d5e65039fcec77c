/** What the tests of one attempt stand on: a deliverer, a receiver to send to, and what is closed after each test. */
import { afterEach, expect } from "@jest/globals";
import { createSystemClock } from "../../core/clock.ts";
import type { AttemptTarget } from "../../notifier/sending/deliver.ts";
import { createDeliverer, type Deliverer, type DelivererOptions } from "../../notifier/sending/deliver.ts";
import type { Peer } from "./peers.ts";

export const SECRET: string = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
export const OLD_SECRET: string = `whsec_${Buffer.alloc(24, 9).toString("base64")}`;
/** A documented body, with a character of more than one byte. */
export const BODY =
  '{"notification_type":"PROFILE_CHANGED","data":{"user_id":1,"user_uuid":"b5c6ab5e-0e4c-4d7c-8f0a-4f3e8d9f2c11","user_email":"łucja@example.com","timestamp":1763000000,"services":{"2":null,"1":1102020202}}}';
export const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of cleanUp.splice(0).toReversed()) await end();
});

/** Runs after the test. */
export function afterwards(end: () => unknown): void {
  cleanUp.push(end);
}

export async function opened(peer: Promise<Peer>): Promise<Peer> {
  const known = await peer;
  afterwards(() => known.close());
  return known;
}

export type Settings = Partial<DelivererOptions["settings"]> & Partial<Omit<DelivererOptions, "settings">>;

/** With the defaults of the configuration, and loopback allowed. */
export function deliverer({
  clock = createSystemClock(),
  resolve,
  ca,
  ...settings
}: Settings = {}): Deliverer {
  const made = createDeliverer({
    settings: {
      timeouts: { connect: 5, total: 15 },
      concurrency: { total: 50, perReceiver: 10 },
      allowedReceivers: ["127.0.0.1"],
      ...settings,
    },
    clock,
    ...(resolve === undefined ? {} : { resolve }),
    ...(ca === undefined ? {} : { ca }),
  });
  afterwards(() => made.close());
  return made;
}

export function target(url: string, settings: Partial<AttemptTarget> = {}): AttemptTarget {
  return {
    url,
    client_id: "news",
    client_secret: "a secret of news",
    signing_secrets: [SECRET],
    ...settings,
  };
}

export const at = ({ port }: Pick<Peer, "port">, path = "/notify"): string =>
  `http://127.0.0.1:${port}${path}`;

export const options = (
  id = "msg_1",
  signal: AbortSignal = new AbortController().signal,
): { readonly id: string; readonly signal: AbortSignal } => ({ id, signal });

/** An attempt at what the receiver does, with a short time-out; without its times. */
export async function tried(peer: Pick<Peer, "port">, settings: Settings = {}): Promise<unknown> {
  const { attempt } = deliverer({ timeouts: { connect: 5, total: 0.5 }, ...settings });
  const {
    startedAt: _startedAt,
    duration: _duration,
    ...result
  } = await attempt(target(at(peer)), BODY, options());
  return result;
}

export const failed = (code: string): object => ({ kind: "failed", code });
export const answered = (status: number, answer: string): object => ({ kind: "answered", status, answer });
export const refused = (reason: string): object => ({
  kind: "refused",
  reason: expect.stringContaining(reason) as unknown,
});
