/** What an earlier domain of passkeys says to browsers, and to nobody else. */
import { request } from "node:http";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { newStorage } from "../servers/storage.ts";
import { type RunningService, startService } from "../flows/running-service.ts";

let running: RunningService;
beforeAll(async () => {
  running = await startService({
    config: {
      ...(await newStorage()),
      interactions: { passkeys: { previousRpIds: ["old.example"] } },
    },
    // Browsers make no passkeys for IP addresses.
    deployments(origin) {
      const base = origin.replace("127.0.0.1", "localhost");
      return { oauth2: { url: base }, openid: { url: `${base}/openid` } };
    },
  });
});
afterAll(() => running.close());

/** @param host of the header. */
function ask(host: string, method = "GET"): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const url = `${running.origin}/.well-known/webauthn`;
    const sent = request(url, { method, headers: { host } }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

it.each(["old.example", "OLD.example:8443"])("%s names the origins of the service", async (host) => {
  const { status, text } = await ask(host);
  expect([status, JSON.parse(text)]).toEqual([200, { origins: [new URL(running.oauth2).origin] }]);
});

it.each(["evil.example", "login.old.example", "old.example.evil.example", ""])(
  "%s is no earlier domain",
  async (host) => {
    const { text } = await ask(host);
    expect(text).not.toContain("origins");
  },
);

it("is only read", async () => {
  const { text } = await ask("old.example", "POST");
  expect(text).not.toContain("origins");
});
