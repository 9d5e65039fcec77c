/** Clients, APIs, the directory and the keys in the console: what each page says beside the members of its record. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { SigningKey } from "../../../accounts/operations/keys.ts";
import { endingKeys } from "../../../administration/console/applications/keys.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import type { Form } from "../../../testing/browser/forms.ts";
import { tagsNamed } from "../../../testing/browser/html.ts";
import { openConsole, OPERATORS, type RunningConsole } from "./console-visitor.ts";

const API = "https://articles.example.com";
const receiver = (url: string) =>
  ({ url, client_id: "r", client_secret: "the secret", types: ["DELETE_ACCOUNT"] }) as const;

let console: RunningConsole;
const at: Record<string, Browser> = {};
beforeAll(async () => {
  console = await openConsole();
  const { clients, directory } = console.running.service;
  await directory.groups.put("media", { name: "Media", receiver: receiver("http://127.0.0.1:9/media") });
  await directory.services.put("video", { name: "Video", group: "media" });
  await directory.services.put("3", { name: "Partner", receiver: receiver("http://127.0.0.1:9/partner") });
  await directory.portals.put("main", { name: "Main" });
  await directory.apis.create(API, {
    name: "Articles",
    service: "1",
    scopes: { "articles:read": "Read articles" },
  });
  await clients.register({ client_id: "tv", kind: "device", name: "Television", service: "video" });
  await clients.register({
    client_id: "export",
    kind: "machine",
    name: "Export",
    service: "3",
    apis: { [API]: ["articles:read"] },
  });
  for (const role of ["administrator", "viewer"] as const) at[role] = await console.open(role);
});

async function see(path: string, role: "administrator" | "viewer" = "administrator"): Promise<Browser> {
  const browser = at[role];
  if (browser === undefined) throw new Error(`nobody is signed in as ${role}`);
  await browser.get(console.url + path);
  // What asks for a recent sign-in has led there.
  return browser.url.origin === console.url ? browser : console.enter(browser, OPERATORS[role]);
}

function mainForm(browser: Browser): Form {
  const found = browser.forms().find(({ action }) => action.search.includes("do="));
  if (found === undefined) throw new Error(`${browser.url.href} has no form: ${browser.title}`);
  return found;
}

/** The text of the page, without tags and with single blanks. */
const words = ({ html }: Browser): string =>
  html
    .slice(html.indexOf("<main"))
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll("&#39;", "'")
    .replaceAll("&#34;", '"')
    .replaceAll(/\s+/g, " ");

const linksOf = ({ html }: Browser): string[] =>
  tagsNamed(html, "a").map(({ attributes }) => attributes.get("href") ?? "");

/** The clients on the page. */
const listed = (browser: Browser): string[] =>
  linksOf(browser).flatMap((href) => /^\/clients\/(\w+)(?:\?|$)/.exec(href)?.[1] ?? []);

/** The links that try a sign-in. */
const triesIn = (browser: Browser): string[] =>
  linksOf(browser).filter((href) => href.includes("code_challenge="));

/** The tabs of the list, with what each has. */
const tabs = ({ html }: Browser): string | undefined =>
  /class="tabs"[^]*?<\/ul>/.exec(html)?.[0].replaceAll(/<[^>]*>\s*/g, " ");

describe("clients", () => {
  it("are listed with what they authenticate with, and found by kind, service and state [D-ADM-260]", async () => {
    const { clients } = console.running.service;
    await clients.disable("tv");
    const all = await see("/clients");
    expect(words(all)).toContain("Authenticates with");
    expect(words(all)).toMatch(/Television tv Device Video Nothing secret Disabled/);
    expect(words(all)).toMatch(/News news Web application News Secret Active/);
    for (const [query, found] of [
      ["kind=device", ["tv"]],
      ["service=3", ["export", "partner"]],
      ["disabled=yes", ["tv"]],
      ["kind=web&disabled=no&service=2", ["shop"]],
      ["kind=public", []],
    ] as const) {
      const browser = await see(`/clients?${query}`);
      expect([query, listed(browser)]).toEqual([query, found]);
    }
    expect(words(await see("/clients?kind=public"))).toContain("Nothing matches. Remove all filters");
    expect((await see("/clients?kind=%3Cscript%3E")).status).toBe(422);
    await clients.enable("tv");
  });

  it("are sorted by each column, and counted by state, in a list that is read whole [D-ADM-320]", async () => {
    const { clients } = console.running.service;
    await clients.disable("tv");
    const all = await see("/clients");
    const names = listed(all);
    expect(tabs(all)).toMatch(new RegExp(`All +${names.length} +Active +${names.length - 1} +Disabled +1 `));
    expect(all.html).not.toMatch(/<th[^>]*aria-sort/);
    const byName = await see("/clients?sort=name");
    expect(byName.html).toMatch(/aria-sort="ascending"><a href="\/clients\?sort=-name">Name</);
    const up = listed(byName);
    expect(listed(await see("/clients?sort=-name"))).toEqual(up.toReversed());
    const narrowed = await see("/clients?service=3&disabled=no&sort=client_id");
    expect(listed(narrowed)).toEqual(["export", "partner"]);
    expect(tabs(narrowed)).toMatch(/All +2 +Active +2 +Disabled +0 /);
    expect(narrowed.html).toContain('name="disabled" value="no"');
    // An order or a page that is none is ignored.
    expect(listed(await see("/clients?sort=constructor&after=%00"))).toEqual(names);
    for (const path of ["/apis", "/services", "/groups", "/portals", "/keys"])
      expect([path, (await see(`${path}?sort=-name`)).status]).toEqual([path, 200]);
    await clients.enable("tv");
  });

  it("lead back to the list as it was, from a record and from the pages about it [D-ADM-321]", async () => {
    const back = async (path: string) =>
      linksOf(await see(path)).filter((href) => /^\/clients(?!\/)/.test(href) && href !== "/clients");
    const list = "/clients?kind=device&sort=-name";
    const record = linksOf(await see(list)).find((href) => href.startsWith("/clients/tv?")) ?? "";
    expect(await back(record)).toEqual([list]);
    const disable = linksOf(await see(record)).find((href) => href.includes("do=disable")) ?? "";
    const asking = await see(disable);
    expect(linksOf(asking)).toContain(list);
    await asking.submit(mainForm(asking));
    expect(linksOf(asking)).toContain(list);
    await console.running.service.clients.enable("tv");
    // Whatever somebody writes there, it leads to the list and does nothing.
    for (const hostile of [
      "//evil.example/",
      "?do=remove",
      "do=register&lost=1&result=x&list=y",
      '"><script>',
    ])
      for (const href of await back(`/clients/tv?list=${encodeURIComponent(hostile)}`))
        expect(href).toMatch(/^\/clients(?:\?(?!.*(?:do|lost|result|list)=)[\w%.+=-]*)?$/);
  });

  it("can be tried as oneself: the service answers the application, whose code nobody can exchange [D-ADM-323]", async () => {
    const [link = "", other] = triesIn(await see("/clients/news"));
    expect(other).toBeUndefined();
    const { searchParams } = new URL(link);
    expect([...searchParams.keys()].toSorted()).toEqual([
      "client_id",
      "code_challenge",
      "code_challenge_method",
      "redirect_uri",
      "response_type",
      "scope",
      "state",
    ]);
    const [again = ""] = triesIn(await see("/clients/news"));
    expect(new URL(again).searchParams.get("code_challenge")).not.toBe(searchParams.get("code_challenge"));
    const answer = await fetch(link, { redirect: "manual" });
    expect([answer.status, answer.headers.get("location") ?? ""]).toEqual([
      303,
      expect.not.stringContaining("error"),
    ]);
    for (const id of ["tv", "export"]) expect([id, triesIn(await see(`/clients/${id}`))]).toEqual([id, []]);
  });

  it("show exact times to a browser that asks for them once [D-ADM-322]", async () => {
    const isExact = async (path: string) => (await see(path)).html.includes('<body class="console exact">');
    expect(await isExact("/clients?kind=web")).toBe(false);
    const exact = linksOf(await see("/clients?kind=web")).find((href) => href.includes("times=")) ?? "";
    expect(exact).toBe("?kind=web&times=exact");
    expect(await isExact("/clients?kind=web&times=exact")).toBe(true);
    expect(await isExact("/keys")).toBe(true);
    expect(await isExact("/keys?times=relative")).toBe(false);
    expect(await isExact("/keys?times=%22")).toBe(false);
  });

  it("are registered with keys only if they are pasted, and every problem is at its field [D-ADM-261]", async () => {
    const browser = await see("/clients?do=register");
    const fields = { kind: "web", client_id: "keyed", name: "Keyed", service: "1", proof: "keys", jwks: "" };
    await browser.submit(mainForm(browser), { ...fields, redirect_uris: "" });
    expect(browser.status).toBe(422);
    expect(browser.html).toMatch(/href="#redirect_uris"[^]*href="#jwks"/);
    await browser.submit(mainForm(browser), {
      ...fields,
      client_id: "news",
      redirect_uris: "https://a.example/cb",
      proof: "secret",
    });
    expect(browser.status).toBe(422);
    const id = tagsNamed(browser.html, "input").find(
      ({ attributes }) => attributes.get("name") === "client_id",
    );
    expect(id?.attributes.get("aria-invalid")).toBe("true");
    await expect(console.running.service.clients.find("keyed")).resolves.toBeUndefined();
  });

  it("have the same as a command beside the form, quoted for a shell and without what the kind lacks [D-ADM-261]", async () => {
    const browser = await see("/clients?do=register");
    await browser.submit(mainForm(browser), {
      kind: "device",
      client_id: "news",
      name: "It's $(reboot); `x` --json\nand more",
      service: "1",
      redirect_uris: "https://a.example/cb",
      apis: `${API} articles:read`,
    });
    const [, command = ""] = /<pre class="command"[^>]*>([^<]*)</.exec(browser.html) ?? [];
    const text = command.replaceAll("&#39;", "'").replaceAll("&amp;", "&");
    expect(text).toContain("--kind device");
    expect(text).toContain("--client-id news");
    expect(text).toMatch(/--name 'It'\\''s \$\(reboot\); `x` --json\s+and more'/);
    expect(text).toContain(`--api '${API} articles:read'`);
    expect(text).not.toContain("--redirect-uri");
  });

  it("have a secret that is shown once: the page that is loaded again makes no second one [D-ADM-262]", async () => {
    const { clients, audit } = console.running.service;
    const browser = await see("/clients?do=register");
    const form = mainForm(browser);
    const fields = {
      kind: "web",
      client_id: "twice",
      name: "Twice",
      service: "1",
      redirect_uris: "https://a.example/cb",
    };
    await browser.submit(form, fields);
    expect(browser.html).toContain('class="id secret"');
    await browser.submit(form, fields);
    expect([browser.status, browser.html.includes('class="id secret"')]).toEqual([409, false]);
    expect(words(browser)).toContain("If it is lost, make a new one");
    const rotating = mainForm(await see("/clients/twice?do=rotateSecret"));
    await browser.submit(rotating, { keepOldFor: "" });
    expect(browser.html).toContain('class="id secret"');
    await browser.submit(rotating, { keepOldFor: "" });
    expect([browser.status, browser.html.includes('class="id secret"')]).toEqual([409, false]);
    const { items } = await audit.list({ client: "twice", action: "client.secret_rotated" });
    expect(items).toHaveLength(1);
    await expect(clients.find("twice")).resolves.toBeDefined();
  });

  it("say first what is wrong: wrong secrets with their network, or that they are disabled [D-ADM-263]", async () => {
    const { running, clock } = console;
    const wrong = async (): Promise<unknown> =>
      fetch(`${running.openid}/oauth2/token`, {
        method: "POST",
        headers: { Authorization: `Basic ${btoa("shop:a wrong secret of the shop, long enough")}` },
        body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: "x" }),
      });
    expect(words(await see("/clients/shop"))).not.toContain("wrong secret");
    for (let tries = 0; tries < 3; tries += 1) await wrong();
    expect(words(await see("/clients/shop"))).toContain("3 wrong secrets in the last hour from 127.0.0.0/24");
    expect(linksOf(await see("/clients/shop", "viewer"))).not.toContain("/clients/shop?do=rotateSecret");
    clock.advance(3_700);
    at["administrator"] = await console.open("administrator");
    at["viewer"] = await console.open("viewer");
    expect(words(await see("/clients/shop"))).not.toContain("in the last hour");
    await running.service.clients.disable("shop");
    const disabled = await see("/clients/shop");
    expect(words(disabled)).toContain("The client is disabled");
    expect(linksOf(disabled)).toContain("/clients/shop?do=enable");
    await running.service.clients.enable("shop");
  });

  it("offer what their kind can do, and a test at the receiver that is told [D-ADM-263]", async () => {
    const verbs = async (id: string): Promise<string[]> =>
      linksOf(await see(`/clients/${id}`)).flatMap((href) => /\?do=(\w+)$/.exec(href)?.[1] ?? []);
    expect(await verbs("tv")).not.toContain("rotateSecret");
    expect(await verbs("news")).toEqual(
      expect.arrayContaining(["rotateSecret", "update", "disable", "remove"]),
    );
    expect(await verbs("news")).not.toContain("revokeTokens");
    expect(await verbs("export")).toContain("revokeTokens");
    expect(linksOf(await see("/clients/tv"))).toContain("/receivers/group:media?do=test");
    expect(linksOf(await see("/clients/export"))).toContain("/receivers/service:3?do=test");
    expect(linksOf(await see("/clients/export", "viewer")).filter((href) => href.includes("do="))).toEqual(
      [],
    );
  });
});

describe("the directory", () => {
  it("says how the receiver of each service is, and who is told of what [D-ADM-264]", async () => {
    const services = await see("/services");
    expect(words(services)).toMatch(/Video video Media Works group:media/);
    expect(linksOf(services)).toContain("/clients?service=video");
    expect(words(await see("/services/video"))).toContain("When an account is deleted: group media.");
    expect(words(await see("/services/3"))).toContain("When an account is deleted: service 3.");
    expect(words(await see("/services/2"))).toContain(
      "Nobody: neither it nor what it belongs to has a receiver.",
    );
    await console.running.service.notifications.pause("group:media");
    expect(words(await see("/groups"))).toMatch(/Media media Paused/);
  });

  it("leads to the accounts of a portal without counting them, and has no form for what is used [D-ADM-264]", async () => {
    expect(linksOf(await see("/portals"))).toContain("/people?portal=main");
    expect(linksOf(await see("/portals/main"))).toContain("/people?portal=main");
    const group = await see("/groups/media?do=remove");
    expect(words(group)).toContain("Used by: service video");
    expect(group.forms().some(({ action }) => action.search.includes("do="))).toBe(false);
  });

  it("shows the scopes of an API with their texts, and who may ask for it [D-ADM-265]", async () => {
    const path = `/apis/b64:${Buffer.from(API).toString("base64url")}`;
    const api = await see(path);
    expect(words(api)).toContain("articles:read Read articles");
    expect(linksOf(api)).toContain("/clients/export");
    expect(words(await see(`${path}?do=remove`))).toContain("Used by: client export");
    expect(words(await see("/apis"))).toMatch(/Articles https:\/\/articles.example.com News Opaque 1 1/);
  });
});

describe("keys", () => {
  it("say what comes next, and when each can be removed [D-ADM-266]", async () => {
    const { keys } = console.running.service;
    expect(words(await see("/keys"))).not.toContain("none follows");
    await keys.rotate();
    const browser = await see("/keys");
    expect(words(browser)).toMatch(/Published [^]*Signs from/);
    expect(words(browser)).toContain("Can be removed from");
    expect(words(browser)).toContain("sign-in-service keys rotate signing");
    expect(linksOf(browser).filter((href) => href.includes("do="))).toEqual([]);
  });

  it("that end within a week without another of their algorithm are found [D-ADM-266]", () => {
    const now = 1_800_000_000;
    const key = (kid: string, more: Partial<SigningKey>): SigningKey => ({
      kid,
      alg: "RS256",
      state: "signing",
      published_at: now - 9_000,
      signs_from: now - 5_400,
      retires_at: null,
      published_until: null,
      ...more,
    });
    const ending = key("ending", { retires_at: now + 600_000 });
    const found = (...all: readonly SigningKey[]) => endingKeys(all, now * 1000).map(({ kid }) => kid);
    expect(found(ending)).toEqual(["ending"]);
    expect(found(ending, key("next", { state: "published" }))).toEqual([]);
    expect(found(ending, key("other", { state: "published", alg: "ES256" }))).toEqual(["ending"]);
    expect(found(key("later", { retires_at: now + 700_000 }), key("stays", {}))).toEqual([]);
  });
});
