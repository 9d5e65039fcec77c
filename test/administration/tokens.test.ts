/** Administration tokens: who may use `/v1` with one, and who may not any more. */
import { describe, expect, it } from "@jest/globals";
import type { NewToken } from "../../accounts/operations/tokens.ts";
import { TOKEN } from "../../records/administration/token-kinds.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { openOffice } from "../cli/administration-stage.ts";
import { atEnd, beforeTests } from "../closing.ts";
import { startAdministered } from "./listener-stage.ts";

const DAY = 86_400;
const clock = new TestClock();
const running = beforeTests(() => startAdministered({ config: { clock } }));

const make = (more: Partial<Parameters<typeof running.service.tokens.create>[0]> = {}): Promise<NewToken> =>
  running.service.tokens.create({ role: "administrator", expires: 90 * DAY, ...more });

/** Asks with this header, or without one. */
const ask = (authorization?: string, path = "/v1/keys"): Promise<Response> =>
  fetch(running.admin + path, { headers: { ...(authorization !== undefined && { authorization }) } });

const statusOf = async (token: string): Promise<number> => (await ask(`Bearer ${token}`)).status;

describe("a token", () => {
  it("has 256 bits, is shown once and stored as a hash [D-ADM-87]", async () => {
    const made = await make({ role: "support" });
    expect(made).toEqual({
      id: expect.stringMatching(/^tok_[\w-]{16}$/u),
      token: expect.stringMatching(/^sis_[\w-]{43}$/u),
      role: "support",
      expires_at: Math.floor(clock.now() / 1000) + 90 * DAY,
    });
    const stored = JSON.stringify([
      await running.storage.records.all(TOKEN.name),
      await running.service.tokens.list(),
      await running.service.audit.list({ action: "token.created" }),
    ]);
    expect(stored).toContain(made.id);
    // Nothing of it that is longer than a coincidence.
    for (let at = 4; at + 12 <= made.token.length; at += 1)
      expect(stored).not.toContain(made.token.slice(at, at + 12));
    expect(running.log.join("")).not.toContain(made.token.slice(4));
  });

  it("lasts a year at most, and has a role and a service that exist [D-ADM-87]", async () => {
    for (const wrong of [
      { expires: 366 * DAY },
      { expires: 0 },
      { expires: 1.5 },
      { role: "deliveries" as never },
      { role: "owner" as never },
    ])
      await expect(make(wrong)).rejects.toThrow(TypeError);
    await expect(make({ service: "nowhere" })).rejects.toMatchObject({ code: "unknown_reference" });
    await expect(make({ expires: 365 * DAY, service: "1" })).resolves.toBeDefined();
  });

  it("opens /v1 until it is ended, at once and for good [D-ADM-88]", async () => {
    const { id, token } = await make();
    await expect(statusOf(token)).resolves.toBe(200);
    await expect(running.service.tokens.end(id)).resolves.toBe(true);
    await expect(statusOf(token)).resolves.toBe(401);
    await expect(running.service.tokens.end(id)).resolves.toBe(false);
    await expect(running.service.tokens.end("tok_nobody")).resolves.toBe(false);
    const { items } = await running.service.tokens.list();
    expect(items.find((each) => each.id === id)).toMatchObject({
      state: "ended",
      ended_at: expect.any(Number),
    });
    const { items: events } = await running.service.audit.list({ action: "token.ended" });
    expect(events[0]).toMatchObject({ subject: id, actor: { kind: "system" } });
  });

  it("runs out [D-ADM-88]", async () => {
    const { id, token } = await make({ expires: 60 });
    clock.advance(59);
    await expect(statusOf(token)).resolves.toBe(200);
    clock.advance(1);
    await expect(statusOf(token)).resolves.toBe(401);
    const { items } = await running.service.tokens.list();
    expect(items.find((each) => each.id === id)).toMatchObject({ state: "expired", ended_at: null });
  });

  it("is worth nothing when its service is gone, nor when another gets its key [D-ADM-305]", async () => {
    const { service } = running;
    await service.directory.services.put("gone", { name: "Gone" });
    const { token } = await make({ service: "gone" });
    await expect(ask(`Bearer ${token}`, "/v1/accounts?search=ada@example.com")).resolves.toMatchObject({
      status: 200,
    });
    await service.directory.services.remove("gone");
    await expect(statusOf(token)).resolves.toBe(401);
    // Somebody else's service may get the key.
    await service.directory.services.put("gone", { name: "Another" });
    await expect(statusOf(token)).resolves.toBe(401);
    const { items } = await service.tokens.list();
    expect(items.find((each) => each.service === "gone")).toMatchObject({ state: "ended" });
    expect((await service.audit.list({ action: "token.ended", limit: 1 })).items).toMatchObject([
      { detail: { service: "gone" } },
    ]);
  });

  it("that is none, a half one, another's or in another place is refused [D-ADM-89]", async () => {
    const { id, token } = await make();
    const last = token.slice(-1) === "A" ? "Q" : "A";
    const wrong: readonly (string | undefined)[] = [
      undefined,
      "",
      "Bearer",
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token.slice(0, 20)}`,
      `Bearer ${token}x`,
      `Bearer ${token.slice(0, -2)}${last}${last}`,
      `Bearer ${token.slice(4)}`,
      `Bearer SIS_${token.slice(4)}`,
      `Bearer ${token.toLowerCase()}`,
      `Bearer ${id}`,
      `Bearer sis_${"A".repeat(43)}`,
      `Bearer sis_${"A".repeat(10_000)}`,
      `Bearer ${token} ${token}`,
      `Basic ${Buffer.from(`${id}:${token}`).toString("base64")}`,
      `Token ${token}`,
      token,
      "Bearer __proto__",
    ];
    for (const header of wrong) {
      const answer = await ask(header);
      expect([header, answer.status]).toEqual([header, 401]);
      expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer /u);
      expect(await answer.text()).not.toContain(token.slice(4));
    }
    // Neither a query nor a cookie.
    for (const [path, headers] of [
      [`/v1/keys?access_token=${token}`, {}],
      [`/v1/keys?token=${token}`, {}],
      ["/v1/keys", { cookie: `token=${token}; access_token=${token}` }],
    ] as const)
      expect((await fetch(running.admin + path, { headers })).status).toBe(401);
  });

  it("is not asked for by another origin's script [D-ADM-89]", async () => {
    const { token } = await make();
    const preflight = await fetch(`${running.admin}/v1/keys`, {
      method: "OPTIONS",
      headers: {
        origin: "https://evil.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization",
      },
    });
    const answer = await fetch(`${running.admin}/v1/keys`, {
      headers: { authorization: `Bearer ${token}`, origin: "https://evil.example" },
    });
    for (const { headers } of [preflight, answer]) {
      const cors = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
      expect([cors, headers.get("set-cookie")]).toEqual([[], null]);
    }
  });

  it("says when it was last used, to a minute, and stays ended meanwhile", async () => {
    const { id, token } = await make();
    const lastUse = async (): Promise<number | null | undefined> =>
      (await running.service.tokens.list()).items.find((each) => each.id === id)?.last_used_at;
    await expect(lastUse()).resolves.toBeNull();
    await statusOf(token);
    const first = await lastUse();
    expect(first).toBe(Math.floor(clock.now() / 1000));
    clock.advance(30);
    await statusOf(token);
    await expect(lastUse()).resolves.toBe(first);
    clock.advance(40);
    const [status] = await Promise.all([statusOf(token), running.service.tokens.end(id)]);
    expect([200, 401]).toContain(status);
    await expect(statusOf(token)).resolves.toBe(401);
  });

  it("is not made, listed or ended over HTTP [D-ADM-90]", async () => {
    const { token, id } = await make();
    const attempts = [
      ["GET", "/v1/tokens"],
      ["POST", "/v1/tokens"],
      ["DELETE", `/v1/tokens/${id}`],
      ["POST", `/v1/tokens/${id}/end`],
    ] as const;
    for (const [method, path] of attempts) {
      const { status } = await fetch(running.admin + path, {
        method,
        headers: { authorization: `Bearer ${token}` },
      });
      expect([method, path, status]).toEqual([method, path, 404]);
    }
    await expect(statusOf(token)).resolves.toBe(200);
  });

  it("of another storage is a stranger [D-ADM-89]", async () => {
    const other = await startAdministered();
    const { token } = await other.service.tokens.create({ role: "administrator", expires: 60 });
    await expect(statusOf(token)).resolves.toBe(401);
  });
});

it("is one line of `tokens create --json`, with exactly these members [D-ADM-87]", async () => {
  const office = await openOffice();
  atEnd(() => office.close());
  await office.prepare();
  const config = ["--json", "--config", office.config];
  for (const limit of [[], ["--service", "news"]]) {
    const words = ["tokens", "create", "--role", "support", "--expires", "90d", ...limit];
    const { code, out, err } = await office.here([...words, ...config]);
    expect([code, err, out.trimEnd().split("\n")]).toEqual([0, "", [expect.any(String)]]);
    const made = JSON.parse(out) as NewToken;
    expect(made).toEqual({
      id: expect.stringMatching(/^tok_[\w-]{16}$/u),
      token: expect.stringMatching(/^sis_[\w-]{43}$/u),
      role: "support",
      expires_at: expect.any(Number),
    });
    const listed = await office.here(["tokens", "list", ...config]);
    expect([listed.out.includes(made.id), listed.out.includes(made.token.slice(4))]).toEqual([true, false]);
  }
});
