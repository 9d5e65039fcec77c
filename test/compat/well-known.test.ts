/** What the root of a host says to browsers and password managers, and to nobody else. */
import { request } from "node:http";
import { afterAll, describe, expect, it } from "@jest/globals";
import { type RunningService, startService, useService } from "../flows/running-service.ts";

/** What came back. */
interface Seen {
  readonly status: number;
  readonly text: string;
  readonly location?: string | undefined;
}

/** @param host of the header. */
function ask({ origin }: RunningService, path: string, host: string, method = "GET"): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const sent = request(origin + path, { method, headers: { host } }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      const { location } = response.headers;
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text, location }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe("/.well-known/webauthn", () => {
  const PATH = "/.well-known/webauthn";

  const running = useService({
    config: {
      interactions: { passkeys: { previousRpIds: ["old.example"] } },
    },
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  });

  it.each(["old.example", "OLD.example:8443"])(
    "at %s names the origins of the service [D-FACTOR-38]",
    async (host) => {
      const { status, text } = await ask(running, PATH, host);
      expect([status, JSON.parse(text)]).toEqual([200, { origins: [new URL(running.oauth2).origin] }]);
    },
  );

  it.each(["evil.example", "login.old.example", "old.example.evil.example", ""])(
    "at %s is nothing: it is no earlier domain",
    async (host) => {
      const { text } = await ask(running, PATH, host);
      expect(text).not.toContain("origins");
    },
  );

  it("is only read", async () => {
    const { text } = await ask(running, PATH, "old.example", "POST");
    expect(text).not.toContain("origins");
  });
});

describe("/.well-known/change-password", () => {
  const PATH = "/.well-known/change-password";
  const open: RunningService[] = [];
  afterAll(() => Promise.all(open.map((one) => one.close())));

  async function start(urls: {
    readonly oauth2?: string;
    readonly openid?: string;
  }): Promise<RunningService> {
    const { oauth2, openid } = urls;
    const running = await startService({
      config: { proxy: ["127.0.0.1"], interactions: { passkeys: { rpId: "site.localhost" } } },
      deployments: () => ({
        ...(oauth2 !== undefined && { oauth2: { url: oauth2 } }),
        ...(openid !== undefined && { openid: { url: openid } }),
      }),
    });
    open.push(running);
    return running;
  }

  it("leads to the account page for the password, from any name of the only host [D-DEPLOY-16]", async () => {
    const running = await start({
      oauth2: "http://site.localhost:9",
      openid: "http://site.localhost:9/openid",
    });
    const target = "http://site.localhost:9/openid/account/password";
    for (const [host, method] of [
      ["site.localhost:9", "GET"],
      ["SITE.localhost:9", "HEAD"],
      ["10.0.0.1", "GET"],
    ] as const) {
      const { status, location } = await ask(running, `${PATH}?x=1`, host, method);
      expect([status, location]).toEqual([303, target]);
    }
    for (const [path, method] of [
      [PATH, "POST"],
      [`${PATH}/`, "GET"],
      [`/openid${PATH}`, "GET"],
      ["/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200", "GET"],
    ] as const)
      expect((await ask(running, path, "site.localhost:9", method)).status).toBe(404);
  });

  it("leads to the deployment of its host [D-DEPLOY-16]", async () => {
    const running = await start({
      oauth2: "http://login.site.localhost/a",
      openid: "http://id.site.localhost",
    });
    const at = async (host: string): Promise<unknown> => (await ask(running, PATH, host)).location;
    expect(await at("login.site.localhost")).toBe("http://login.site.localhost/a/account/password");
    expect(await at("id.site.localhost")).toBe("http://id.site.localhost/account/password");
    expect(await at("10.0.0.1")).toBeUndefined();
  });
});
