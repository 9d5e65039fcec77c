import type { IncomingMessage } from "node:http";
import { afterEach, describe, expect, it } from "@jest/globals";
import type Koa from "koa";
import { koaBody } from "koa-body";
import compose from "koa-compose";
import mount from "koa-mount";
import type { KoaContextWithOIDC } from "oidc-provider";
import { basic, type RequestParameters, send } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService } from "../flows/running-service.ts";
import { type HostOptions, signedIn, signsIn, startHost, WORKS } from "./host.ts";

let running: RunningService;
const open: { close(): Promise<void> }[] = [];

async function start(options: HostOptions): Promise<RunningService> {
  running = await startHost(options);
  open.push(running);
  return running;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

/** The whole body. */
async function readAll(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** A parser that stores members and text on the Koa request. */
const textAndMembers: Koa.Middleware = async (ctx, next) => {
  const text = await readAll(ctx.req);
  Object.assign(ctx.request, { rawBody: text, body: membersOf(text) });
  await next();
};

/** The members. Repeated names are lists. */
function membersOf(text: string): object {
  const fields = new URLSearchParams(text);
  const lists = Object.groupBy(fields, ([name]) => name);
  const entries = Object.entries(lists).map(([name, pairs = []]) => {
    const values = pairs.map(([, value]) => value);
    return [name, values.length === 1 ? values[0] : values];
  });
  return Object.fromEntries(entries) as object;
}

/** A parser that stores only the members. */
const membersOnly: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.request, { body: membersOf(await readAll(ctx.req)) });
  await next();
};

/** A parser in front of Koa itself, as Express has them. */
const beforeKoa: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.req, { body: membersOf(await readAll(ctx.req)) });
  await next();
};

/** A parser that stores only the text. */
const textOnly: Koa.Middleware = async (ctx, next) => {
  Object.assign(ctx.request, { body: await readAll(ctx.req) });
  await next();
};

const before =
  (...parsers: Koa.Middleware[]) =>
  (application: Koa, routes: Koa.Middleware): void => {
    for (const parser of parsers) application.use(parser);
    application.use(routes);
  };

describe("a body parser in front of the service", () => {
  const parsers: [string, Koa.Middleware[]][] = [
    ["koa-body", [koaBody()]],
    ["koa-body with the unparsed text", [koaBody({ includeUnparsed: true })]],
    [
      "koa-body with files and small limits",
      [koaBody({ multipart: true, formLimit: "2kb", jsonLimit: "1kb" })],
    ],
    ["one that keeps the text and the members", [textAndMembers]],
    ["one that keeps the members only", [membersOnly]],
    ["one that keeps the text only", [textOnly]],
    ["one in front of Koa", [beforeKoa]],
  ];

  it.each(parsers)("works: %s", async (_what, middleware) => {
    await start({ mount: before(...middleware) });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
    const news = clientAt(running, "openid", NEWS);
    const refused = async (form: RequestParameters | URLSearchParams, type?: string): Promise<unknown> => {
      const { status, body } = await send(`${news.base}/oauth2/token`, {
        method: "POST",
        headers: { authorization: basic(NEWS), ...(type === undefined ? {} : { "content-type": type }) },
        body:
          type === "application/json" ? JSON.stringify(form) : new URLSearchParams(form as URLSearchParams),
      });
      return [status, body["error"]];
    };
    const code = await news.code(ADA);
    const form = { grant_type: "authorization_code", code, redirect_uri: news.redirect_uri };
    const twice = new URLSearchParams([...Object.entries(form), ["code", code]]);
    expect(await refused(twice)).toEqual([400, "invalid_request"]);
    expect(await refused(form, "application/json")).toEqual([400, "invalid_request"]);
    expect(await refused({ ...form, code: "a\0b" })).toEqual([400, "invalid_request"]);
    expect((await news.exchange(code)).status).toBe(200);
  });

  it.each([
    ["the text and the members", textAndMembers],
    ["the members only", membersOnly],
    ["the text only", textOnly],
  ])("may not exceed 64 KiB: one that keeps %s [D-TOKEN-8]", async (_what, parser) => {
    await start({ mount: before(parser) });
    const news = clientAt(running, "oauth2", NEWS);
    const { refresh_token } = await news.signIn(ADA);
    expect((await news.refresh(refresh_token, { x: "y".repeat(4_000) })).status).toBe(200);
    const { status, body } = await news.refresh(refresh_token, { x: "y".repeat(65_600) });
    expect([status, body["error_description"]]).toEqual([400, "the body is too large"]);
  });

  it.each(["__proto__", "constructor", "code[]", "code[a]"])("does not reinterpret %s", async (name) => {
    await start({ mount: before(koaBody()) });
    const news = clientAt(running, "oauth2", NEWS);
    const answer = await news.exchange("x", { [name]: "y" });
    expect([answer.status, typeof answer.body["error"]]).toEqual([400, "string"]);
  });

  it("leaves unknown paths to the host application, including bodies", async () => {
    const bodies: string[] = [];
    await start({
      mount(application, routes) {
        application.use(routes);
        application.use(async (ctx, next) => {
          bodies.push(await readAll(ctx.req));
          await next();
        });
      },
    });
    for (const base of [running.oauth2, running.openid]) {
      const { status, headers } = await send(`${base}/oauth2/tokens?a=%ff`, {
        method: "POST",
        body: "what\0ever",
      });
      expect([status, headers.get("x-host")]).toEqual([404, new URL(`${base}/oauth2/tokens`).pathname]);
    }
    expect(bodies).toEqual(["what\0ever", "what\0ever"]);
  });
});

/** The parts of a request that a host application may use. */
const picture = (ctx: Koa.Context): unknown => ({
  state: { ...(ctx.state as object) },
  url: [ctx.url, ctx.originalUrl, ctx.path, ctx.querystring, ctx.req.url],
  headers: { ...ctx.req.headers },
  body: ctx.request.body as unknown,
  method: ctx.method,
  own: Object.keys(ctx.req)
    .filter((name) => !name.startsWith("_"))
    .toSorted(),
});

describe("a host application", () => {
  it.each([
    ["has no keys", undefined],
    ["has keys of its own", ["some key of the host", "an older one"]],
  ])("may be one that %s", async (_what, keys) => {
    await start({
      mount(application, routes) {
        if (keys) application.keys = keys;
        application.use(routes);
      },
    });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
  });

  it("keeps its state, cookies, keys, URL, headers and body", async () => {
    const pictures: unknown[] = [];
    await start({
      mount(application, routes) {
        application.keys = ["a key of the host"];
        application.use(koaBody());
        application.use(async (ctx, next) => {
          const cookies = ctx.cookies;
          Object.assign(ctx.state, { deployment: "the host's", user: "the host's", address: 1 });
          ctx.cookies.set("host_before", "1", { signed: true });
          ctx.set("X-Before", "1");
          const was = picture(ctx);
          await next();
          ctx.cookies.set("host_after", "2", { signed: true });
          ctx.set("X-After", "2");
          pictures.push([was, picture(ctx)]);
          expect(ctx.cookies).toBe(cookies);
          expect(ctx.cookies.get("host_before", { signed: true }) ?? "none").toMatch(/^(1|none)$/);
        });
        application.use(routes);
      },
    });
    const news = clientAt(running, "openid", NEWS);
    const browser = news.browser();
    const check = (): void => {
      const names = browser.headers.getSetCookie().map((cookie) => cookie.split("=")[0]);
      expect(names).toEqual(
        expect.arrayContaining(["host_before", "host_before.sig", "host_after", "host_after.sig"]),
      );
      expect([browser.headers.get("x-before"), browser.headers.get("x-after")]).toEqual(["1", "2"]);
    };
    await browser.getOnly(news.authorizeUrl({ scope: "openid" }));
    check();
    await browser.follow();
    check();
    await signIn(browser);
    check();
    await browser.getOnly(`${running.openid}/oauth2/authorize`);
    expect(browser.status).toBe(400);
    check();
    await news.signIn({ ...ADA, browser });
    expect(await signedIn(news, browser)).toBe(true);
    expect(pictures.length).toBeGreaterThan(5);
    for (const [was, is] of pictures as [unknown, unknown][]) expect(is).toEqual(was);
  });

  it("may mount the service in nested mounts and middleware", async () => {
    await start({
      deployments: (origin) => ({
        oauth2: { url: `${origin}/accounts/v1` },
        openid: { url: `${origin}/accounts/v1/connect` },
      }),
      mount: (application, routes) =>
        void application.use(mount("/accounts", compose([mount("/v1", compose([routes]))]))),
    });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
    const { headers } = await send(`${running.origin}/accounts/v1/nothing`);
    expect(headers.get("x-host")).toBe("/accounts/v1/nothing");
    expect((await send(`${running.origin}/oauth2/token`, { method: "POST" })).headers.has("x-host")).toBe(
      true,
    );
  });

  it("may remove the prefix itself, as Express does", async () => {
    await start({
      config: { stripPrefix: "/login" },
      deployments: (origin) => ({
        oauth2: { url: `${origin}/login` },
        openid: { url: `${origin}/login/connect` },
      }),
      mount(application, routes) {
        const callback = application.callback.bind(application);
        // The outer program shortens the URL and keeps the original one.
        application.callback = () => {
          const inner = callback();
          return (req, res) => {
            const url = req.url ?? "";
            if (url.startsWith("/login/"))
              Object.assign(req, { url: url.slice("/login".length), originalUrl: url });
            return inner(req, res);
          };
        };
        application.use(routes);
      },
    });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
  });

  it("may pass a request through the service twice: the first response stays [D-DEPLOY-11]", async () => {
    await start({
      mount(application, routes) {
        application.use(async (ctx, next) => {
          await routes(ctx, () => Promise.resolve());
          await next();
        });
        application.use(routes);
      },
    });
    const { status, body } = await send(`${running.openid}/oauth2/jwks`);
    expect([status, Object.keys(body)]).toEqual([200, ["keys"]]);
  });

  it("keeps nothing of finished requests", async () => {
    await start({});
    const { provider } = running.service;
    const create = provider.createContext.bind(provider);
    const contexts: Koa.Context[] = [];
    provider.createContext = (req, res) => {
      const context = create(req, res);
      contexts.push(context);
      return context;
    };
    await clientAt(running, "openid", NEWS).signIn(ADA);
    const used = contexts.filter((context) => Object.hasOwn(context, "oidc"));
    expect(used.length).toBeGreaterThan(2);
    for (const context of used) expect(Object.values(context)).not.toContainEqual(expect.anything());
  });

  it("may listen to oidc-provider's events, and use the context after the response", async () => {
    await start({});
    const { provider } = running.service;
    const news = clientAt(running, "openid", NEWS);
    const contexts: KoaContextWithOIDC[] = [];
    provider.on("grant.success", (ctx) => void contexts.push(ctx));
    await news.signIn(ADA);
    expect(contexts.map(({ oidc, status }) => [oidc.client?.clientId, status])).toEqual([
      [NEWS.client_id, 200],
    ]);
  });

  it("may add middleware to oidc-provider, and use the context after the response", async () => {
    await start({});
    const { provider } = running.service;
    const passed: unknown[] = [];
    provider.use(async (ctx, next) => {
      await next();
      ctx.set("x-seen", ctx.path);
      ctx.res.once("close", () => passed.push([ctx.path, ctx.status]));
    });
    const { status, headers } = await clientAt(running, "oauth2", NEWS).password(ADA);
    expect([status, headers.get("x-seen")]).toEqual([200, "/oauth2/token"]);
    expect(passed).toEqual([["/oauth2/token", 200]]);
  });
});
