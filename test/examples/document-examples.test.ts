/** Runs the examples of README and docs against a local service. */
import { execFileSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it, jest } from "@jest/globals";
import Koa, { type Context, type Middleware } from "koa";
import { koaBody } from "koa-body";
import supertest from "supertest";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createSignInService, type SignInService } from "../../lib/index.ts";
import { createNotificationWorker } from "../../notifier/index.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { basic } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, NEWS, startService, useService } from "../flows/running-service.ts";
import { moduleIn, namedBlock, ROOT, writeBlock } from "./documents.ts";
import { freePorts, start } from "./processes.ts";

const FOLDER = ".cache/examples";
const moduleOf = <Module>(name: string): Promise<Module> => moduleIn<Module>(name, FOLDER);
const LOCAL = { oauth2: { url: "http://localhost:3000" }, openid: { url: "http://localhost:3000/openid" } };

const running = useService({ config: { storage: "sqlite::memory:", notifications: { worker: false } } });
afterAll(() => {
  rmSync(join(ROOT, FOLDER), { recursive: true, force: true });
});

/** Runs a JavaScript block. @param scope what it takes from the text around it. @param gives the variables to return. */
async function snippet(
  name: string,
  scope: Readonly<Record<string, unknown>>,
  gives: readonly string[] = [],
): Promise<Readonly<Record<string, unknown>>> {
  const file = join(ROOT, writeBlock(namedBlock(name), FOLDER));
  const code = namedBlock(name).code.replaceAll(/^import .*$/gm, "");
  const names = Object.keys(scope).join(", ");
  writeFileSync(
    file,
    `export default async function run({ ${names} }) {\n${code}\nreturn { ${gives.join(", ")} };\n}`,
  );
  const { default: run } = (await import(pathToFileURL(file).href)) as {
    default: (values: object) => Promise<Readonly<Record<string, unknown>>>;
  };
  return run(scope);
}

const config = (more: object = {}): SignInServiceConfig =>
  ({
    deployments: LOCAL,
    storage: "sqlite::memory:",
    logger: running.service.configuration.logger,
    ...more,
  }) as SignInServiceConfig;

/** The path of the router in docs/customize/own-routes.md: it knows one list of paths. */
function router(): { readonly get: Route; readonly post: Route; readonly routes: () => Middleware } {
  const handlers = new Map<string, Handler>();
  const route =
    (method: string): Route =>
    (_paths, handler) =>
      void handlers.set(method, handler);
  return {
    get: route("GET"),
    post: route("POST"),
    routes: () => async (ctx, next) => {
      const [, id] = /^\/interaction\/([^/]+)(?:\/[^/]+)?$/.exec(ctx.path) ?? [];
      const handler = handlers.get(ctx.method);
      if (id === undefined || handler === undefined) return next();
      return handler(Object.assign(ctx, { params: { id } }));
    },
  };
}
type Handler = (ctx: Context) => Promise<void>;
type Route = (paths: readonly string[], handler: Handler) => void;

async function render(_step: string, { csrf }: { readonly csrf: string }): Promise<string> {
  return `<title>Own</title><form method="post"><input name="csrf" value="${csrf}"><input name="action" value="submit"><input name="username"><input name="password"></form>`;
}

async function isMember(email: string): Promise<boolean> {
  return email === "ada@example.com";
}

/** What a block of shell commands prints. */
function shell(commands: string): string {
  const quiet = commands.replaceAll("curl ", "curl --silent ");
  return execFileSync("sh", ["-euc", quiet], { encoding: "utf8" });
}

/** Serves a request of node:http with a handler of the Fetch API. */
async function answer(
  handler: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ]);
  const body = await buffer(incoming);
  const { status } = await handler(new Request("http://127.0.0.1/", { method: "POST", headers, body }));
  outgoing.writeHead(status).end("{}");
}

/** Registers a client. @returns its id. */
type Register = (service: SignInService) => Promise<string>;

async function kindOf(client_id: string): Promise<string | undefined> {
  return (await running.service.clients.find(client_id))?.kind;
}

/** What an API does with a request. */
interface ApiExample {
  readonly remove: (request: Request) => Promise<Response>;
  readonly koa: Middleware;
}

/** Each example, and what it does. */
const RUNS: Readonly<Record<string, () => Promise<void>>> = {
  async "register-an-api and protect-a-handler and protect-a-koa-api"() {
    const api = "https://api.example.com";
    const { clients, directory } = running.service;
    const { register } = await moduleOf<{ register: (service: SignInService) => Promise<void> }>(
      "register-an-api",
    );
    await directory.services.put("news", { name: "News" });
    await register(running.service);
    expect(await directory.apis.find(api)).toMatchObject({ name: "Articles", tokens: "opaque" });

    const videos = "https://videos.example.com";
    const scopes = { "articles:read": "Read articles" };
    await directory.apis.put(videos, { name: "Videos", service: "1", scopes, tokens: "jwt" });
    const apis = { [videos]: ["articles:read"] };
    const job = await clients.register({ kind: "machine", name: "Job", service: "1", apis });
    const response = await fetch(`${running.oauth2}/oauth2/token`, {
      method: "POST",
      headers: { authorization: basic(job) },
      body: new URLSearchParams({ grant_type: "client_credentials", resource: videos }),
    });
    const { access_token } = (await response.json()) as { readonly access_token: string };
    const here = (code: string): string =>
      code.replaceAll("https://login.example.com/openid", running.openid).replaceAll(api, videos);
    const [{ remove }, { koa }] = (await Promise.all(
      ["protect-a-handler", "protect-a-koa-api"].map((name) => moduleIn<ApiExample>(name, FOLDER, here)),
    )) as [ApiExample, ApiExample];
    const headers = { authorization: `Bearer ${access_token}` };
    await expect(remove(new Request(videos, { headers }))).rejects.toMatchObject({ status: 403 });
    const answers = new Koa()
      .use(koa)
      .use((ctx) => void (ctx.body = ctx.state))
      .callback();
    const at = supertest(answers);
    await at
      .get("/articles")
      .set(headers)
      .expect(200, /"client_id":"client_/);
    await at.get("/articles").expect(401);
  },

  async "give-a-role"() {
    const { accounts, directory } = running.service;
    await directory.services.put("news", { name: "News" });
    await accounts.assign(running.bob.sub, "news");
    const { makeEditor } = await moduleOf<{
      makeEditor: (service: SignInService, sub: string) => Promise<void>;
    }>("give-a-role");
    await makeEditor(running.service, running.bob.sub);
    expect((await accounts.find(running.bob.sub))?.roles).toEqual({ news: ["editor"] });
  },

  async "read-the-audit"() {
    const { sub } = running.ada;
    await running.service.accounts.update(sub, { name: "Augusta" });
    const scope = { service: running.service, sub };
    const { items } = await snippet("read-the-audit", scope, ["items", "next"]);
    expect(items).toContainEqual(expect.objectContaining({ action: "account.updated" }));
  },

  async "say-who-acted"() {
    const { service, bob } = running;
    await snippet("say-who-acted", { service, sub: bob.sub });
    const { items: records } = await service.audit.list({ account: bob.sub });
    expect(records[0]).toMatchObject({ action: "account.disabled", actor: { id: "support-desk" } });
    await service.accounts.enable(bob.sub);
    await service.clients.update(NEWS.client_id, { client_secret: NEWS.client_secret });
  },

  async "register-a-client and rotate-a-secret"() {
    const printed = jest.spyOn(console, "log").mockImplementation(() => undefined);
    const { registerShop } = await moduleOf<{ registerShop: (service: SignInService) => Promise<void> }>(
      "register-a-client",
    );
    await registerShop(running.service);
    const [, client_id] = printed.mock.lastCall ?? [];
    printed.mockRestore();
    const { rotate } = await moduleOf<{ rotate: (service: SignInService, id: string) => Promise<string> }>(
      "rotate-a-secret",
    );
    expect(await rotate(running.service, String(client_id))).toMatch(/^[\w-]{43}$/);
  },

  async "use-openid-client"() {
    const redirect_uri = "https://shop.example/callback";
    const { client_id, client_secret } = await running.service.clients.register({
      name: "By openid-client",
      service: "3",
      redirect_uris: [redirect_uri],
    });
    const example = await moduleOf<OpenidClientExample>("use-openid-client");
    const discovered = await example.discover(running.openid, client_id, client_secret);
    const { location, checks } = await example.begin(discovered);
    const browser = await new Browser({ stopAt: redirect_uri }).get(location);
    await signIn(browser);
    expect(await example.finish(discovered, browser.location!, checks)).toBe(running.ada.sub);
  },

  async "register-a-page"() {
    const { registerPage } = await moduleOf<{ registerPage: Register }>("register-a-page");
    expect(await kindOf(await registerPage(running.service))).toBe("public");
  },

  async "register-a-program"() {
    const { registerProgram } = await moduleOf<{ registerProgram: Register }>("register-a-program");
    expect(await kindOf(await registerProgram(running.service))).toBe("public");
  },

  async "register-a-television"() {
    const { registerTelevision } = await moduleOf<{ registerTelevision: Register }>("register-a-television");
    expect(await kindOf(await registerTelevision(running.service))).toBe("device");
  },

  async "register-a-job"() {
    const scopes = { "articles:read": "Read articles" };
    const settings = { name: "Articles", service: "1", scopes };
    await running.service.directory.apis.put("https://articles.example.com", settings);
    const printed = jest.spyOn(console, "log").mockImplementation(() => undefined);
    const { registerJob } = await moduleOf<{ registerJob: Register }>("register-a-job");
    expect(await kindOf(await registerJob(running.service))).toBe("machine");
    printed.mockRestore();
  },

  async "start-with-the-file"() {
    const { startSignIn } = await moduleOf<{ startSignIn: () => Promise<SignInService> }>(
      "start-with-the-file",
    );
    expect(startSignIn).toBeInstanceOf(Function);
    const script = `import { startSignIn } from ${JSON.stringify(join(ROOT, FOLDER, "start-with-the-file.ts"))};
      import { writeFileSync } from "node:fs";
      writeFileSync("sign-in.json", JSON.stringify({ deployments: ${JSON.stringify(LOCAL)}, storage: "sqlite::memory:" }));
      const service = await startSignIn();
      console.log("locales", ...service.configuration.interactions.locales);
      await service.close();`;
    writeFileSync(join(ROOT, FOLDER, "start-sign-in.ts"), script);
    const process = start(`${FOLDER}/start-sign-in.ts`);
    expect(await process.ended).toBe(0);
    expect(process.output()).toContain("locales en pl");
  },

  async "call-the-library"() {
    const service = await createSignInService(config());
    const { welcome, watch } = await moduleOf<EmbeddingExample>("call-the-library");
    await service.directory.services.put("1", { name: "News" });
    watch(service);
    await welcome(service);
    expect(await service.accounts.findByLogin("ada@example.com")).toMatchObject({
      surname: "Lovelace",
      services: { "1": 1102020202 },
    });
    await service.close();
  },

  async "rotate-signing-keys and retire-a-leaked-key"() {
    const service = await createSignInService(config());
    const printed = jest.spyOn(console, "log").mockImplementation(() => undefined);
    const { rotate } = await moduleOf<{ rotate: (of: SignInService) => Promise<void> }>(
      "rotate-signing-keys",
    );
    await rotate(service);
    expect(printed.mock.lastCall).toEqual([expect.stringMatching(/signs from \d{4}-/)]);
    printed.mockRestore();
    const [leaked] = (await service.keys.list()).items;
    const { retireLeaked } = await moduleOf<{
      retireLeaked: (of: SignInService, kid: string) => Promise<void>;
    }>("retire-a-leaked-key");
    await retireLeaked(service, leaked!.kid);
    expect((await service.keys.list()).items.find(({ kid }) => kid === leaked!.kid)?.state).not.toBe(
      "active",
    );
    await service.close();
  },

  async "send-mail-yourself"() {
    const sent = Promise.withResolvers<unknown>();
    const provider = { send: async (mail: unknown) => sent.resolve(mail) };
    const scope = { createSignInService, config: config(), provider };
    const { service } = (await snippet("send-mail-yourself", scope, ["service"])) as {
      service: SignInService;
    };
    const { sub } = await service.accounts.create({ email: "ada@example.com", password: "lovelace-1843" });
    await service.accounts.setPassword(sub, "another-1844");
    expect(await sent.promise).toMatchObject({ to: "ada@example.com", idempotencyKey: expect.any(String) });
    await service.close();
  },

  async "start-a-worker"() {
    const process = new EventEmitter();
    const storage = `sqlite:${join(ROOT, FOLDER, "worker.db")}`;
    const service = await createSignInService(config({ storage }));
    const scope = { createNotificationWorker, config: config({ storage }), process };
    const { worker } = (await snippet("start-a-worker", scope, ["worker"])) as {
      worker: Awaited<ReturnType<typeof createNotificationWorker>>;
    };
    expect((await worker.health()).ok).toBe(true);
    process.emit("SIGTERM");
    await worker.close();
    await service.close();
  },

  async "list-parked-deliveries"() {
    const { items } = await snippet("list-parked-deliveries", { service: running.service }, ["items"]);
    expect(items).toBeDefined();
  },

  async "own-account-page"() {
    const handlers: Middleware[] = [];
    await snippet("own-account-page", {
      app: { use: (handler: Middleware) => void handlers.push(handler) },
      service: { routes: () => (_ctx: Context, next: () => Promise<void>) => next() },
      readFileSync: (name: string) => namedBlock(name).code,
    });
    const host = await startService({
      config: { storage: "sqlite::memory:" },
      host: (application) => handlers.forEach((handler) => void application.use(handler)),
    });
    const profile = `${host.oauth2}/account/profile`;
    const browser = await new Browser().get(profile);
    expect([browser.status, browser.html]).toEqual([200, namedBlock("account.html").code]);
    expect((await fetch(profile, { headers: { accept: "application/json" } })).status).toBe(401);
  },

  async "steps-in-own-routes"() {
    const own = router();
    const host = await startService({
      config: { storage: "sqlite::memory:" },
      host(application) {
        application.use(koaBody());
        application.use(own.routes());
      },
    });
    await snippet("steps-in-own-routes", { router: own, service: host.service, render });
    const news = clientAt(host, "oauth2", NEWS);
    const browser = await news.browser().get(news.authorizeUrl());
    expect([browser.status, browser.html]).toEqual([200, expect.stringContaining("<title>Own</title>")]);
    await browser.submit(browser.form("password"), { username: ADA.username, password: "wrong" });
    expect([browser.status, browser.html]).toEqual([400, expect.stringContaining("<title>Own</title>")]);
    await signIn(browser);
    expect(browser.location?.searchParams.get("code")).toMatch(/^[\w-]{43}/);
    await host.close();
  },

  async "remember-ids"() {
    const path = writeBlock(
      namedBlock("remember-ids"),
      FOLDER,
      (code) => `${code}\nconsole.log("mounted", app.middleware.length);`,
    );
    const process = start(path);
    expect(await process.ended).toBe(0);
    expect(process.output()).toContain("mounted 1");
  },

  async "receive-with-fetch"() {
    const { receive } = await moduleOf<{ receive: (request: Request) => Promise<Response> }>(
      "receive-with-fetch",
    );
    const printed = jest.spyOn(console, "log").mockImplementation(() => undefined);
    const server = createServer((request, response) => void answer(receive, request, response));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const service = await createSignInService(
      config({ notifications: { worker: true, allowedReceivers: ["127.0.0.1"] } }),
    );
    const delivered = new Promise((resolve) => void service.events.on("delivery.succeeded", resolve));
    await service.directory.services.put("shop", {
      name: "Shop",
      receiver: {
        url: `http://127.0.0.1:${port}/`,
        client_id: "shop",
        client_secret: "the secret prepared for the shop",
        types: ["DELETE_ACCOUNT"],
        signing_secret: "whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlciBvZiB0aGUgc2hvcA==",
      },
    });
    const { sub } = await service.accounts.import({ email: "ada@example.com", services: { shop: 1 } });
    await service.accounts.delete(sub);
    await delivered;
    expect(printed).toHaveBeenCalledWith("DELETE_ACCOUNT", sub);
    printed.mockRestore();
    expect((await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: "{}" })).status).toBe(400);
    await service.close();
    server.close();
  },

  async "who-may-register"() {
    const scope = { createSignInService, config: config({ mail: async () => undefined }), isMember };
    const { service } = (await snippet("who-may-register", scope, ["service"])) as {
      service: SignInService;
    };
    const { registration } = service.configuration.interactions;
    if (registration === false || registration === true) throw new Error("registration has no settings");
    const asked = { email: "eve@example.com", address: "127.0.0.1", client_id: "members" };
    expect(await registration.check?.(asked)).toBe(false);
    expect(await registration.check?.({ ...asked, email: "ada@example.com" })).toBe(true);
    await service.close();
  },

  async "redeem-the-code and read-the-profile"() {
    const port = await freePorts(4);
    const moved = (text: string): string =>
      text
        .replaceAll("3000", `${port}`)
        .replaceAll("3001", `${port + 1}`)
        .replaceAll("3002", `${port + 2}`);
    const file = join(ROOT, FOLDER, "getting-started.json");
    const { seed, ...settings } = JSON.parse(moved(namedBlock("a-file-for-the-demo").code));
    writeFileSync(file, JSON.stringify({ ...settings, seed, storage: "sqlite::memory:" }), { mode: 0o600 });
    // `npm start` is `serve --demo`.
    const [, typed = ""] = /^npm start -- (.*)\n$/u.exec(namedBlock("start-the-demo-with-a-file").code) ?? [];
    const args = ["serve", "--demo", ...typed.replace("sign-in.json", file).split(" ")];
    const server = start("cli/main.ts", { args });
    await server.until(/listening on/);
    // The two examples that use the same file.
    const beside = namedBlock("start-examples-with-a-file").code.trimEnd().split("\n");
    const programs = beside.map((line) => /^npx node (\S+) --config sign-in\.json$/.exec(line)?.[1] ?? line);
    const examples = programs.map((program) => start(program, { args: ["--config", file] }));
    await Promise.all(examples.map((each) => each.until(/http:\S+/)));
    expect(await (await fetch(`http://localhost:${port + 1}/`)).text()).toContain("You are not signed in.");
    for (const each of examples) await each.stop();
    const browser = new Browser({ stopAt: `http://localhost:${port + 1}/callback` });
    await browser.get(moved(namedBlock("sign-in-at-the-demo").code.trim()));
    const [{ username, password }] = seed.accounts;
    await signIn(browser, { username, password });
    const code = browser.location?.searchParams.get("code") ?? "";
    const { access_token } = JSON.parse(
      shell(moved(namedBlock("redeem-the-code").code).replace("CODE", code)),
    );
    const answers = shell(
      moved(namedBlock("read-the-profile").code).replaceAll("ACCESS_TOKEN", access_token),
    );
    expect(answers.match(new RegExp(seed.accounts[0].email, "g"))).toHaveLength(2);
    await server.stop();
  },
};

interface OpenidClientExample {
  readonly discover: (issuer: string, id: string, secret: string) => Promise<object>;
  readonly begin: (discovered: object) => Promise<{ readonly location: string; readonly checks: object }>;
  readonly finish: (discovered: object, came: URL, checks: object) => Promise<string>;
}

interface EmbeddingExample {
  readonly welcome: (service: SignInService) => Promise<void>;
  readonly watch: (service: SignInService) => void;
}

describe("the examples in README and docs", () => {
  it.each(Object.entries(RUNS))("%s", (_name, run) => run());
});
