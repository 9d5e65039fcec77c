/** Authlib, a client of another language, as a machine and as a device. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import { programFor } from "../machine.mjs";
import { compare, connect, decide, TELEVISION } from "./devices.ts";
import type { DeviceCodes } from "../../testing/test-client.ts";
import { ADA, useService } from "./running-service.ts";

const python = programFor("Authlib");

const RESOURCE = "https://articles.example/";
const RIGHTS = ["articles:read"];
const SECRET = "the secret of a machine, of 32 and more";
let key: JWK;

const running = useService();

beforeAll(async () => {
  const { directory, clients } = running.service;
  const pair = await generateKeyPair("ES256", { extractable: true });
  key = { ...(await exportJWK(pair.privateKey)), kid: "k" };
  const { d: _private, ...jwk } = key;
  const api = { name: "Articles", service: "1", scopes: { "articles:read": "Read" } };
  await directory.apis.put(RESOURCE, api);
  const machine = { kind: "machine", name: "Job", service: "1", apis: { [RESOURCE]: RIGHTS } } as const;
  await clients.register({ ...machine, client_id: "job", client_secret: SECRET });
  const jwks = { keys: [jwk as Record<string, string>] };
  await clients.register({ ...machine, client_id: "robot", jwks });
  await directory.apis.put(RESOURCE, { ...api, introspection: ["job", "robot"] });
  await clients.register(TELEVISION);
});

/** Runs the program. @param onLine Gets each line as it comes; a device polls after the first. @returns The last line. */
async function run(
  how: string,
  clientId: string,
  credential: string,
  onLine: (line: unknown) => unknown = () => undefined,
): Promise<Record<string, unknown>> {
  const program = join(import.meta.dirname, "authlib-client.py");
  const child = spawn(python, [program, how, running.openid, clientId, RESOURCE], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { CREDENTIAL: credential },
  });
  let last: unknown;
  for await (const line of createInterface({ input: child.stdout })) {
    last = JSON.parse(line);
    await onLine(last);
    if (child.stdin.writable) child.stdin.end("\n");
  }
  return Object(last);
}

describe("Authlib", () => {
  it.each([
    ["machine", "job", () => SECRET],
    ["signed", "robot", () => JSON.stringify(key)],
  ])(
    "gets a token for an API, introspects and revokes it: %s [D-MACHINE-1, D-KEYS-1]",
    async (how, client, credential) => {
      expect(await run(how, client, credential())).toEqual({
        tokens: expect.objectContaining({
          access_token: expect.stringMatching(/^[\w-]{43,}$/),
          token_type: "bearer",
          scope: "articles:read",
        }),
        seen: expect.objectContaining({ active: true, sub: client, aud: RESOURCE, scope: "articles:read" }),
        ended: { active: false },
      });
    },
  );

  it("is told that a secret is wrong", async () => {
    expect(await run("machine", "job", "another secret")).toEqual({ refused: "invalid_client" });
  });

  it("signs in on a device, refreshes and revokes [D-DEVICE-1]", async () => {
    let codes: DeviceCodes | undefined;
    const result = await run("device", TELEVISION.client_id, "", async (line) => {
      if (codes === undefined) codes = line as DeviceCodes;
      // It has polled once.
      else if ("polled" in Object(line)) await connect(codes);
    });
    expect(result).toEqual({
      claims: expect.objectContaining({
        iss: running.openid,
        sub: running.ada.sub,
        aud: TELEVISION.client_id,
      }),
      userinfo: expect.objectContaining({ sub: running.ada.sub, email: ADA.email }),
      again: expect.objectContaining({ sub: running.ada.sub }),
      rotated: true,
      pending: 1,
      ended: 401,
    });
  });

  it("is told that the person refused [D-DEVICE-2]", async () => {
    const result = await run("device", TELEVISION.client_id, "", async (line) => {
      if ("user_code" in Object(line)) await decide(await compare(line as DeviceCodes), "refuse");
    });
    expect(result).toEqual({ refused: "access_denied" });
  });
});
