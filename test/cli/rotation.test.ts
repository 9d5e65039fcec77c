/**
 * A whole rotation of the signing keys by the command line, under two processes of the server behind one address. The relying
 * party is openid-client, with the JWKS that it cached before.
 */
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { decodeProtectedHeader } from "jose";
import * as client from "openid-client";
import { createAuditStore } from "../../records/audit/audit-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { createPositions } from "../../records/deliveries/lanes.ts";
import { createSigningKeyStore } from "../../records/signing-key-store.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { Records } from "../../records/records.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { freePorts, start } from "../examples/processes.ts";
import { configuration, SECRET, Servers } from "../examples/servers.ts";
import { here } from "./here.ts";
import { withStores } from "./stage.ts";

const CALLBACK = "http://127.0.0.1:3001/callback";
const HOUR = 3_600;
const servers = new Servers();
let proxy: Server;
let ports: readonly number[];
let issuer: string;
let config: string;

/** Sends requests to the two processes in turn. */
function openProxy(): Server {
  let turn = 0;
  return createServer((incoming, outgoing) => {
    const { url: path, method, headers } = incoming;
    const port = ports[(turn += 1) % 2];
    const asked = request({ host: "127.0.0.1", port, path, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(asked);
  });
}

beforeEach(async () => {
  proxy = openProxy().listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const base = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  issuer = `${base}/openid`;
  servers.write({ ...configuration(base), storage: `sqlite:${join(servers.folder, "sign-in.db")}` });
  config = join(servers.folder, "config.json");
  const first = await freePorts(2);
  ports = [first, first + 1];
  for (const port of ports)
    await servers.run(["--config", "config.json", "--port", String(port)]).until(/listening on/u);
}, 60_000);
afterEach(async () => {
  proxy.close();
  proxy.closeAllConnections();
});

/** The relying party as in a new process, with a JWKS that it cached `age` seconds ago. */
async function party(cached?: Jwks, age = 0): Promise<client.Configuration> {
  const found = await client.discovery(new URL(issuer), "news", undefined, client.ClientSecretBasic(SECRET), {
    execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks],
  });
  if (cached !== undefined)
    client.setJwksCache(found, { jwks: cached, uat: Math.floor(Date.now() / 1000) - age });
  return found;
}

type Jwks = NonNullable<ReturnType<typeof client.getJwksCache>>["jwks"];

/** Signs in; openid-client verifies the ID token with its JWKS. */
async function signIn(rp: client.Configuration): Promise<string> {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const browser = new Browser({ stopAt: CALLBACK });
  await browser.get(
    client.buildAuthorizationUrl(rp, {
      redirect_uri: CALLBACK,
      scope: "openid",
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: "S256",
    }),
  );
  await browser.submit(browser.form("password"), { username: "ada", password: "analytical-engine" });
  const tokens = await client.authorizationCodeGrant(rp, browser.location!, {
    pkceCodeVerifier,
    idTokenExpected: true,
  });
  return tokens.id_token ?? "";
}

const kidOf = (token: string): string => String(decodeProtectedHeader(token).kid);
const cacheOf = (rp: client.Configuration): Jwks => client.getJwksCache(rp)!.jwks;

/** The status of a sign-out request at each process. */
async function signOut(hint: string): Promise<number[]> {
  const statuses: number[] = [];
  for (const port of ports) {
    const address = `http://127.0.0.1:${port}/openid/oauth2/logout?${new URLSearchParams({ id_token_hint: hint })}`;
    statuses.push((await fetch(address, { headers: { host: new URL(issuer).host } })).status);
  }
  return statuses;
}

interface Key {
  readonly kid: string;
  readonly alg: string;
  readonly state: string;
}

async function keys(): Promise<readonly Key[]> {
  const { code, out, err } = await here(["keys", "list", "--json", "--config", config]);
  expect([code, err]).toEqual([0, ""]);
  return (
    out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Key)
      // The other lines are about secrets.
      .filter(({ kid }) => kid !== undefined)
  );
}

const inState = (all: readonly Key[], state: string): string[] =>
  all.filter((key) => key.state === state && key.alg === "RS256").map(({ kid }) => kid);

/** Lets an hour pass for the keys, and waits until both processes have noticed. */
async function passHour(next: string): Promise<void> {
  await withStores({ storage: `sqlite:${join(servers.folder, "sign-in.db")}` }, async ({ storage }) => {
    const clock = createSystemClock();
    const records = new Records(storage, clock, KINDS);
    const store = createSigningKeyStore(
      records,
      createAuditStore(records, createPositions({ clock }), { retention: 60, signIns: 60 }),
    );
    await store.change(({ keys: all }) => ({
      keys: all.map((key) => ({
        ...key,
        published_at: key.published_at - HOUR,
        signs_from: key.signs_from - HOUR,
        retires_at: key.retires_at && key.retires_at - HOUR,
      })),
      audit: [],
    }));
  });
  await until(([first]) => first === next);
}

/** Waits until this is true of the published keys for RS256 of both processes. The first one signs. */
async function until(isTrue: (kids: readonly string[]) => boolean): Promise<void> {
  for (const port of ports) {
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${port}/openid/oauth2/jwks`);
      const { keys: all } = (await answer.json()) as { keys: Key[] };
      if (isTrue(all.filter(({ alg }) => alg === "RS256").map(({ kid }) => kid))) break;
      await pause(50);
    }
  }
}

/** Runs the program, and kills it after this many milliseconds. */
async function killed(after: number): Promise<void> {
  const running = start("cli/main.ts", { args: ["keys", "rotate", "signing", "--config", config] });
  await pause(after);
  await running.stop("SIGKILL");
}

describe("a relying party with a cached JWKS, at two processes", () => {
  it("notices nothing of a rotation, not even one that was killed, nor of a key that is retired at once [D-KEYS-1, D-KEYS-3, D-KEYS-5]", async () => {
    const first = await party();
    const before = await signIn(first);
    const old = kidOf(before);
    const cached = cacheOf(first);

    // Killed at any moment, the rotation is complete or has not begun.
    for (const after of [350, 600, 850]) {
      await killed(after);
      const all = await keys();
      expect([all.length, inState(all, "signing")]).toEqual([all.length === 4 ? 4 : 8, [old]]);
    }
    const rotate = ["keys", "rotate", "signing", "--json", "--config", config];
    expect((await here(rotate)).code).toBe(0);
    expect((await here(rotate)).code).toBe(0);
    const rotated = await keys();
    expect(rotated).toHaveLength(8);
    const [next = ""] = inState(rotated, "published");

    // The old key signs for an hour. A JWKS from before is enough.
    for (let turn = 0; turn < 2; turn += 1) expect(kidOf(await signIn(await party(cached, 30)))).toBe(old);
    expect(await signOut(before)).toEqual([200, 200]);

    await until((kids) => kids.includes(next));
    // Within the hour the relying party has loaded the JWKS again, as it does every few minutes.
    const later = await party();
    await signIn(later);
    const fresh = cacheOf(later);
    await passHour(next);
    for (let turn = 0; turn < 2; turn += 1) expect(kidOf(await signIn(await party(fresh, 30)))).toBe(next);
    expect(await signOut(before)).toEqual([200, 200]);
    expect(inState(await keys(), "retired")).toEqual([old]);

    // A compromise: the signing key is retired, and another one takes over at once.
    const during = await signIn(await party(fresh, 30));
    expect((await here(["keys", "retire", next, "--yes", "--config", config])).code).toBe(0);
    const [last = ""] = inState(await keys(), "signing");
    expect([old, next]).not.toContain(last);
    await until(([signing]) => signing === last);
    for (let turn = 0; turn < 2; turn += 1) {
      // It does not know the key, and loads the JWKS again: its copy is older than a minute.
      expect(kidOf(await signIn(await party(fresh, 61)))).toBe(last);
    }
    expect(await signOut(during)).toEqual([400, 400]);
    // What the key before it has signed still counts.
    expect(await signOut(before)).toEqual([200, 200]);
  }, 60_000);
});
