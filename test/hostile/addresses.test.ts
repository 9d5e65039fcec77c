import { beforeAll, describe, expect, it } from "@jest/globals";
import type { DeploymentKind } from "../../config/configuration.ts";
import { send } from "../../testing/test-client.ts";
import { fillConsole, targetsOf } from "./account-samples.ts";
import { useObserved } from "./observed-service.ts";
import { sendRaw } from "./raw.ts";
import { type Sample, samples, sendSample } from "./requests.ts";

const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];

let all: Sample[];
const { running, port, raw, authorizePath } = useObserved();

beforeAll(async () => {
  all = await samples(running, await fillConsole(running));
});

describe("paths", () => {
  it("match exactly; other spellings are left to the host application [D-DEPLOY-11]", async () => {
    const wrong: unknown[] = [];
    for (const { path, methods, target } of targetsOf(running)) {
      const last = target.lastIndexOf("/");
      for (const variant of [
        target.toUpperCase(),
        target.replace(/[a-z](?=[^a-z]*$)/, (letter) => letter.toUpperCase()),
        `${target}/`,
        `${target}//`,
        `/${target}`,
        target.replace(/\/(?=[^/]+$)/, "%2f"),
        target.replace(/\/(?=[^/]+$)/, "//"),
        target.replace(/\/(?=[^/]+$)/, "/./"),
        target.replace(/\/(?=[^/]+$)/, "/x/../"),
        target.replace(/\/(?=[^/]+$)/, "\\"),
        `${target.slice(0, last + 1)}%${target.charCodeAt(last + 1).toString(16)}${target.slice(last + 2)}`,
        `${target};x=1`,
        `${target}.json`,
        `${target}%00`,
        `${target}%20`,
        `/x/..${target}`,
        `${running.origin}${target}`,
      ]) {
        if (!/^(?:\/|http)/.test(variant)) continue;
        // In a path with `:uid`, these are other ids.
        if (
          /:uid$|:step$|\/receivers$/.test(path) &&
          /^[\w/-]+$/.test(variant) &&
          variant.startsWith(target.slice(0, last + 1)) &&
          !variant.endsWith("/")
        )
          continue;
        const { status, headers } = await raw(methods[0] ?? "GET", variant);
        // The host's empty 404 for discovery says where it is.
        const isHosts = headers.get("x-host") === "yes" || variant.includes("/.well-known/");
        if (status !== 404 || !isHosts) wrong.push([variant, status]);
      }
    }
    expect(wrong).toEqual([]);
  });
});

describe("the Host of a request", () => {
  const forged = {
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "198.51.100.7",
    Forwarded: "host=evil.example;proto=https",
    "X-Forwarded-Prefix": "/evil",
  };

  it.each([
    ["a forged Host", { Host: "evil.example" }],
    ["forged X-Forwarded headers, which count only with proxy", forged],
    ["a Host with a path", { Host: "127.0.0.1/evil" }],
  ])("is in no response: %s [D-DEPLOY-2]", async (_what, headers) => {
    for (const kind of KINDS) {
      const { status, headers: got } = await raw("GET", authorizePath(kind), headers);
      expect(status).toBe(303);
      expect(got.get("location")?.startsWith(`${running[kind]}/interaction/`)).toBe(true);
      expect(got.get("set-cookie")).not.toMatch(/evil|secure/i);
    }
    const { body } = await raw("GET", "/openid/.well-known/openid-configuration", headers);
    const document = JSON.parse(body) as Record<string, unknown>;
    expect(body).not.toContain("evil");
    expect(document["issuer"]).toBe(running.openid);
    expect(document["token_endpoint"]).toBe(`${running.openid}/oauth2/token`);
  });

  it("may be missing only where HTTP allows it", async () => {
    const old = `GET ${authorizePath("oauth2")} HTTP/1.0\r\n\r\n`;
    expect((await sendRaw(port(), old)).headers.get("location")).toMatch(running.oauth2);
    expect((await sendRaw(port(), old.replace("1.0", "1.1"))).status).toBe(400);
  });
});

const cors = (headers: Headers): string[] =>
  [...headers.keys()].filter((name) => name.startsWith("access-control"));

describe("CORS", () => {
  it("is enabled for discovery and the keys only, while no client lists an origin [D-DEPLOY-8]", async () => {
    const open = new Set<string>();
    for (const origin of [undefined, "https://evil.example", "null", running.origin]) {
      for (const sample of all) {
        const { headers } = await sendSample(sample, { headers: { origin } });
        if (cors(headers).length > 0) open.add(sample.endpoint);
      }
    }
    expect([...open].toSorted()).toEqual(["discovery", "jwks"]);
    const preflight = { origin: "https://app.example", "access-control-request-method": "GET" };
    const { headers } = await send(`${running.openid}/oauth2/jwks`, {
      method: "OPTIONS",
      headers: preflight,
    });
    expect(headers.get("access-control-allow-origin")).toMatch(/^(\*|https:\/\/app\.example)$/);
    const token = await send(`${running.openid}/oauth2/token`, { method: "OPTIONS", headers: preflight });
    expect([token.status, cors(token.headers)]).toEqual([204, []]);
  });
});
