/** What pages load: how a client looks to people, from registration to the pages, and the script. */
import { hash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { smaller } from "../../build/smaller.ts";
import { readConfigFile } from "../../cli/server/config-file.ts";
import { applySeed } from "../../lib/index.ts";
import { clientAt, signIn } from "./clients.ts";
import { send } from "../../testing/test-client.ts";
import { NEWS, useService } from "./running-service.ts";
import type { NewClient } from "../../accounts/clients/client-schema.ts";
import { newFolder } from "../closing.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16, ...Buffer.from("JFIF")]);
const WEBP = Buffer.concat([Buffer.from("RIFF\x04\0\0\0WEBPVP8 ", "latin1"), Buffer.alloc(8)]);
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');

const running = useService();

const register = (client_id: string, look: Partial<NewClient>) =>
  running.service.clients.register({ ...NEWS, ...look, client_id });
const logoOf = (id: string, init?: RequestInit, query = "") =>
  send(`${running.oauth2}/clients/${id}/logo${query}`, init);

describe("the look of a client", () => {
  it("has addresses and a logo, which every call returns without its bytes [D-LOOK-1]", async () => {
    const look = {
      client_uri: "https://news.example/",
      policy_uri: "https://news.example/privacy",
      tos_uri: "http://127.0.0.1:3001/terms",
      logo: PNG,
    };
    await register("with-look", look);
    const sha256 = hash("sha256", PNG, "base64url");
    const { logo: _bytes, ...addresses } = look;
    expect(await running.service.clients.find("with-look")).toMatchObject({
      ...addresses,
      logo: { type: "image/png", sha256 },
    });
    const { updated_at, ...same } = await running.service.clients.update("with-look", look);
    expect(same).toMatchObject({ logo: { type: "image/png", sha256 } });
    const changed = await running.service.clients.update("with-look", { tos_uri: null, logo: JPEG });
    expect(changed).toMatchObject({
      client_uri: look.client_uri,
      tos_uri: null,
      logo: { type: "image/jpeg" },
    });
    expect(updated_at).toBeLessThanOrEqual(changed.updated_at);
    const without = await running.service.clients.update("with-look", { client_uri: null, logo: null });
    expect(without).toMatchObject({ client_uri: null, policy_uri: look.policy_uri, logo: null });
    expect((await logoOf("with-look")).status).toBe(404);
    expect(await running.service.clients.find("news")).toMatchObject({ client_uri: null, logo: null });
  });

  it.each<[string, unknown]>([
    ["an SVG", SVG],
    ["a GIF", Buffer.from("GIF89a0000000000")],
    ["HTML", Buffer.from("<html><script>alert(1)</script>")],
    ["too large", Buffer.concat([PNG, Buffer.alloc(100_000)])],
    ["empty", Buffer.alloc(0)],
    ["half of a signature", PNG.subarray(0, 7)],
    ["a path", "logo.png"],
    ["a data URL", `data:image/png;base64,${PNG.toString("base64")}`],
    ["an address", "https://evil.example/logo.png"],
    ["an object", { length: 3, 0: 0xff, 1: 0xd8, 2: 0xff }],
    ["a list", [...PNG]],
    ["a number", 5],
  ])("refuses a logo that is %s [D-LOOK-1]", async (_what, logo) => {
    await expect(register("refused", { logo: logo as Uint8Array })).rejects.toThrow(/^client\.logo: must/);
    await expect(running.service.clients.update("news", { logo: logo as Uint8Array })).rejects.toThrow(
      /^client\.logo: must/,
    );
    expect(await running.service.clients.find("refused")).toBeUndefined();
  });

  it.each(["client_uri", "policy_uri", "tos_uri"])("refuses a hostile %s [D-LOOK-1]", async (name) => {
    for (const address of [
      "javascript:alert(1)",
      "data:text/html,<script>",
      "http://news.example/",
      "https://user:password@news.example/",
      "https://news.example/#x",
      '"><script>alert(1)</script>',
      "//news.example/",
      "",
      "a".repeat(10_000),
      5,
      "__proto__",
    ]) {
      await expect(register("refused", { [name]: address })).rejects.toThrow(TypeError);
    }
  });
});

describe("the address of a logo", () => {
  beforeAll(async () => {
    await register("png", { logo: PNG });
    await register("jpeg.and~more_1", { logo: JPEG });
    await register("webp", { logo: WEBP });
  });

  it("answers with the bytes, their type, and headers that let it do nothing else [D-LOOK-2]", async () => {
    for (const [id, type, bytes] of [
      ["png", "image/png", PNG],
      ["jpeg.and~more_1", "image/jpeg", JPEG],
      ["webp", "image/webp", WEBP],
    ] as const) {
      for (const base of [running.oauth2, running.openid]) {
        const response = await fetch(`${base}/clients/${id}/logo`);
        expect([response.status, response.headers.get("content-type")]).toEqual([200, type]);
        expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes);
        expect(Object.fromEntries(response.headers)).toMatchObject({
          "x-content-type-options": "nosniff",
          "content-security-policy": "default-src 'none'; sandbox",
          "cache-control": "public, no-cache",
          etag: `"${hash("sha256", bytes, "base64url")}"`,
        });
        expect(response.headers.get("set-cookie")).toBeNull();
      }
    }
  });

  it("is kept by browsers, by its digest, until it changes [D-LOOK-2]", async () => {
    const { headers } = await logoOf("png");
    const etag = headers.get("etag") ?? "";
    expect((await logoOf("png", { headers: { "if-none-match": etag } })).status).toBe(304);
    const sha256 = etag.slice(1, -1);
    expect((await logoOf("png", {}, `?${sha256}`)).headers.get("cache-control")).toContain("immutable");
    expect((await logoOf("png", {}, "?x")).headers.get("cache-control")).toBe("public, no-cache");
    await running.service.clients.update("png", { logo: WEBP });
    const after = await logoOf("png", { headers: { "if-none-match": etag } }, `?${sha256}`);
    expect([after.status, after.headers.get("cache-control")]).toEqual([200, "public, no-cache"]);
    await running.service.clients.update("png", { logo: PNG });
  });

  it("answers HEAD without a body, and no other method [D-LOOK-2]", async () => {
    const head = await logoOf("png", { method: "HEAD" });
    expect([head.status, head.text, head.headers.get("content-length")]).toEqual([
      200,
      "",
      String(PNG.length),
    ]);
    expect((await logoOf("png", { method: "POST" })).status).toBe(405);
  });

  it("is a 404 without a logo, for an unknown, disabled, internal or removed client, and for hostile ids [D-LOOK-2]", async () => {
    await register("gone", { logo: PNG });
    await running.service.clients.disable("gone");
    for (const id of [
      "news",
      "unknown",
      "gone",
      "sign-in-service.account",
      "__proto__",
      "constructor",
      "~",
      "x".repeat(200),
    ]) {
      expect([id, (await logoOf(id)).status]).toEqual([id, 404]);
    }
    await running.service.clients.enable("gone");
    expect((await logoOf("gone")).status).toBe(200);
    await running.service.clients.remove("gone");
    expect((await logoOf("gone")).status).toBe(404);
    await register("gone", {});
    expect((await logoOf("gone")).status).toBe(404);
    for (const path of [
      "/clients/png/logo/x",
      "/clients/png/other",
      "/clients//logo",
      "/clients/..%2fpng/logo",
      "/clients/png%00/logo",
    ]) {
      expect([path, (await send(`${running.oauth2}${path}`)).status]).toEqual([path, 404]);
    }
  });
});

describe("the pages of a sign-in", () => {
  const NASTY = '"><img src=x onerror=alert(1)>';

  it("show the logo with the client's name, and the links of the client where it asks for consent [D-LOOK-4]", async () => {
    await register("third", {
      name: NASTY,
      first_party: false,
      password_grant: false,
      logo: PNG,
      policy_uri: "https://news.example/privacy?a=1&b=2",
      tos_uri: "https://news.example/terms",
    });
    const third = clientAt(running, "oauth2", { ...NEWS, client_id: "third" });
    const browser = await third.browser().get(third.authorizeUrl());
    const path = `/clients/third/logo?${hash("sha256", PNG, "base64url")}`;
    expect(browser.html).toContain(`<img src="${path}" alt="">`);
    const policy = browser.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("img-src 'self' data:");
    const json = await fetch(browser.url, {
      headers: { accept: "application/json", cookie: browser.jar.header(browser.url) },
    });
    expect(await json.json()).toMatchObject({
      client: { client_id: "third", name: NASTY, logo: path, tos_uri: "https://news.example/terms" },
    });
    await signIn(browser);
    expect(browser.html).toContain(`<img src="${path}" alt="">`);
    expect(browser.html).toContain('<a href="https://news.example/privacy?a=1&amp;b=2">');
    expect(browser.html).toContain('<a href="https://news.example/terms">');
    expect(browser.html).not.toContain("<img src=x");
    const without = await third.browser().get(clientAt(running, "openid", NEWS).authorizeUrl());
    expect(without.html).not.toContain("/clients/");
  });
});

describe("a seed file", () => {
  let folder: string;
  beforeAll(async () => {
    folder = newFolder();
    await writeFile(join(folder, "logo.png"), PNG);
    await writeFile(join(folder, "large.png"), Buffer.concat([PNG, Buffer.alloc(200_000)]));
    await writeFile(join(folder, "logo.svg"), SVG);
  });

  async function fileWith(logo: unknown): Promise<string> {
    const path = join(folder, "config.json");
    const clients = [{ ...NEWS, client_id: "seeded", logo }];
    const deployments = { oauth2: { url: "http://127.0.0.1:3000" } };
    await writeFile(path, JSON.stringify({ deployments, seed: { clients } }));
    return path;
  }

  it("names the logo of a client as a path relative to itself; with null, the logo goes [D-LOOK-3]", async () => {
    const { seed } = await readConfigFile(await fileWith("./logo.png"));
    await applySeed(running.service, seed);
    expect((await logoOf("seeded")).headers.get("content-type")).toBe("image/png");
    await applySeed(running.service, { clients: [{ ...NEWS, client_id: "seeded" }] });
    expect((await logoOf("seeded")).status).toBe(200);
    await applySeed(running.service, { clients: [{ ...NEWS, client_id: "seeded", logo: null }] });
    expect((await logoOf("seeded")).status).toBe(404);
  });

  it.each([
    ["missing.png", "the file does not exist"],
    [".", "the file is a folder"],
    ["large.png", "must have at most 100000 bytes"],
    ["logo.svg", "must be a PNG, JPEG or WebP image"],
    [5, "must be bytes"],
  ])("with the logo %j is refused with its path", async (logo, problem) => {
    await expect(readConfigFile(await fileWith(logo))).rejects.toMatchObject({
      problems: [expect.stringMatching(/^config\.seed\.clients\[0\]\.logo: /)],
      message: expect.stringContaining(problem),
    });
  });
});

const scriptAt = (query = ""): string => `${running.oauth2}/pages.js${query}`;

describe("the script of the pages", () => {
  it("is small, is kept by browsers under its digest, and is the only one that pages may run", async () => {
    const party = clientAt(running, "oauth2", NEWS);
    const browser = await party.browser().get(party.authorizeUrl());
    const [, src = ""] = /<script src="([^"]*)" defer><\/script>/.exec(browser.html) ?? [];
    const { origin } = new URL(running.oauth2);
    expect(src).toMatch(/^\/pages\.js\?[0-9a-f]{16}$/);
    expect(browser.headers.get("content-security-policy")).toContain(`script-src ${scriptAt()};`);
    const answer = await send(origin + src);
    const body = answer.text;
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      200,
      "text/javascript; charset=utf-8",
    ]);
    // With passkeys, as the package has it: decisions.md, On the page.
    expect(Buffer.byteLength(smaller("pages.js", body))).toBeLessThan(8_192);
    expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    const again = await send(origin + src, {
      headers: { "if-none-match": answer.headers.get("etag") ?? "" },
    });
    expect(again.status).toBe(304);
  });

  it.each(["", "?x", "?../../secret", "?%00"])(
    "is asked for again under another address (%j)",
    async (query) => {
      const answer = await send(scriptAt(query));
      expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "public, no-cache"]);
    },
  );

  it("takes no other method", async () => {
    expect((await send(scriptAt(), { method: "POST" })).status).toBe(405);
  });
});
