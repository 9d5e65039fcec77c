/** The pages that come from the table of operations: lists, records, forms and confirmations, and who may open them. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { z } from "zod";
import { exactly } from "../../../accounts/arguments.ts";
import { type AnyTable, isOn, operation, operations } from "../../../accounts/operations/operation.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import type { Form } from "../../../testing/browser/forms.ts";
import { readTags, tagsNamed } from "../../../testing/browser/html.ts";
import { TABLES } from "../../../administration/tables.ts";
import { derivedPages } from "../../../administration/console/derived/pages.ts";
import { SECTIONS } from "../../../administration/console/entries.ts";
import { openConsole, OPERATORS, type RunningConsole } from "./console-visitor.ts";

const HOSTILE = `<script>alert(1)</script>"'&`;

let console: RunningConsole;
/** A browser for each role. */
const at: Record<string, Browser> = {};
beforeAll(async () => {
  console = await openConsole();
  for (const role of ["administrator", "support", "viewer", "deliveries"] as const)
    at[role] = await console.open(role);
});

async function see(role: string, path: string): Promise<Browser> {
  const browser = at[role];
  if (browser === undefined) throw new Error(`nobody is signed in as ${role}`);
  await browser.get(console.url + path);
  // What asks for a recent sign-in has led there.
  return browser.url.origin === console.url
    ? browser
    : console.enter(browser, OPERATORS[role as keyof typeof OPERATORS]);
}

/** The form of the page itself: the others are those of the frame. */
function mainForm(browser: Browser): Form {
  const found = browser.forms().find(({ action }) => action.search.includes("do="));
  if (found === undefined) throw new Error(`${browser.url.href} has no form: ${browser.title}`);
  return found;
}

const entriesOf = (browser: Browser): string[] =>
  tagsNamed(browser.html, "a")
    .map(({ attributes }) => attributes.get("href") ?? "")
    .filter((href) => SECTIONS.some(({ entries }) => entries.some(({ name }) => href === `/${name}`)));

describe("the frame", () => {
  it("begins with health for administrators, and with what the others need [D-ADM-122]", async () => {
    expect((await see("administrator", "/")).url.pathname).toBe("/health");
    expect((await see("support", "/")).url.pathname).toBe("/people");
    expect((await see("deliveries", "/")).url.pathname).toBe("/deliveries");
  });

  it("shows each role the entries that it can open, and answers 403 in a sentence elsewhere [D-ADM-122]", async () => {
    const all = entriesOf(await see("viewer", "/clients"));
    expect(all).toEqual(expect.arrayContaining(["/people", "/clients", "/deliveries", "/keys", "/health"]));
    expect(entriesOf(await see("deliveries", "/deliveries"))).toEqual(["/deliveries", "/receivers"]);
    for (const path of ["/clients", "/people", "/audit", "/keys", "/health", "/clients/news"]) {
      const browser = await see("deliveries", path);
      expect([path, browser.status]).toEqual([path, 403]);
      expect(browser.html).toMatch(/Only [^.]*administrators can do this\. Your role is: Deliveries\./);
    }
  });

  it("is around what does not exist, with the headers of the pages [D-ADM-123]", async () => {
    for (const path of [
      "/nothing",
      "/clients/nobody",
      "/clients?do=nothing",
      "/clients/b64:%%",
      "/clients/%00",
    ]) {
      const browser = await see("administrator", path);
      expect([path, browser.status]).toEqual([path, 404]);
      expect(browser.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(browser.headers.get("cache-control")).toBe("no-store");
      expect(entriesOf(browser)).toContain("/clients");
    }
  });
});

describe("a role", () => {
  it("gets no button for what it can't do, but a sentence, and can't send the form either [D-ADM-124]", async () => {
    const browser = await see("support", "/clients/news");
    expect(browser.html).not.toContain("do=disable");
    expect(browser.html).toContain("Only administrators can do this");
    for (const path of ["/clients?do=register", "/clients/news?do=disable", "/services/1?do=remove"])
      expect([path, (await see("support", path)).status]).toEqual([path, 403]);
  });
});

describe("a client", () => {
  it("is registered, and its secret is shown once [D-ADM-125]", async () => {
    const browser = await see("administrator", "/clients?do=register");
    const fields = {
      kind: "web",
      client_id: "editor",
      name: HOSTILE,
      service: "1",
      redirect_uris: "https://e.example/cb",
    };
    await browser.submit(mainForm(browser), fields);
    expect([browser.status, browser.headers.get("cache-control")]).toEqual([200, "no-store"]);
    const [, secret = ""] = /class="id secret">([^<]+)</.exec(browser.html) ?? [];
    expect(secret.length).toBeGreaterThan(20);
    await browser.get(`${console.url}/clients/editor`);
    expect(browser.html).not.toContain(secret);
    const found = await console.running.service.clients.find("editor");
    expect(found).toMatchObject({ kind: "web", redirect_uris: ["https://e.example/cb"] });
  });

  it("is refused with what is wrong at each field, and the entries stay [D-ADM-126]", async () => {
    const browser = await see("administrator", "/clients?do=register");
    const redirect_uris = "https://a.example/cb\nhttp://b.example/cb";
    await browser.submit(mainForm(browser), {
      kind: "web",
      client_id: "other",
      name: "",
      service: "1",
      redirect_uris,
    });
    expect(browser.status).toBe(422);
    expect(browser.html).toMatch(/role="alert" tabindex="-1" autofocus/);
    expect(browser.html).toMatch(/class="problem" id="problem-\d">line 2: /);
    expect(
      tagsNamed(browser.html, "textarea")
        .find(({ attributes }) => attributes.get("name") === "redirect_uris")
        ?.text.trim(),
    ).toBe(redirect_uris);
    await browser.submit(mainForm(browser), {
      kind: "web",
      client_id: "news",
      name: "News 2",
      redirect_uris: "https://a.example/cb",
    });
    expect(browser.html).toContain("One with this identifier exists");
    await expect(console.running.service.clients.find("other")).resolves.toBeUndefined();
  });

  it("is changed: only what was touched, and not what its kind does not have [D-ADM-127]", async () => {
    const { clients } = console.running.service;
    const before = await clients.find("shop");
    const browser = await see("administrator", "/clients/shop?do=update");
    await browser.submit(mainForm(browser), {
      name: "Bookshop",
      tos_uri: "https://shop.example/terms",
      native: "yes",
    });
    expect([browser.url.pathname, browser.status]).toEqual(["/clients/shop", 200]);
    const { updated_at: _at, ...after } = { ...(await clients.find("shop")) };
    const { updated_at: _was, ...expected } = {
      ...before,
      name: "Bookshop",
      tos_uri: "https://shop.example/terms",
    };
    expect(after).toEqual(expected);
    await (await see("administrator", "/clients/shop?do=update")).submit(mainForm(browser), { tos_uri: "" });
    await expect(clients.find("shop")).resolves.toMatchObject({ tos_uri: null });
  });

  it("is removed only when its own name is typed [D-ADM-128]", async () => {
    const { clients } = console.running.service;
    const browser = await see("administrator", "/clients/partner?do=remove");
    for (const typed of ["", "DELETE", "Partner", "partner2"]) {
      await browser.submit(mainForm(browser), { typed });
      expect([typed, browser.status]).toEqual([typed, 422]);
    }
    await expect(clients.find("partner")).resolves.toBeDefined();
    await browser.submit(mainForm(browser), { typed: "partner" });
    expect([browser.url.pathname, browser.status]).toEqual(["/clients", 200]);
    await expect(clients.find("partner")).resolves.toBeUndefined();
  });

  it("asks for a recent sign-in, on the form and when it is sent [D-ADM-129]", async () => {
    const browser = await see("administrator", "/clients/news?do=disable");
    console.clock.advance(301);
    await browser.submit(mainForm(browser));
    expect(browser.url.origin).not.toBe(console.url);
    await expect(console.running.service.clients.find("news")).resolves.toMatchObject({ disabled: false });
    await console.enter(browser, OPERATORS.administrator);
    expect([browser.url.pathname, browser.url.search]).toEqual(["/clients/news", "?do=disable&lost=1"]);
    await browser.submit(mainForm(browser));
    await expect(console.running.service.clients.find("news")).resolves.toMatchObject({ disabled: true });
  });
});

it("an entry of the directory keeps its receiver's secrets when they are left out [D-ADM-127]", async () => {
  const { directory } = console.running.service;
  const receiver = {
    url: "http://127.0.0.1:9/n",
    client_id: "r",
    client_secret: "the secret",
    types: ["PROFILE_CHANGED"] as const,
  };
  await directory.groups.put("media", { name: "Media", receiver });
  const browser = await see("administrator", "/groups/media?do=update");
  expect(browser.html).not.toContain("the secret");
  await browser.submit(mainForm(browser), { name: "Media group" });
  await expect(directory.groups.find("media")).resolves.toMatchObject({
    name: "Media group",
    receiver: { client_id: "r" },
  });
  await (
    await see("administrator", "/groups/media?do=update")
  ).submit(mainForm(browser), { "receiver.url": "http://127.0.0.2:9/n" });
  expect(browser.status).toBe(422);
});

it("what still refers to an entry is named when it is to be removed [D-ADM-128]", async () => {
  const { directory } = console.running.service;
  const browser = await see("administrator", "/services/1?do=remove");
  expect(browser.html).toMatch(/Used by: .*client news/);
  expect(browser.forms().some(({ action }) => action.search.includes("do="))).toBe(false);
  // Somebody may have come since the page was read: the form is refused, too.
  await directory.services.put("late", { name: "Late", group: null });
  await see("administrator", "/services/late?do=remove");
  const form = mainForm(browser);
  await directory.apis.create("https://late.example", {
    name: "Late",
    service: "late",
    scopes: { "late:read": "Read" },
  });
  await browser.submit(form, { typed: "late" });
  await expect(directory.services.find("late")).resolves.toBeDefined();
});

it("hostile text stays text on every page, in lists, records, forms and filters [D-ADM-130]", async () => {
  const { directory, clients } = console.running.service;
  const name = `<img src=x onerror=alert(1)>"'>`;
  await directory.services.put("evil", { name, roles: [] });
  await clients.register({
    client_id: "evil",
    name,
    service: "evil",
    redirect_uris: ["https://evil.example/cb"],
  });
  await directory.apis.create("https://evil.example/a/b?c", {
    name,
    service: "evil",
    scopes: { "evil:read": name },
  });
  const api = `/apis/b64:${Buffer.from("https://evil.example/a/b?c").toString("base64url")}`;
  const query = `?${new URLSearchParams({ state: name, account: name, action: name, after: name })}`;
  const paths = [
    ...Object.keys(TABLES).map((noun) => `/${noun === "accounts" ? "people" : noun}`),
    ...["/services/evil", "/clients/evil", api].flatMap((path) => [
      path,
      `${path}?do=update`,
      `${path}?do=remove`,
    ]),
    ...["/audit", "/deliveries", "/receivers", "/nothing"].map((path) => path + query),
    `/clients?do=${encodeURIComponent(name)}`,
    `/clients/${encodeURIComponent(name)}`,
    `/clients?result=${encodeURIComponent(name)}&lang=${encodeURIComponent(name)}&zone=${encodeURIComponent(name)}`,
    "/clients?do=register",
    "/health",
    "/me",
  ];
  for (const path of paths) {
    const browser = await see("administrator", path);
    const tags = readTags(browser.html);
    const bad = tags.filter(
      ({ name: tag, attributes }) =>
        tag === "img" || [...attributes.keys()].some((each) => each.startsWith("on") || each === "style"),
    );
    expect([path, bad.map(({ name: tag }) => tag)]).toEqual([path, []]);
  }
});

describe("a row that is added to the table", () => {
  const shown = exactly({ id: z.string(), title: z.string() });
  const rows = operations("gadget", {
    list: operation({
      effect: "list",
      target: [],
      input: exactly({ title: z.string().optional() }),
      output: shown,
      role: "viewer",
      limited: false,
      confirm: "none",
      audit: [],
      errors: [],
      columns: ["id", "title"],
      example: { target: [], input: {} },
    }),
    find: operation({
      effect: "read",
      target: ["id"],
      input: exactly({}),
      output: shown,
      role: "viewer",
      limited: false,
      confirm: "none",
      audit: [],
      errors: [],
      columns: [],
      example: { target: ["1"], input: {} },
    }),
    polish: operation({
      effect: "verb",
      target: ["id"],
      input: exactly({ with: z.enum(["cloth", "sand"]) }),
      output: shown,
      role: "support",
      limited: false,
      confirm: "page",
      audit: ["client.updated"],
      errors: [],
      columns: [],
      example: { target: ["1"], input: { with: "cloth" } },
    }),
  });

  it("has its list, its record and its form on the console [D-ADM-131]", () => {
    const pages = derivedPages({ gadgets: rows }, {});
    expect(
      pages.map(({ path, entry, role, post }) => ({ path, entry, role, takesForms: post !== undefined })),
    ).toEqual([
      { path: "/gadgets", entry: "gadgets", role: "viewer", takesForms: true },
      { path: "/gadgets/:id", entry: "gadgets", role: "viewer", takesForms: true },
    ]);
  });
});

it("every operation that the console has is on a page, or a command to copy [D-ADM-131]", async () => {
  const pages = derivedPages(TABLES, {});
  const paths = [...new Set(pages.map(({ path }) => path.split("/")[1] ?? ""))];
  expect(paths.toSorted()).toEqual(
    Object.entries<AnyTable>(TABLES)
      .filter(([, { rows }]) => Object.values(rows).some((row) => isOn(row, "console")))
      .map(([noun]) => noun)
      .toSorted(),
  );
});
