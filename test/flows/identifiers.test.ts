/** A `client_id` and the `sub` of an account are never the same. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { applySeed } from "../../lib/seed.ts";
import { NEWS, type RunningService, startService } from "./running-service.ts";

let running: RunningService;
beforeAll(async () => {
  running = await startService();
});
afterAll(() => running.close());

const register = (client_id: string) => running.service.clients.register({ ...NEWS, client_id });

const REFUSED = "must not be a UUID, which is what a sub looks like";

describe("a client_id that looks like a sub", () => {
  it("is refused, whether or not an account has it [D-IDENTIFIER-2]", async () => {
    for (const client_id of [randomUUID(), running.ada.sub]) {
      await expect(register(client_id)).rejects.toThrow(`client.client_id: ${REFUSED}`);
      await expect(applySeed(running.service, { clients: [{ ...NEWS, client_id }] })).rejects.toMatchObject({
        problems: [`config.seed.clients[0].client_id: ${REFUSED}`],
      });
      expect(await running.service.clients.find(client_id)).toBeUndefined();
    }
  });
});
