/** Logout tokens to real receivers that misbehave. */
import { afterEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import { createSignInService } from "../../lib/index.ts";
import { BACKCHANNEL_FAILURES, type ServiceEvents } from "../../core/events.ts";
import { tableAfter, textOf } from "../examples/documents.ts";
import { bodyOf, bytesPeer, httpPeer, type Peer, tcpPeer } from "../notifier/peers.ts";
import type { Pause } from "../../provider/sessions/backchannel-logout.ts";
import { clientAt } from "./clients.ts";
import {
  ADA,
  NEWS,
  type RunningOptions,
  type RunningService,
  startService,
  storageIn,
} from "./running-service.ts";
import { newFolder } from "../closing.ts";

type Failed = ServiceEvents["backchannel.failed"];

const PLANTED = "planted-by-the-receiver";
const LOOPBACK = { notifications: { allowedReceivers: ["127.0.0.1"] } };

const peers: Peer[] = [];
afterEach(async () => {
  pauses.length = 0;
  for (const peer of peers.splice(0)) await peer.close();
});

/** The seconds between attempts, which take no time here. */
const pauses: number[] = [];
const pause: Pause = async (ms) => void pauses.push(ms / 1000);

async function opened(peer: Promise<Peer>): Promise<Peer> {
  peers.push(await peer);
  return peer;
}

const urlOf = ({ port }: Peer): string => `http://127.0.0.1:${port}/logout`;

/** Ada signs in to clients with these addresses in one browser; then her sessions are ended. */
async function endSessions(
  { service, ...rest }: RunningService,
  addresses: Readonly<Record<string, string>>,
): Promise<void> {
  const browser = clientAt(rest, "openid", NEWS).browser();
  for (const [client_id, backchannel_logout_uri] of Object.entries(addresses)) {
    const client = { ...NEWS, client_id };
    await service.clients.register({ ...client, backchannel_logout_uri });
    await clientAt(rest, "openid", client).code({ ...ADA, browser }, { scope: "openid" });
  }
  await service.accounts.endSessions(rest.ada.sub);
}

/** Collects the given number of events. */
function failures({ service }: RunningService, count: number): Promise<Failed[]> {
  const { promise, resolve } = Promise.withResolvers<Failed[]>();
  const found: Failed[] = [];
  service.events.on("backchannel.failed", (failed) => {
    found.push(failed);
    if (found.length === count) resolve(found.toSorted((a, b) => a.client_id.localeCompare(b.client_id)));
  });
  return promise;
}

/** The warnings in the log. */
const warnings = ({ log }: RunningService): string[] =>
  log.flatMap((line) => {
    const { level, msg } = JSON.parse(line) as { level: number; msg: string };
    return level === 40 && msg.includes("was not notified") ? [msg] : [];
  });

/** What is not zero. */
const counted = async ({ service }: RunningService): Promise<string[]> =>
  [...(await service.metrics()).matchAll(/^sign_in_backchannel_logouts_total\{.* [1-9]\d*$/gm)]
    .map(([line]) => line)
    .toSorted();

describe("a back-channel logout", () => {
  it("fails after three attempts: a warning, an event and a metric, each with the reason [D-BACKCHANNEL-1, D-ACCOUNT-16]", async () => {
    const tokens: string[] = [];
    const answering = await opened(
      httpPeer((request, response) => {
        void bodyOf(request).then((body) => {
          tokens.push(new URLSearchParams(body).get("logout_token") ?? "");
          return response.writeHead(500, PLANTED).end(PLANTED);
        });
      }),
    );
    const redirecting = await opened(
      bytesPeer("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    );
    const hanging = await opened(tcpPeer(() => undefined));
    const slow = await opened(bytesPeer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"));
    const breaking = await opened(tcpPeer((socket) => void socket.destroy()));
    const talking = await opened(bytesPeer(`${PLANTED}\r\n\r\n`));
    const closed = await httpPeer(() => undefined);
    await closed.close();
    const service = await startService({ config: LOOPBACK, pause });
    const failed = failures(service, 7);
    await endSessions(service, {
      "a-500": urlOf(answering),
      "b-redirect": urlOf(redirecting),
      "c-hangs": urlOf(hanging),
      "d-slow": urlOf(slow),
      "e-breaks": urlOf(breaking),
      "f-talks": urlOf(talking),
      "g-closed": urlOf(closed),
    });
    expect(await failed).toEqual([
      { client_id: "a-500", reason: "status", attempts: 3 },
      { client_id: "b-redirect", reason: "status", attempts: 3 },
      { client_id: "c-hangs", reason: "timeout", attempts: 3 },
      { client_id: "d-slow", reason: "timeout", attempts: 3 },
      { client_id: "e-breaks", reason: "connection", attempts: 3 },
      { client_id: "f-talks", reason: "connection", attempts: 3 },
      { client_id: "g-closed", reason: "connection", attempts: 3 },
    ]);
    expect(pauses.toSorted((one, other) => one - other)).toEqual([...Array(7).fill(2), ...Array(7).fill(10)]);
    expect(new Set(tokens.map((token) => decodeJwt(token).jti)).size).toBe(3);
    expect(warnings(service)).toHaveLength(7);
    expect(warnings(service)).toContain(
      "a-500 was not notified that a session ended (status, after 3 attempts)",
    );
    expect(await counted(service)).toEqual([
      'sign_in_backchannel_logouts_total{result="failed",reason="connection"} 3',
      'sign_in_backchannel_logouts_total{result="failed",reason="status"} 2',
      'sign_in_backchannel_logouts_total{result="failed",reason="timeout"} 2',
    ]);
    expect(service.log.join()).not.toContain(PLANTED);
  });

  it("that succeeds at the second attempt has not failed [D-BACKCHANNEL-1]", async () => {
    const statuses = [503, 204];
    const peer = await opened(
      httpPeer((_request, response) => void response.writeHead(statuses.shift() ?? 500).end()),
    );
    const service = await startService({ config: LOOPBACK, pause });
    const { promise: delivered, resolve } = Promise.withResolvers<unknown>();
    service.service.events.on("backchannel.delivered", resolve);
    await endSessions(service, { patient: urlOf(peer) });
    expect(await delivered).toEqual({ client_id: "patient", attempts: 2 });
    expect(warnings(service)).toEqual([]);
    expect(await counted(service)).toEqual(['sign_in_backchannel_logouts_total{result="delivered"} 1']);
  });

  const REFUSING: [what: string, config: NonNullable<RunningOptions["config"]>][] = [
    ["no receiver is allowed", {}],
    ["others are allowed", { notifications: { allowedReceivers: ["10.0.0.0/8", "localhost"] } }],
  ];
  it.each(REFUSING)(
    "to a refused address fails immediately, without a request: %s [D-BACKCHANNEL-1, D-ACCOUNT-16, D-NOTIFY-18]",
    async (_what, config) => {
      const requests: unknown[] = [];
      const peer = await opened(
        httpPeer((request, response) => {
          requests.push(request);
          response.end();
        }),
      );
      const service = await startService({ config });
      const failed = failures(service, 1);
      await endSessions(service, { inside: urlOf(peer) });
      expect(await failed).toEqual([{ client_id: "inside", reason: "refused_address", attempts: 1 }]);
      expect(warnings(service)).toEqual([
        "inside was not notified that a session ended (refused_address, after 1 attempt)",
      ]);
      expect(await counted(service)).toEqual([
        'sign_in_backchannel_logouts_total{result="failed",reason="refused_address"} 1',
      ]);
      expect(requests).toEqual([]);
    },
  );

  it("that waits for a retry fails in the same way when the service closes [D-BACKCHANNEL-1]", async () => {
    const { promise: firstAttempt, resolve } = Promise.withResolvers<void>();
    const peer = await opened(
      httpPeer((_request, response) => void response.writeHead(500).end(() => resolve())),
    );
    const service = await startService({ config: LOOPBACK });
    const failed = failures(service, 1);
    await endSessions(service, { late: urlOf(peer) });
    await firstAttempt;
    await service.close();
    expect(await failed).toEqual([{ client_id: "late", reason: "status", attempts: 1 }]);
    expect(warnings(service)).toHaveLength(1);
  });

  it("needs the OpenID Connect deployment: without it no client gets an address, and no server starts with one [D-BACKCHANNEL-3]", async () => {
    const address = "http://127.0.0.1:9/logout";
    const settings = { ...NEWS, client_id: "told" };
    const withoutIssuer = await startService({ deployments: (url) => ({ oauth2: { url } }) });
    const { clients } = withoutIssuer.service;
    const needs = /backchannel_logout_uri: needs the openid deployment/;
    await expect(clients.register({ ...settings, backchannel_logout_uri: address })).rejects.toThrow(needs);
    await expect(clients.update("news", { backchannel_logout_uri: address })).rejects.toThrow(needs);
    await clients.update("news", { backchannel_logout_uri: null, name: "News" });
    await withoutIssuer.close();
    const folder = newFolder();
    const kept = await storageIn(folder);
    const withIssuer = await startService({ config: kept, deployments: (url) => ({ openid: { url } }) });
    await withIssuer.service.clients.register({ ...settings, backchannel_logout_uri: address });
    await withIssuer.close();
    const { origin } = withIssuer;
    await expect(createSignInService({ ...kept, deployments: { oauth2: { url: origin } } })).rejects.toThrow(
      "config.deployments.openid: is required: the clients told get logout tokens",
    );
  });

  it("has the documented events, labels and reasons [D-BACKCHANNEL-1]", () => {
    const page = "docs/connect/sign-in/sign-users-out.md";
    const reasons = tableAfter(page, "`sign_in_backchannel_logouts_total` have a reason:").map(
      ([word]) => word,
    );
    expect(reasons).toEqual([...BACKCHANNEL_FAILURES]);
    const events = [...textOf(page).matchAll(/`(backchannel\.\w+)`/gu)].map(([, name]) => name);
    const known: readonly (keyof ServiceEvents)[] = ["backchannel.delivered", "backchannel.failed"];
    expect(events).toEqual(known);
  });
});
