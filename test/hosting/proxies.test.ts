import { afterEach, describe, expect, it } from "@jest/globals";
import type { DeploymentsInput } from "../../config/input.ts";
import { relyingParty, send } from "../flows/relying-party.ts";
import { NEWS, type RunningService } from "../flows/running-service.ts";
import { rawRequest, sendRaw } from "../hostile/raw.ts";
import { type HostOptions, signsIn, startHost, startProxy, WORKS } from "./host.ts";

let running: RunningService;
const open: { close(): Promise<void> }[] = [];

async function start(options: HostOptions): Promise<RunningService> {
  running = await startHost(options);
  open.push(running);
  return running;
}

afterEach(async () => {
  expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  await Promise.all(open.splice(0).map((one) => one.close()));
});

/** The same port under two names. */
const twoHosts = (origin: string): DeploymentsInput => ({
  oauth2: { url: origin },
  openid: { url: origin.replace("127.0.0.1", "localhost") },
});

/** The status of a request for the authorization endpoint, with headers that fetch would not send. */
async function statusWith(headers: Record<string, string>): Promise<number> {
  const { client_id, redirect_uris } = NEWS;
  const query = new URLSearchParams({
    client_id,
    response_type: "code",
    redirect_uri: redirect_uris[0] ?? "",
  });
  const request = rawRequest("GET", `/oauth2/authorize?${query}`, headers);
  return (await sendRaw(Number(new URL(running.origin).port), request)).status;
}

describe("a proxy", () => {
  it("may remove a prefix and change the host, with stripPrefix", async () => {
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
  });

  it("may serve each deployment on its own host, selected by the Host header [D-DEPLOY-1, D-DEPLOY-2]", async () => {
    await start({ deployments: twoHosts });
    expect(await signsIn(running)).toEqual([...WORKS, ...WORKS]);
    const redirect = async (kind: "oauth2" | "openid"): Promise<string[]> => {
      const news = relyingParty(running, kind, NEWS);
      return [...(await news.authorize(news.browser())).searchParams.keys()];
    };
    expect([await redirect("oauth2"), await redirect("openid")]).toEqual([["code"], ["code", "iss"]]);
    expect(await statusWith({ Host: "evil.example" })).toBe(400);
  });

  it.each([
    ["counts with proxy", true, 303],
    ["does not count without", false, 400],
    ["does not count from an address that is not trusted", ["192.0.2.0/24"], 400],
    ["counts from an address that is trusted", ["127.0.0.0/8"], 303],
  ])("X-Forwarded-Host %s [D-DEPLOY-2]", async (_what, trust, expected) => {
    await start({
      config: { proxy: trust },
      deployments: () => ({
        oauth2: { url: "http://a.localhost:81" },
        openid: { url: "http://b.localhost:81" },
      }),
    });
    for (const name of ["a", "b"]) {
      const forwarded = `evil.example, ${name}.localhost:81`;
      expect(await statusWith({ Host: "inner:80", "X-Forwarded-Host": forwarded })).toBe(expected);
    }
  });
});
