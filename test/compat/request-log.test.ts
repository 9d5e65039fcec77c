/** The line of each request, its id, and what they tell. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { clientAt } from "../flows/clients.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { closing } from "../closing.ts";

let running: RunningService | undefined;

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly request_id?: string;
  readonly [member: string]: unknown;
}

/** The lines of requests, once there are this many. */
async function lines({ log }: RunningService, count: number): Promise<Line[]> {
  for (;;) {
    const found = log
      .map((line) => JSON.parse(line) as Line)
      .filter(({ request_id }) => request_id !== undefined);
    if (found.length >= count) return found;
    await pause(10);
  }
}

const tokenRequest = (origin: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${origin}/oauth2/token`, {
    method: "POST",
    headers,
    body: new URLSearchParams({
      grant_type: "password",
      username: ADA.email,
      password: ADA.password,
      client_id: NEWS.client_id,
      client_secret: NEWS.client_secret ?? "",
    }),
  });

describe("a request", () => {
  it("is one line with its template and its client, and names nobody [D-LOG-1, D-LOG-3]", async () => {
    running = await startService();
    const party = clientAt(running, "oauth2", NEWS);
    await party.browser().get(party.authorizeUrl());
    await tokenRequest(running.oauth2);
    let found = await lines(running, 3);
    while (!found.some(({ path }) => path === "/oauth2/token"))
      found = await lines(running, found.length + 1);
    expect(found.map(({ msg, level }) => [msg, level])).toEqual(found.map(() => ["request", 30]));
    expect(found.find(({ path }) => path === "/oauth2/token")).toMatchObject({
      method: "POST",
      path: "/oauth2/token",
      status: 200,
      ms: expect.any(Number),
      client_id: NEWS.client_id,
      network: expect.stringMatching(/^[\w-]{12}$/),
    });
    expect(found.map(({ path }) => path)).toContain("/interaction/:uid");
    const text = running.log.join("\n").toLowerCase();
    for (const secret of [
      ADA.email,
      ADA.username ?? "",
      ADA.password ?? "",
      NEWS.client_secret ?? "",
      "127.0.0.1/",
    ])
      expect(text).not.toContain(secret.toLowerCase());
  });

  it("that a full store fails is an error, with the store, the call and what it said [D-LOG-2]", async () => {
    const redis = closing(await openOwnRedis());
    running = await startService({
      config: { storage: "sqlite::memory:", artifacts: redis.url },
      logsErrors: true,
    });
    await redis.client.config("SET", "maxmemory", "1");
    const { status, headers } = await tokenRequest(running.oauth2);
    expect(status).toBe(503);
    const failed = (await lines(running, 1)).filter(({ level }) => level === 50);
    expect(failed).toEqual([
      expect.objectContaining({
        msg: "request failed",
        status: 503,
        request_id: headers.get("x-request-id"),
        fault: expect.objectContaining({ store: "artifacts", operation: "commit", reason: "OOM" }),
      }),
    ]);
  });
});

describe("the id of a request", () => {
  const HOSTILE = ["", "a b", "a\u00e9", "x".repeat(129), "<script>", "a/../b", "a,b", "a;b"];

  it("is that of a trusted proxy, if it has the form, and else a new one [D-LOG-4]", async () => {
    running = await startService({ config: { proxy: 1 } });
    const idFor = async (sent: string): Promise<string | null> =>
      (await tokenRequest(running?.oauth2 ?? "", { "x-request-id": sent })).headers.get("x-request-id");
    for (const id of ["a", "A.b_c-9", "x".repeat(128)]) expect(await idFor(id)).toBe(id);
    for (const id of HOSTILE) expect(await idFor(id)).toMatch(/^[\da-f-]{36}$/);
  });

  it("of anybody else is ignored [D-LOG-4]", async () => {
    running = await startService();
    const { headers } = await tokenRequest(running.oauth2, { "x-request-id": "mine" });
    expect(headers.get("x-request-id")).toMatch(/^[\da-f-]{36}$/);
  });

  it("leads from the response to the log, the error page and the audit [D-LOG-4, D-AUDIT-1]", async () => {
    running = await startService({ config: { proxy: 1 } });
    await tokenRequest(running.oauth2, { "x-request-id": "granted-1" });
    const { items: records } = await running.service.audit.list({ request: "granted-1" });
    expect(records.map(({ action, request }) => [action, request])).toEqual([
      ["password_grant", "granted-1"],
      ["account.assigned", "granted-1"],
    ]);
    await expect(running.service.audit.list({ request: "other" })).resolves.toMatchObject({ items: [] });
    const page = await fetch(`${running.oauth2}/oauth2/authorize?client_id=unknown`, {
      headers: { accept: "text/html", "x-request-id": "page-1" },
    });
    expect(await page.text()).toContain("<code>page-1</code>");
    expect((await lines(running, 2)).map(({ request_id }) => request_id)).toEqual(["granted-1", "page-1"]);
  });
});
