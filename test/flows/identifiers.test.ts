/** A `client_id` and the `sub` of an account are never the same. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { applySeed } from "../../lib/seed.ts";
import { relyingParty } from "./relying-party.ts";
import { ADA, NEWS, type RunningService, startService } from "./running-service.ts";

let running: RunningService;
beforeAll(async () => {
  running = await startService();
});
afterAll(() => running.close());

const register = (client_id: string) => running.service.clients.register({ ...NEWS, client_id });
const importAs = (sub: string) =>
  running.service.accounts.import({ sub, email: `${sub}@example.com`, password: ADA.password });

describe("a client_id that looks like a sub", () => {
  it("works, but not as the sub of an account [D-IDENTIFIER-2]", async () => {
    const client_id = randomUUID();
    await register(client_id);
    const party = relyingParty(running, "openid", { ...NEWS, client_id });
    expect((await party.userinfo((await party.tokens()).access_token)).body["sub"]).toBe(running.ada.sub);
    await expect(register(running.ada.sub)).rejects.toMatchObject({
      code: "already_exists",
      message: "an account with this sub exists already",
    });
    await expect(importAs(client_id)).rejects.toMatchObject({
      code: "already_exists",
      message: "a client with this client_id exists already",
    });
    expect(await running.service.clients.find(running.ada.sub)).toBeUndefined();
    expect(await running.service.accounts.findByLogin(`${client_id}@example.com`)).toBeUndefined();
  });

  it("is refused in a seed, with its path [D-IDENTIFIER-2]", async () => {
    const { sub } = running.ada;
    const client = applySeed(running.service, { clients: [{ ...NEWS, client_id: sub }] });
    await expect(client).rejects.toMatchObject({
      problems: ["config.seed.clients[0]: an account with this sub exists already"],
    });
    const client_id = randomUUID();
    await register(client_id);
    const account = applySeed(running.service, { accounts: [{ email: "eve@example.com", sub: client_id }] });
    await expect(account).rejects.toMatchObject({
      problems: ["config.seed.accounts[0]: a client with this client_id exists already"],
    });
  });
});
