import { afterEach, describe, expect, it } from "@jest/globals";
import type { DeploymentsInput } from "../../config/input.ts";
import { clientAt } from "../flows/clients.ts";
import { send } from "../../testing/test-client.ts";
import { ADA, NEWS, type RunningService } from "../flows/running-service.ts";
import { type HostOptions, signsIn, startHost, startProxy, WORKS } from "./host.ts";

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

/** The same port under two names. */
const twoHosts = (origin: string): DeploymentsInput => ({
  oauth2: { url: origin },
  openid: { url: origin.replace("127.0.0.1", "localhost") },
});

describe("a proxy", () => {
  it("may remove a prefix and change the host, with stripPrefix [D-DEPLOY-17, D-META-1]", async () => {
    let inner = "";
    const proxy = await startProxy({
      to: () => inner,
      path: (path) => path.replace(/^\/login(?=\/)/, ""),
      headers: (headers) => ({ ...headers, host: "inner.example:8080" }),
    });
    open.push(proxy);
    await start({
      config: { stripPrefix: "/login" },
      deployments: () => ({
        oauth2: { url: `${proxy.url}/login` },
        openid: { url: `${proxy.url}/login/openid` },
      }),
    });
    inner = running.origin;
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
    const { body } = await send(`${proxy.url}/login/openid/.well-known/openid-configuration`);
    expect(body["authorization_endpoint"]).toBe(`${proxy.url}/login/openid/oauth2/authorize`);
    // The proxy takes no prefix off what is not under it.
    const root = `${proxy.url}/.well-known/oauth-authorization-server`;
    expect((await send(`${root}/login/openid`)).body).toEqual(body);
    expect((await send(`${root}/openid`)).status).toBe(404);
  });

  it("may serve each deployment on its own host, selected by the Host header [D-DEPLOY-1, D-DEPLOY-2]", async () => {
    await start({ deployments: twoHosts });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
    const redirect = async (kind: "oauth2" | "openid"): Promise<string[]> => {
      const news = clientAt(running, kind, NEWS);
      return [...(await news.authorize(ADA)).location.searchParams.keys()];
    };
    expect([await redirect("oauth2"), await redirect("openid")]).toEqual([["code"], ["code", "iss"]]);
  });
});
