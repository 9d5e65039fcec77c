/** A `client_id` and the `sub` of an account are never the same, also once the account is deleted. */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { applySeed } from "../../lib/index.ts";
import { basic, send } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { ADA, NEWS, useService } from "./running-service.ts";
import { API, ARTICLES, READER, registerReader, RIGHTS } from "./sample-apis.ts";
import type { NewMachineClient } from "../../accounts/clients/client-schema.ts";

const running = useService();

const register = (client_id: string) => running.service.clients.register({ ...NEWS, client_id });
const importAs = (sub: string) => running.service.accounts.import({ sub, email: `${sub}@example.com` });
const seeded = (client_id: string) => applySeed(running.service, { clients: [{ ...NEWS, client_id }] });

const TAKEN = { code: "already_exists" };
const BY_ACCOUNT = { ...TAKEN, message: "an account that has, or had, this sub exists already" };

describe("a client_id that is a UUID", () => {
  it.each(["oauth2", "openid"] as const)("signs people in on %s [D-IDENTIFIER-2]", async (kind) => {
    for (const client_id of [randomUUID(), randomUUID().toUpperCase()]) {
      await (kind === "oauth2" ? register(client_id) : seeded(client_id));
      const party = clientAt(running, kind, { ...NEWS, client_id });
      const tokens = await party.signIn(ADA);
      expect((await party.userinfo(tokens.access_token)).status).toBe(200);
      expect((await party.refresh(tokens.refresh_token)).status).toBe(200);
    }
  });

  it("is the sub of a machine's tokens, and no account's [D-IDENTIFIER-2]", async () => {
    await registerReader(running);
    await running.service.directory.apis.put(ARTICLES, API);
    const client_id = randomUUID();
    const client_secret = "the secret of a machine, of 32 and more";
    const apis = { [ARTICLES]: RIGHTS };
    const machine: NewMachineClient = {
      kind: "machine",
      client_id,
      client_secret,
      name: "Job",
      service: "2",
      apis,
    };
    await running.service.clients.register(machine);
    await expect(importAs(client_id)).rejects.toMatchObject(TAKEN);
    const post = (path: string, body: Record<string, string>, client: typeof READER) =>
      send(`${running.oauth2}/oauth2/${path}`, {
        method: "POST",
        headers: { authorization: basic(client) },
        body: new URLSearchParams(body),
      });
    const grant = { grant_type: "client_credentials", resource: ARTICLES };
    const issued = await post("token", grant, { client_id, client_secret });
    const token = String(issued.body["access_token"]);
    expect((await post("introspect", { token }, READER)).body).toMatchObject({ sub: client_id, client_id });
    expect(await running.service.accounts.find(client_id)).toBeUndefined();
  });

  it("is never the sub of an account, also of a deleted one [D-IDENTIFIER-2, D-IDENTIFIER-3]", async () => {
    const { sub } = running.ada;
    await expect(register(sub)).rejects.toMatchObject(BY_ACCOUNT);
    await expect(seeded(sub)).rejects.toMatchObject({
      problems: [`config.seed.clients[0]: ${BY_ACCOUNT.message}`],
    });
    const deleted = await importAs(randomUUID());
    await running.service.accounts.delete(deleted.sub);
    await expect(register(deleted.sub)).rejects.toMatchObject(BY_ACCOUNT);
    for (const client_id of [sub, deleted.sub])
      expect(await running.service.clients.find(client_id)).toBeUndefined();
  });

  it("and an imported sub exclude each other, also at the same moment [D-IDENTIFIER-2]", async () => {
    for (let round = 0; round < 12; round += 1) {
      const id = randomUUID();
      const both = round % 2 === 0 ? [register(id), importAs(id)] : [importAs(id), register(id)];
      const settled = await Promise.allSettled<unknown>(both);
      const [lost, ...others] = settled.filter((each) => each.status === "rejected");
      expect([lost?.reason, others]).toEqual([expect.objectContaining(TAKEN), []]);
      const { accounts, clients } = running.service;
      const found = [await accounts.find(id), await clients.find(id)];
      expect(found.filter((each) => each !== undefined)).toHaveLength(1);
    }
  });

  it("is free for an account once the client is removed [D-IDENTIFIER-2]", async () => {
    const id = randomUUID();
    await register(id);
    await running.service.clients.remove(id);
    expect((await importAs(id)).sub).toBe(id);
  });
});
