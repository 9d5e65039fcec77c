/** Exports of the audit. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Storage } from "../../../records/storage.ts";
import { exportAudit, type AuditExportQuery } from "../../../records/audit/audit-export.ts";
import type { AuditEvent, AuditStore, Caller } from "../../../records/audit/audit-event.ts";
import { openStorage } from "../../../records/storage.ts";
import { closing } from "../../closing.ts";

const START = 1_767_225_600;
const DAY = 86_400;
const CALLER: Caller = { actor: { kind: "operator", id: "sub-of-ada" }, request: "r1" };

let now: number;
let storage: Storage;
beforeEach(async () => {
  now = START;
  const clock = { virtual: true, now: () => now * 1_000 };
  storage = closing(await openStorage({ storage: "sqlite::memory:", artifacts: "sqlite::memory:", clock }));
});

const note = (event: Partial<AuditEvent>): Promise<void> =>
  storage.audit.append({ actor: { kind: "system" }, action: "account.viewed", ...event });

async function text(
  query: AuditExportQuery,
  store: Pick<AuditStore, "list" | "append"> = storage.audit,
): Promise<string> {
  let all = "";
  for await (const piece of (await exportAudit(store, query, CALLER, now)).body) all += piece;
  return all;
}

const codeOf = (query: AuditExportQuery, store?: Pick<AuditStore, "list" | "append">): Promise<unknown> =>
  text(query, store).then(
    () => "done",
    (error: unknown) => Reflect.get(Object(error), "code"),
  );

describe("an export of the audit", () => {
  it("is JSON lines as the list has them, or CSV, newest first, and is in the audit before it begins [D-ADM-180]", async () => {
    await note({ subject: "one", outcome: "failure", reason: "credentials" });
    now += 1;
    await note({
      subject: "two",
      client: { client_id: "news", services: ["1"] },
      detail: { factor: "app", number: 7 },
    });
    now += 1;
    const { items } = await storage.audit.list({ limit: 10 });
    const made = await exportAudit(storage.audit, { format: "jsonl", since: START }, CALLER, now);
    expect((await storage.audit.list({ action: "audit.exported", limit: 10 })).items).toMatchObject([
      {
        actor: CALLER.actor,
        request: "r1",
        detail: { format: "jsonl", since: START, until: now, records: 2 },
      },
    ]);
    expect(made).toMatchObject({
      type: "application/jsonl",
      name: "audit-2026-01-01-2026-01-01.jsonl",
      records: 2,
    });
    let lines = "";
    for await (const piece of made.body) lines += piece;
    expect(
      lines
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(items);
    expect(await text({ format: "csv", since: START, client: "news" })).toBe(
      [
        "id,at,action,actor_kind,actor_id,subject,client,outcome,reason,count,address,browser,request,detail",
        `${items[0]?.id},2026-01-01T00:00:01.000Z,account.viewed,system,,two,news,success,,1,,,,"{""factor"":""app"",""number"":7}"`,
        "",
      ].join("\r\n"),
    );
    expect(
      await text({ format: "csv", since: START + 1, until: START + 2, action: "account.deleted" }),
    ).toMatch(/^id,[^\n]*\r\n$/u);
  });

  it.each([
    ["=cmd|' /C calc'!A0", `'=cmd|' /C calc'!A0`],
    ["+1", "'+1"],
    ["-1", "'-1"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["\t=1", "'\t=1"],
    ["\r=1", `"'\r=1"`],
    ["\n=1", `"'\n=1"`],
    ['="a",b', `"'=""a"",b"`],
    ['a",=1', `"a"",=1"`],
    ["a\r\n=1", `"a\r\n=1"`],
    ["a=1", "a=1"],
  ])("writes the cell %j so that no spreadsheet runs it [D-ADM-181]", async (subject, shown) => {
    await note({ subject });
    now += 1;
    expect(await text({ format: "csv", since: START })).toContain(
      `,account.viewed,system,,${shown},,success,`,
    );
  });

  it("has at most 31 days and 100,000 records, and nothing of a larger one is written [D-ADM-182]", async () => {
    await note({ subject: "one" });
    now += 40 * DAY;
    expect(await codeOf({ format: "csv", since: START })).toBe("too_large");
    expect(await codeOf({ format: "csv", since: now - 31 * DAY - 1 })).toBe("too_large");
    expect(await codeOf({ format: "csv", since: now - 31 * DAY })).toBe("done");
    expect(await codeOf({ format: "csv", since: now - 31 * DAY, until: now + 99 * DAY })).toBe("done");
    for (const [since, until] of [
      [now, now],
      [now + 1, now + 2],
      [START + 2, START + 1],
    ] as const)
      expect(await codeOf({ format: "csv", since, until })).toBe("invalid_argument");
    // As many as there may be, and one more.
    const { items } = await storage.audit.list({ limit: 1 });
    for (const [count, code] of [
      [100_000, "done"],
      [100_001, "too_large"],
    ] as const) {
      const list: AuditStore["list"] = async ({ limit, after }) => {
        const from = Number(after ?? 0);
        const page = Array.from({ length: Math.min(limit, count - from) }, () => items[0]!);
        return { items: page, next: from + limit < count ? String(from + limit) : null };
      };
      expect(
        await codeOf(
          { format: "csv", since: now - DAY },
          { list, append: (event) => storage.audit.append(event) },
        ),
      ).toBe(code);
    }
    expect((await storage.audit.list({ action: "audit.exported", limit: 10 })).items).toHaveLength(3);
  });

  it("breaks off when the storage fails after its beginning [D-ADM-180]", async () => {
    await note({ subject: "one" });
    now += 1;
    const made = await exportAudit(storage.audit, { format: "csv", since: START }, CALLER, now);
    const pieces: string[] = [];
    await storage.close();
    const reading = (async () => {
      for await (const piece of made.body) pieces.push(piece);
    })();
    await expect(reading).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(pieces).toHaveLength(1);
  });

  it("does not begin when it can't be in the audit [D-ADM-180]", async () => {
    await note({ subject: "one" });
    now += 1;
    await expect(
      exportAudit(
        { ...storage.audit, append: () => Promise.reject(new Error("not written")) },
        { format: "csv", since: START },
        CALLER,
        now,
      ),
    ).rejects.toThrow("not written");
  });
});
