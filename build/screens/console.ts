/** A console with data, in a service that runs: what its pages show comes from operations, so samples of it would prove nothing. */
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
import type { Page } from "playwright-core";
import type { SignInServiceConfig } from "../../config/input.ts";
import { applySeed, createSignInService, type Seed, type SignInService } from "../../lib/index.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { totpCode } from "../../testing/totp-code.ts";

/** A client that nobody has registered. */
const DOCUMENT = {
  client_id: "https://editor.example.com/oauth/client.json",
  client_name: "Editor of the Analytical Society",
  redirect_uris: ["http://127.0.0.1/callback"],
};
const DOCUMENT_PATH = `b64:${Buffer.from(DOCUMENT.client_id).toString("base64url")}`;

/** The pages, by the name of their pictures. */
export const CONSOLE_PAGES: Readonly<Record<string, string>> = {
  people: "/people",
  person: "/people/5a1c0de0-0ada-4ada-8ada-1815121018ad",
  clients: "/clients",
  client: "/clients/news",
  "client-disabled": "/clients/tv",
  "client-register": "/clients?do=register",
  "client-update": "/clients/news?do=update",
  "client-rotate": "/clients/news?do=rotateSecret",
  "client-remove": "/clients/news?do=remove",
  apis: "/apis",
  api: `/apis/b64:${Buffer.from("https://articles.example.com").toString("base64url")}`,
  documents: "/documents",
  document: `/documents/${DOCUMENT_PATH}`,
  "document-block": `/documents/${DOCUMENT_PATH}?do=block`,
  services: "/services",
  service: "/services/1",
  "service-create": "/services?do=create",
  "service-remove": "/services/1?do=remove",
  groups: "/groups",
  group: "/groups/media",
  portals: "/portals",
  portal: "/portals/main",
  invitations: "/invitations",
  deliveries: "/deliveries",
  receivers: "/receivers",
  receiver: "/receivers/group:media",
  audit: "/audit",
  "audit-export": "/audit?do=export&since=1h",
  keys: "/keys",
  health: "/health",
  me: "/me",
  nothing: "/nothing",
};

/** Who looks at the pages. */
const OPERATOR = {
  sub: "5a1c0de0-2019-4ada-8ada-1815121018ad",
  email: "zofia@example.org",
  email_verified: true,
  username: "zofia",
  password: "the password of zofia",
  name: "Zofia",
  surname: "Wiśniewska-Kowalczyk",
} as const;

const PERSON = "5a1c0de0-0ada-4ada-8ada-1815121018ad";
const APP_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const SECRET = "the secret of the clients, of 32 and more";

const CALLBACK = "https://editor.news.example.org/oauth/callback";

const receiver = (url: string) =>
  ({
    url,
    client_id: "sign-in",
    client_secret: SECRET,
    types: ["DELETE_ACCOUNT", "PROFILE_CHANGED"],
  }) as const;

/** @param dead the address of a receiver that answers nobody. */
const seed = (dead: string): Seed => ({
  portals: { main: { name: "Main portal" }, society: { name: "The Analytical Society" } },
  groups: { media: { name: "Media", receiver: receiver("https://media.example.com/notifications") } },
  services: {
    1: { name: "News", group: "media", roles: ["editor", "author"], receiver: receiver(dead) },
    2: { name: "Video", group: "media" },
    3: { name: "Shop", receiver: receiver("https://shop.example.com/notifications") },
    archive: { name: "Archive of the Analytical Society" },
  },
  apis: {
    "https://articles.example.com": {
      name: "Articles",
      service: "1",
      scopes: { "articles:read": "Read articles", "articles:write": "Write and delete articles" },
      unregistered: ["articles:read"],
    },
    "https://orders.example.com": {
      name: "Orders",
      service: "3",
      tokens: "jwt",
      scopes: { "orders:read": "See your orders" },
    },
  },
  clients: [
    {
      client_id: "news",
      client_secret: SECRET,
      name: "News",
      service: "1",
      redirect_uris: [CALLBACK, "https://editor.news.example.org/oauth/silent"],
      apis: { "https://articles.example.com": ["articles:read", "articles:write"] },
    },
    {
      client_id: "com.example.reader",
      kind: "public",
      name: "Reader for phones and tablets",
      service: "1",
      native: true,
      redirect_uris: ["com.example.reader:/callback"],
      apis: { "https://articles.example.com": ["articles:read"] },
    },
    {
      client_id: "nightly-export",
      kind: "machine",
      client_secret: SECRET,
      name: "Nightly export",
      service: "3",
      apis: { "https://orders.example.com": ["orders:read"] },
    },
    {
      client_id: "shop",
      client_secret: SECRET,
      name: "Shop",
      service: "3",
      redirect_uris: ["https://shop.example.com/callback"],
      second_factor: "required",
    },
    { client_id: "tv", kind: "device", name: "Video on the television", service: "2" },
  ],
  accounts: [
    {
      sub: PERSON,
      email: "ada@example.com",
      email_verified: true,
      username: "ada",
      password: "lovelace-1843",
      name: "Ada",
      surname: "Lovelace",
      portal: "main",
      services: { 1: null, 3: null },
    },
    OPERATOR,
  ],
});

interface Listening {
  readonly server: Server;
  readonly url: string;
}

async function listen(listener?: RequestListener): Promise<Listening> {
  const server = createServer({ keepAliveTimeout: 0 }, listener);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Ada allows the unregistered client to read her articles. */
async function allowDocument(openid: string): Promise<void> {
  const request = {
    client_id: DOCUMENT.client_id,
    redirect_uri: DOCUMENT.redirect_uris[0] ?? "",
    response_type: "code",
    resource: "https://articles.example.com",
    code_challenge: "x".repeat(43),
    code_challenge_method: "S256",
  };
  const browser = new Browser({ stopAt: request.redirect_uri });
  await browser.get(`${openid}/oauth2/authorize?${new URLSearchParams(request)}`);
  await browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
  await browser.submit(browser.form("decision"), { decision: "allow" });
}

export interface SampleConsole {
  /** The address of the console. */
  readonly url: string;
  readonly service: SignInService;
  /** Signs the operator in. */
  enter(page: Page): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a service with people, clients and trouble, and its console.
 * @param mail default: mail goes nowhere.
 */
export async function openSampleConsole(
  interactions: SignInServiceConfig["interactions"] = {},
  mail: NonNullable<SignInServiceConfig["mail"]> = async () => undefined,
): Promise<SampleConsole> {
  const [main, admin, dead] = await Promise.all([
    listen(),
    listen(),
    listen((_, res) => res.writeHead(503).end()),
  ]);
  const service = await createSignInService({
    storage: "sqlite::memory:",
    logger: pino({ level: "silent" }),
    deployments: { oauth2: { url: main.url }, openid: { url: `${main.url}/openid` } },
    operators: { [OPERATOR.sub]: "administrator" },
    proxy: 1,
    notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [1] },
    interactions: { locales: ["en", "de", "pl", "uk"], ...interactions },
    clients: { metadataDocuments: { allow: [new URL(DOCUMENT.client_id).origin] } },
    fetch: async () => Response.json(DOCUMENT),
    mail,
  });
  await applySeed(service, seed(dead.url));
  const { accounts, clients, operators } = service;
  await accounts.addApp(OPERATOR.sub, { secret: APP_SECRET });
  await operators.confirm(OPERATOR.sub);
  await clients.disable("tv");
  await accounts.update(PERSON, { surname: "Byron" });
  await accounts.update(PERSON, { surname: "Lovelace" });
  for (const [{ server }, middleware] of [
    [main, service.routes()],
    [admin, service.administration({ url: admin.url })],
  ] as const) {
    const application = new Koa();
    application.use(middleware);
    const answer = application.callback();
    server.on("request", (request, response) => void answer(request, response));
  }
  // An application whose secret was rotated without it.
  for (let tries = 0; tries < 12; tries += 1)
    await fetch(`${main.url}/openid/oauth2/token`, {
      method: "POST",
      headers: {
        Authorization: `Basic ${btoa("news:an-old-secret-of-the-client-which-ended")}`,
        "X-Forwarded-For": "198.51.100.7",
      },
      body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: "unknown" }),
    });
  await allowDocument(`${main.url}/openid`);
  await service.documents.block("https://uploads.example.com");
  return {
    url: admin.url,
    service,
    async enter(page) {
      await page.goto(`${admin.url}/keys`);
      await page.locator("[name=username], [name=login]").first().fill(OPERATOR.username);
      await page.locator("[name=password]").fill(OPERATOR.password);
      await page.locator("form:not([data-passkey]) button[type=submit]").first().click();
      await page.locator("[name=code]").first().fill(totpCode(APP_SECRET, Date.now()));
      await page.keyboard.press("Enter");
      await page.waitForURL(`${admin.url}/keys`);
    },
    async close() {
      for (const { server } of [main, admin, dead]) {
        server.close();
        server.closeAllConnections();
      }
      await service.close();
    },
  };
}
