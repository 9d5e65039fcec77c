/** Two deployments on two hosts, selected by the Host header. */
import { connect } from "node:http2";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { endpointsOf } from "../../config/deployments.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import { CALLBACK, type RunningService } from "../flows/running-service.ts";
import { type RawAnswer, sendRaw } from "../hostile/raw.ts";
import { startHost } from "./host.ts";

const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];
const HOSTS = { oauth2: "login.site.localhost:8080", openid: "id.site.localhost" } as const;
const config = {
  interactions: { passkeys: { rpId: "site.localhost" } },
  providers: {
    "an-id": { issuer: "https://id.example.com", client_id: "c", client_secret: "secret", name: "Elsewhere" },
  },
};
/** A step of each path that has one. */
const STEPS: Readonly<Record<string, string>> = { clients: "logo", providers: "callback" };
const stepOf = (path: string): string => STEPS[path.split("/")[1] ?? ""] ?? "login";
const AUTHORIZE = `/oauth2/authorize?client_id=news&response_type=code&redirect_uri=${CALLBACK}`;

/** Sends a request with exactly these header lines. */
function get(
  running: RunningService,
  target: string,
  lines: readonly string[],
  version = "1.1",
): Promise<RawAnswer> {
  const head = [`GET ${target} HTTP/${version}`, ...lines, "Connection: close", "", ""].join("\r\n");
  return sendRaw(Number(new URL(running.origin).port), head);
}

/** Which one responded: a deployment, the host application (404), or neither (400). */
async function speaks(running: RunningService, lines: readonly string[], version?: string): Promise<string> {
  const { status, headers } = await get(running, AUTHORIZE, lines, version);
  const location = headers.get("location") ?? "";
  const kind = KINDS.find((each) => location.startsWith(`${running[each]}/interaction/`));
  return kind ?? `${status} ${headers.get("x-host") === undefined ? "service" : "host"}`;
}

describe.each([
  ["both at the root", "", ""],
  ["under paths of their own", "/a", "/b"],
])("two hosts, %s", (_where, left, right) => {
  let running: RunningService;
  beforeAll(async () => {
    running = await startHost({
      config,
      deployments: () => ({
        oauth2: { url: `http://${HOSTS.oauth2}${left}` },
        openid: { url: `http://${HOSTS.openid}${right}` },
      }),
    });
    // Introspection exists on OAuth 2.0 once there is an API.
    await running.service.directory.apis.put("https://api.example", {
      name: "API",
      service: "1",
      scopes: { read: "Read" },
      tokens: "opaque",
    });
  });

  it("a request for one host reaches no path of the other, including pages [D-HOST-1]", async () => {
    const bases = { oauth2: left, openid: right };
    const paths = Object.fromEntries(
      KINDS.map((kind) => [
        kind,
        [...endpointsOf({ kind, post: false }).map(({ path }) => path), "/account/callback"].map(
          (path) => bases[kind] + path.replace(":uid", "an-id").replace(":step", stepOf(path)),
        ),
      ]),
    );
    const wrong: unknown[] = [];
    for (const kind of KINDS) {
      const other = kind === "oauth2" ? "openid" : "oauth2";
      for (const path of new Set([...(paths[kind] ?? []), ...(paths[other] ?? [])])) {
        const { headers } = await get(running, path, [`Host: ${HOSTS[kind]}`]);
        const isOurs = headers.get("x-host") === undefined;
        if (isOurs !== paths[kind]?.includes(path)) wrong.push([kind, path]);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("discovery is on the OpenID Connect host and on unknown hosts [D-HOST-1, D-META-2]", async () => {
    for (const discovery of [
      `${right}/.well-known/openid-configuration`,
      `/.well-known/openid-configuration${right}`,
      `/.well-known/oauth-authorization-server${right}`,
    ]) {
      expect((await get(running, discovery, [`Host: ${HOSTS.oauth2}`])).status).toBe(404);
      expect((await get(running, discovery, [`Host: ${HOSTS.openid}`])).status).toBe(200);
      for (const lines of [["Host: sign-in.internal:3000"], ["Host: 10.1.2.3"], ["Host: [fd00::1]:3000"]]) {
        expect((await get(running, discovery, lines)).status).toBe(200);
      }
    }
  });
});

describe("the Host of a shared path", () => {
  let running: RunningService;
  beforeAll(async () => {
    running = await startHost({
      config,
      deployments: () => ({
        oauth2: { url: `http://${HOSTS.oauth2}` },
        openid: { url: `http://${HOSTS.openid}` },
      }),
    });
  });

  it.each([
    ["login.site.localhost:8080", "oauth2"],
    ["LOGIN.Site.LocalHost:8080", "oauth2"],
    ["login.site.localhost.:8080", "oauth2"],
    ["id.site.localhost", "openid"],
    ["id.site.localhost:80", "openid"],
    ["id.site.localhost:", "openid"],
    ["ID.site.localhost.", "openid"],
    ["ID.site.localhost.:80", "openid"],
  ])("%s is %s, with any case, a default port and a trailing dot [D-HOST-1]", async (host, kind) => {
    expect(await speaks(running, [`Host: ${host}`])).toBe(kind);
  });

  it.each([
    "evil.example",
    "127.0.0.1",
    "[::1]:8080",
    "login.site.localhost",
    "login.site.localhost:80",
    "login.site.localhost:443",
    "login.site.localhost:08080x",
    "id.site.localhost:443",
    "id.site.localhost..",
    ".id.site.localhost",
    "xid.site.localhost",
    "id.site.localhost.evil.example",
    "id.site.localhost:80:80",
    "id.site.localhost/",
    "id.site.localhost/x",
    "id.site.localhost?x",
    "id.site.localhost#x",
    "user@id.site.localhost",
    "http://id.site.localhost",
    "id.site.localhost, login.site.localhost:8080",
    "id%2esite.localhost",
    "id\\site.localhost",
    "id.site.localhost\t.example",
    "\u00efd.site.localhost",
    "",
  ])("%j is neither: 400, without an interaction [D-HOST-1]", async (host) => {
    expect(await speaks(running, [`Host: ${host}`])).toBe("400 service");
  });

  it("is neither if it is missing in HTTP/1.0 or repeated [D-HOST-1]", async () => {
    expect(await speaks(running, [], "1.0")).toBe("400 service");
    expect(await speaks(running, [`Host: ${HOSTS.openid}`], "1.0")).toBe("openid");
    const twice = [`Host: ${HOSTS.openid}`, `Host: ${HOSTS.oauth2}`];
    expect(await speaks(running, twice)).toBe("400 service");
    expect(await speaks(running, [twice[0] ?? "", twice[0] ?? ""])).toBe("400 service");
    // It does not matter for a path of one deployment.
    expect((await get(running, "/oauth2/jwks", twice)).status).toBe(200);
  });

  it("of ambiguous requests gets a page or JSON, without a cookie", async () => {
    const page = await get(running, AUTHORIZE, ["Host: 10.0.0.1", "Accept: text/html"]);
    expect([page.status, page.headers.get("content-type")]).toEqual([400, "text/html; charset=utf-8"]);
    const json = await get(running, AUTHORIZE, ["Host: 10.0.0.1"]);
    expect(JSON.parse(json.body)).toMatchObject({ error: "invalid_request" });
    expect([page, json].map(({ headers }) => headers.get("set-cookie"))).toEqual([undefined, undefined]);
  });

  it("is :authority in HTTP/2", async () => {
    const application = new Koa().use(running.service.routes()).callback();
    const server = createServer((request, response) => void application(request, response));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const location = (authority: string): Promise<string> =>
      new Promise((resolve) => {
        const stream = session.request({ ":path": AUTHORIZE, ":authority": authority });
        stream.once("response", (headers) => resolve(headers.location ?? String(headers[":status"])));
        stream.resume();
        stream.end();
      });
    expect(await location(HOSTS.openid)).toMatch(new RegExp(`^${running.openid}/interaction/`));
    expect(await location(HOSTS.oauth2)).toMatch(new RegExp(`^${running.oauth2}/interaction/`));
    expect(await location("evil.example")).toBe("400");
    session.close();
    await new Promise((resolve) => void server.close(resolve));
  });
});

describe("X-Forwarded-Host of a trusted proxy", () => {
  let running: RunningService;
  beforeAll(async () => {
    running = await startHost({
      config: { proxy: true },
      deployments: () => ({
        oauth2: { url: `http://${HOSTS.oauth2}` },
        openid: { url: "http://[::1]:3000" },
      }),
    });
  });

  it.each([
    [["X-Forwarded-Host: LOGIN.site.localhost.:8080"], "oauth2"],
    [["X-Forwarded-Host: [::1]:3000"], "openid"],
    [["X-Forwarded-Host: [0:0:0:0:0:0:0:1]:3000"], "openid"],
    [["X-Forwarded-Host: evil.example, login.site.localhost:8080"], "oauth2"],
    [["X-Forwarded-Host: [::1]:3000", "X-Forwarded-Host: login.site.localhost:8080"], "oauth2"],
    [["X-Forwarded-Host: login.site.localhost:8080, evil.example"], "400 service"],
    [["X-Forwarded-Host: ,,,"], "400 service"],
    [["X-Forwarded-Host: [::1"], "400 service"],
    [["X-Forwarded-Host: [::1]3000"], "400 service"],
    [["X-Forwarded-Host: [::ffff:::1]:3000"], "400 service"],
    [["X-Forwarded-Host: [::1]:3000@login.site.localhost:8080"], "400 service"],
    [[`X-Forwarded-Host: ${"a".repeat(8000)}`], "400 service"],
    [[`X-Forwarded-Host: ${"a,".repeat(4000)}login.site.localhost:8080`], "oauth2"],
  ])("%j: %s [D-HOST-1]", async (lines, kind) => {
    expect(await speaks(running, ["Host: inner.example", ...lines])).toBe(kind);
  });

  it("overrides the Host, unless it is empty", async () => {
    expect(await speaks(running, [`Host: ${HOSTS.oauth2}`, "X-Forwarded-Host: [::1]:3000"])).toBe("openid");
    expect(await speaks(running, [`Host: ${HOSTS.oauth2}`, "X-Forwarded-Host: "])).toBe("oauth2");
  });
});
