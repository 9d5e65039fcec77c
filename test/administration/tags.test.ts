/** `If-Match`, and the positions of lists. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Commit, RecordStore } from "../../adapters/record-store.ts";
import type { Actor } from "../../records/audit/audit-event.ts";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send } from "./stage.ts";

/** What happens between the reads of a change and its commit. */
let beforeCommit: () => Promise<void> = async () => undefined;

const isByToken = ({ put = [] }: Commit): boolean =>
  put.some(({ kind, value }) => kind === "audit" && (value as { actor?: Actor }).actor?.kind === "token");

/** The store, with something in front of the next commit of a token's change. */
function interrupted(store: RecordStore): RecordStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      if (name !== "commit") return member.bind(target) as unknown;
      return async (commit: Commit): Promise<unknown> => {
        const first = beforeCommit;
        if (isByToken(commit)) {
          beforeCommit = async () => undefined;
          await first();
        }
        return Reflect.apply(member, target, [commit]) as unknown;
      };
    },
  });
}

const stage = beforeTests(async () => {
  const opened = await openAdministration({}, interrupted);
  await opened.directory.services.put("news", { name: "News" });
  return opened;
});
const administrator: Send = (...args) => stage.as({ role: "administrator" })(...args);
const other: Send = (...args) =>
  stage.as({ role: "administrator", actor: { kind: "token", id: "tok_2" } })(...args);

describe("If-Match", () => {
  let sub: string;
  let address: string;
  let tag: string;
  beforeEach(async () => {
    ({ sub } = await stage.accounts.create({ email: `${crypto.randomUUID()}@example.com`, name: "Ada" }));
    address = `/v1/accounts/${sub}`;
    tag = String((await administrator("GET", address)).headers.etag);
  });

  it("lets a change pass if the record is as it was read, and the answer has the new tag [D-ADM-31, D-ADM-39]", async () => {
    const changed = await administrator("PATCH", address, {
      headers: { "If-Match": tag },
      body: { name: "Eve" },
    });
    expect([changed.status, changed.body["name"]]).toEqual([200, "Eve"]);
    expect(changed.headers.etag).not.toBe(tag);
    expect((await administrator("GET", address)).headers.etag).toBe(changed.headers.etag);
    const again = await administrator("PATCH", address, {
      headers: { "If-Match": tag },
      body: { name: "Eva" },
    });
    expect([again.status, again.body.code, again.body["detail"]]).toEqual([
      412,
      "stale",
      "Nothing was changed: read it again.",
    ]);
    for (const [method, path] of [
      ["DELETE", address],
      ["POST", `${address}/disable`],
      ["DELETE", `${address}/factors`],
    ] as const)
      expect(await administrator(method, path, { headers: { "If-Match": tag } })).toMatchObject({
        status: 412,
      });
    expect(await stage.accounts.find(sub)).toMatchObject({ name: "Eve", disabled: false });
  });

  it.each<readonly [what: string, header: (tag: string) => string, status: number]>([
    ["the tag", (own) => own, 200],
    ["any", () => "*", 200],
    ["one of several", (own) => `"x", ${own}`, 200],
    ["several, none of them", () => '"x", "y"', 412],
    ["the same as a weak one", (own) => `W/${own}`, 412],
    ["no tag", () => "x", 412],
    ["the text without quotes", (own) => own.slice(1, -1), 412],
    ["a part of it", (own) => `${own.slice(0, -2)}"`, 412],
    ["an empty one", () => '""', 412],
  ])("with %s [D-ADM-39]", async (_what, header, status) => {
    const { status: found } = await administrator("PATCH", address, {
      headers: { "If-Match": header(tag) },
      body: { name: "Eve" },
    });
    expect(found).toBe(status);
  });

  it("compares before anything is looked at that would change nothing, and after it is known that there is a record", async () => {
    const headers = { "If-Match": '"x"' };
    expect(await administrator("PATCH", address, { headers, body: {} })).toMatchObject({ status: 412 });
    expect(await administrator("PATCH", address, { headers, body: { email: 1 } })).toMatchObject({
      status: 412,
    });
    const nobody = "/v1/accounts/0f8fad5b-d9cb-469f-a165-70867728950e";
    for (const value of ['"x"', "*"])
      expect(
        await administrator("PATCH", nobody, { headers: { "If-Match": value }, body: { name: "Eve" } }),
      ).toMatchObject({ status: 404 });
  });

  it("does not mind what nobody reads: the end of sessions, and a factor [D-ADM-39]", async () => {
    await stage.accounts.endSessions(sub);
    await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    expect((await administrator("GET", address)).headers.etag).toBe(tag);
  });

  it("compares in the commit: what arrives between the read and the commit is noticed [D-ADM-40]", async () => {
    beforeCommit = async () => void (await other("PATCH", address, { body: { surname: "Lovelace" } }));
    const late = await administrator("PATCH", address, {
      headers: { "If-Match": tag },
      body: { name: "Eve" },
    });
    expect([late.status, late.body.code]).toEqual([412, "stale"]);
    expect(await stage.accounts.find(sub)).toMatchObject({ name: "Ada", surname: "Lovelace" });
    // Without a tag the later change is made on top of the earlier one.
    beforeCommit = async () => void (await other("PATCH", address, { body: { surname: "Hopper" } }));
    expect(await administrator("PATCH", address, { body: { name: "Eve" } })).toMatchObject({ status: 200 });
    expect(await stage.accounts.find(sub)).toMatchObject({ name: "Eve", surname: "Hopper" });
  });

  it("lets one of two operators change the record that both have read [D-ADM-40]", async () => {
    const names = ["Bea", "Cleo", "Dora", "Edda"];
    const answers = await Promise.all(
      names.map((name, index) =>
        (index % 2 === 0 ? administrator : other)("PATCH", address, {
          headers: { "If-Match": tag },
          body: { name },
        }),
      ),
    );
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412, 412, 412]);
    const won = answers.findIndex(({ status }) => status === 200);
    expect(await stage.accounts.find(sub)).toMatchObject({ name: names[won] });
  });

  it.each([
    ["clients", { client_id: "c", name: "C", service: "news", redirect_uris: ["https://c.example/cb"] }, "c"],
    ["services", { key: "s", name: "S" }, "s"],
    ["groups", { key: "g", name: "G" }, "g"],
    ["portals", { key: "p", name: "P" }, "p"],
    [
      "apis",
      { identifier: "https://i.example", name: "I", service: "news", scopes: { r: "R" } },
      "https%3A%2F%2Fi.example",
    ],
  ] as const)("guards %s, whose changes arrive between read and commit", async (noun, body, name) => {
    expect(await administrator("POST", `/v1/${noun}`, { body })).toMatchObject({ status: 201 });
    const one = `/v1/${noun}/${name}`;
    const { etag } = (await administrator("GET", one)).headers;
    const headers = { "If-Match": String(etag) };
    beforeCommit = async () => void (await other("PATCH", one, { body: { name: "Others" } }));
    expect(await administrator("PATCH", one, { headers, body: { name: "Mine" } })).toMatchObject({
      status: 412,
    });
    expect((await administrator("GET", one)).body).toMatchObject({ name: "Others" });
    expect(await administrator("DELETE", one, { headers })).toMatchObject({ status: 412 });
    const { etag: now } = (await administrator("GET", one)).headers;
    expect(await administrator("DELETE", one, { headers: { "If-Match": String(now) } })).toMatchObject({
      status: 204,
    });
  });
});

const bodyOf = async (send: Send, path: string) => (await send("GET", path)).body;

describe("the pages of a list", () => {
  const all = ["ant", "bat", "cat", "dog", "eel"];

  beforeEach(async () => {
    for (const key of all) await stage.directory.groups.put(key, { name: key });
  });

  it("are full until the end, whatever the limit [D-ADM-41]", async () => {
    const found: unknown[] = [];
    let query = "limit=1";
    for (let limit = 2; ; limit += 1) {
      const { items, next } = await bodyOf(administrator, `/v1/groups?${query}`);
      found.push(...items.map(({ key }) => key));
      if (next === null) break;
      query = `limit=${limit}&after=${encodeURIComponent(next)}`;
    }
    expect(found).toEqual(all);
  });

  it("are refused with a position of another list, filter, token or service, or a made one [D-ADM-41]", async () => {
    await stage.accounts.create({ email: "one@example.com" });
    await stage.accounts.create({ email: "two@example.com" });
    const { next } = await bodyOf(administrator, "/v1/accounts?limit=1");
    const after = `limit=1&after=${encodeURIComponent(String(next))}`;
    expect(await administrator("GET", `/v1/accounts?${after}`)).toMatchObject({ status: 200 });
    const tampered = `${String(next).slice(0, -1)}${String(next).endsWith("A") ? "B" : "A"}`;
    for (const [send, path] of [
      [other, `/v1/accounts?${after}`],
      [administrator, `/v1/accounts?disabled=false&${after}`],
      [administrator, `/v1/groups?${after}`],
      [administrator, `/v1/clients?${after}`],
      [administrator, `/v1/audit?${after}`],
      [administrator, `/v1/accounts?limit=1&after=${encodeURIComponent(tampered)}`],
      [administrator, "/v1/accounts?limit=1&after=1"],
      [administrator, "/v1/accounts?limit=1&after="],
      [
        stage.as({ role: "administrator", service: "news" }),
        `/v1/accounts?search=one%40example.com&${after}`,
      ],
    ] as const) {
      const { status, body } = await send("GET", path);
      expect([path, status, body.errors]).toEqual([
        path,
        422,
        [{ parameter: "after", detail: expect.any(String) }],
      ]);
    }
    expect(String(next)).not.toMatch(/^\d+$/u);
  });

  it("are the same by POST, where a search term stays out of the address [D-ADM-42]", async () => {
    await stage.accounts.create({ email: "zoe@example.com" });
    const body = { search: "zoe@example.com", limit: 1 };
    const found = await administrator("POST", "/v1/accounts/search", { body });
    expect([found.status, found.body.items.map(({ email }) => email)]).toEqual([200, ["zoe@example.com"]]);
    expect(stage.templates.at(-1)).toBe("/v1/accounts/search");
    const listed = await administrator("POST", "/v1/accounts/search", { body: { limit: 1 } });
    const next = await administrator(
      "GET",
      `/v1/accounts?after=${encodeURIComponent(String(listed.body.next))}`,
    );
    expect(next.status).toBe(200);
    for (const wrong of [{ limit: "1" }, { color: "red" }, { search: 1 }])
      expect(await administrator("POST", "/v1/accounts/search", { body: wrong })).toMatchObject({
        status: 422,
      });
  });
});
