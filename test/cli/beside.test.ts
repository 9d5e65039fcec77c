/** What commands change holds at the next request of a server that has answered just before. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { NEWS, type RunningService, startService, storageIn } from "../flows/running-service.ts";
import { relyingParty } from "../flows/relying-party.ts";
import { here } from "./here.ts";

let folder: string;
let running: RunningService;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-beside-"));
  const storage = await storageIn(folder);
  running = await startService({ config: storage });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ deployments, ...storage }));
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});

async function command(...words: readonly string[]): Promise<Record<string, unknown>> {
  const all = [...words, "--json", "--config", join(folder, "config.json")];
  const { code, out, err } = await here(all);
  expect([words, code, err]).toEqual([words, 0, ""]);
  return JSON.parse(out) as Record<string, unknown>;
}

describe("beside a running server", () => {
  it("a client is refused as soon as it is disabled, and its old secret as soon as it has a new one [D-CLI-5]", async () => {
    const news = relyingParty(running, "openid", NEWS);
    const { refresh_token } = await news.tokens();
    const refreshed = async (client = NEWS): Promise<number> =>
      (await relyingParty(running, "openid", client).refresh(refresh_token)).status;
    expect(await refreshed()).toBe(200);
    await command("clients", "disable", "news");
    expect(await refreshed()).toBe(400);
    await command("clients", "enable", "news");
    expect(await refreshed()).toBe(200);
    const { client_secret } = await command("clients", "rotate-secret", "news", "--yes");
    expect(await refreshed()).toBe(400);
    expect(await refreshed({ ...NEWS, client_secret: String(client_secret) })).toBe(200);
  });

  it("an account is refused as soon as it is disabled, or its sessions and tokens have ended [D-CLI-5]", async () => {
    const { client_secret } = await command("clients", "rotate-secret", "news", "--yes");
    const news = relyingParty(running, "openid", { ...NEWS, client_secret: String(client_secret) });
    const browser = news.browser();
    const first = await news.tokens({}, undefined, browser);
    expect((await news.userinfo(first.access_token)).status).toBe(200);
    await command("sessions", "revoke-tokens", running.ada.sub);
    expect((await news.userinfo(first.access_token)).status).toBe(400);
    expect(await news.silently(browser)).toBe("code");
    await command("sessions", "end", running.ada.sub);
    expect(await news.silently(browser)).toBe("login_required");
    const second = await news.tokens();
    await command("accounts", "disable", running.ada.sub);
    expect((await news.userinfo(second.access_token)).status).toBe(400);
    await command("accounts", "enable", running.ada.sub);
    expect((await news.tokens()).access_token).toMatch(/^[\w-]{43}$/u);
  });
});
