/** Host applications and proxies. */
import { createServer, request as forward, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type Koa from "koa";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import type { TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import {
  ADA,
  NEWS,
  type RunningOptions,
  type RunningService,
  startService,
} from "../flows/running-service.ts";

/** How the service is put into the host application. */
export interface HostOptions extends Omit<RunningOptions, "host"> {
  /** Adds the service's routes to the application. Default: at its root, without anything else. */
  readonly mount?: (application: Koa, routes: Koa.Middleware) => void;
}

/** Starts a host application, which responds to other paths with 404 and `X-Host`. */
export function startHost({ mount, ...options }: HostOptions): Promise<RunningService> {
  return startService({
    ...options,
    host(application, service) {
      const routes = service.routes();
      if (mount) mount(application, routes);
      else application.use(routes);
      application.use((ctx) => {
        ctx.status = 404;
        ctx.set("X-Host", ctx.path);
        ctx.body = { host: ctx.request.url };
      });
    },
  });
}

/** Runs a complete flow: form, code, tokens, profile, no second form, refresh, revoke. */
export async function signsIn(
  running: RunningService,
  kinds: readonly DeploymentKind[] = ["oauth2", "openid"],
): Promise<unknown> {
  const steps: unknown[] = [];
  for (const kind of kinds) {
    const news = clientAt(running, kind, NEWS);
    const browser = news.browser();
    const state = "a b+c%/&=é";
    const { location } = await news.authorize({ ...ADA, browser }, { scope: "openid email", state });
    const tokens = (await news.exchange(location.searchParams.get("code") ?? "")).body as Record<
      string,
      string
    >;
    const token = tokens["access_token"] ?? "";
    steps.push(
      location.searchParams.get("state") === state,
      (await news.userinfo(token)).body["email"],
      (await news.profile(token)).body["name"],
      await signedIn(news, browser),
      (await news.refresh(tokens["refresh_token"] ?? "")).status,
      (await news.revoke(token, "GET")).status,
      (await news.revoke(token, "POST")).status,
      (await news.password(ADA)).status,
    );
  }
  return steps;
}

/** The successful result of {@link signsIn}. */
export const WORKS: readonly unknown[] = [true, ADA.email, ADA.name, true, 200, 200, 400, 200];

/** Whether the browser gets a code without a form. */
export async function signedIn(party: TestClient, browser: Browser = party.browser()): Promise<boolean> {
  await browser.get(party.authorizeUrl());
  return browser.location?.searchParams.has("code") ?? false;
}

/** How a proxy forwards requests. */
export interface ProxyOptions {
  /** The target, such as `http://127.0.0.1:40123`. */
  readonly to: () => string;
  readonly path?: (path: string) => string;
  readonly headers?: (headers: NodeJS.Dict<string | string[]>) => NodeJS.Dict<string | string[]>;
  /** Changes the headers of answers: names and values in turn. */
  readonly answer?: (headers: readonly string[]) => readonly string[];
}

/** A proxy on a free port. */
export async function startProxy({
  to,
  path = (same) => same,
  headers = (same) => same,
  answer: answering = (same) => same,
}: ProxyOptions): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server: Server = createServer((incoming, outgoing) => {
    const target = new URL(path(incoming.url ?? "/"), to());
    const options = { method: incoming.method, headers: headers({ ...incoming.headers }) };
    const forwarded = forward(target, options, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, [...answering(answer.rawHeaders)]);
      answer.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
