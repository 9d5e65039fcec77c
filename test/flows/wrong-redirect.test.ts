/** A sign-in with a redirect address that is not registered: what the answer shows, the log and the audit. */
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import { clientAt } from "./clients.ts";
import { send } from "../../testing/test-client.ts";
import { NEWS, type RunningService, startService } from "./running-service.ts";
import { newStorage } from "../servers/storage.ts";
import { newFolder } from "../closing.ts";

const WRONG = 'https://news.example/callback?x="<script>alert(1)</script>';

const SHOWN = "https://news.example/callback?x=%22%3Cscript%3Ealert(1)%3C/script%3E";

let running: RunningService;

const wrongRequest = (kind: "oauth2" | "openid"): string =>
  clientAt(running, kind, NEWS).authorizeUrl({ redirect_uri: WRONG });
const warnings = (): string[] => running.log.filter((line) => line.includes("redirect_uris"));

async function recorded(): Promise<readonly { readonly count: number; readonly subject: string | null }[]> {
  // Refusals are collected for a second.
  const end = performance.now() + 20_000;
  for (;;) {
    const { items: records } = await running.service.audit.list({ action: "client.redirect_refused" });
    if (records.reduce((sum, { count }) => sum + count, 0) >= 6 || performance.now() > end) return records;
    await new Promise((resolve) => void setTimeout(resolve, 100));
  }
}

it("outside production the answer shows what was sent and what is registered; log and audit are bounded", async () => {
  running = await startService({ config: await newStorage() });
  for (const kind of ["oauth2", "openid"] as const) {
    const { status, body } = await send(wrongRequest(kind));
    expect([status, body["error"]]).toEqual([400, "invalid_redirect_uri"]);
    expect(body["error_description"]).toBe(
      `redirect_uri is not the registered address: ${SHOWN} was sent, and registered is ${NEWS.redirect_uris[0]}`,
    );
    const page = await send(wrongRequest(kind), { headers: { accept: "text/html" } });
    expect(page.text).toContain(NEWS.redirect_uris[0]);
    expect(page.text).toContain(SHOWN);
    expect(page.text).not.toContain("<script>");
    await send(wrongRequest(kind));
  }
  expect(warnings()).toHaveLength(1);
  expect(warnings()[0]).toContain("client news");
  const records = await recorded();
  expect(records).toMatchObject([{ subject: "news", client: "news", outcome: "failure", count: 6 }]);
  expect(JSON.stringify([running.log, records])).not.toContain("news.example");
});

it("in production it shows neither", async () => {
  const folder = newFolder();
  running = await startService({
    config: {
      storage: `sqlite:${join(folder, "sign-in.db")}`,
      proxy: true,
      interactions: { theme: { name: "Example" } },
    },
    deployments: (origin) => ({
      oauth2: { url: origin },
      openid: { url: "https://login.example/openid" },
    }),
  });
  const { status, body } = await send(wrongRequest("oauth2"));
  expect([status, body]).toEqual([
    400,
    { error: "invalid_redirect_uri", error_description: "redirect_uri is not the registered address" },
  ]);
  expect(warnings()).toHaveLength(1);
});
