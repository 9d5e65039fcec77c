/** The logout plans of `docs/internals/conformance.md`, module by module. */
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { RequestParameters } from "../../testing/test-client.ts";
import { ConformanceClient } from "./conformance-client.ts";
import { ConformanceStage } from "./conformance-stage.ts";
import { closing } from "../closing.ts";

let stage: ConformanceStage;
let suite: ConformanceClient;

beforeAll(async () => {
  stage = closing(await ConformanceStage.open());
  suite = await ConformanceClient.discover(stage);
}, 60_000);

/** What a module changes in the logout request. */
type Change = (parameters: Record<string, string>) => RequestParameters;
const without =
  (...names: string[]): Change =>
  (parameters) =>
    Object.fromEntries(Object.entries(parameters).filter(([name]) => !names.includes(name)));

const unsigned: Change = (parameters) => {
  const [, payload] = (parameters["id_token_hint"] ?? "").split(".");
  const header = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  return { ...parameters, id_token_hint: `${header}.${payload}.` };
};
const elsewhere =
  (more: string): Change =>
  (all) => ({ ...all, post_logout_redirect_uri: `${all["post_logout_redirect_uri"]}${more}` });

describe("oidcc-rp-initiated-logout-certification-test-plan", () => {
  /** Signs in, calls the logout endpoint, and checks with `prompt=none` whether the user is still signed in. */
  async function signOut(module: string, change: Change = (all) => all) {
    const browser = stage.browser();
    const { tokens } = await suite.succeed(module, { browser });
    const id_token_hint = String(tokens["id_token"]);
    const post_logout_redirect_uri = stage.at("post_logout_redirect");
    const state = randomBytes(64).toString("hex");
    const target = suite.address("end_session", change({ id_token_hint, post_logout_redirect_uri, state }));
    const page = await stage.visit(browser, module, target.replace(/\?$/, ""));
    const after = await suite.authorize(module, { browser, parameters: { prompt: "none" } });
    return { page, state, error: after.callback?.["error"] };
  }

  it("oidcc-rp-initiated-logout-discovery-endpoint-verification", () => {
    expect(suite.metadata["end_session_endpoint"]).toMatch(/^https:/);
  });

  it.each<[string, Change | undefined]>([
    ["oidcc-rp-initiated-logout", undefined],
    ["oidcc-rp-initiated-logout-no-state", without("state")],
  ])("%s", async (module, change) => {
    const { page, state, error } = await signOut(module, change);
    expect(page.url.startsWith(stage.at("post_logout_redirect"))).toBe(true);
    expect(page.callback).toEqual(change === undefined ? { state } : {});
    expect(error).toBe("login_required");
  });

  it.each<[string, Change, string]>([
    ["oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", elsewhere("/bad"), "This did not work"],
    [
      "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
      elsewhere("?foo=bar"),
      "This did not work",
    ],
    ["oidcc-rp-initiated-logout-modified-id-token-hint", unsigned, "This did not work"],
    [
      "oidcc-rp-initiated-logout-bad-id-token-hint",
      (all) => ({ ...all, id_token_hint: "bad" }),
      "This did not work",
    ],
    ["oidcc-rp-initiated-logout-no-id-token-hint", without("id_token_hint"), "You are signed out"],
    [
      "oidcc-rp-initiated-logout-no-params",
      without("id_token_hint", "post_logout_redirect_uri", "state"),
      "You are signed out",
    ],
    [
      "oidcc-rp-initiated-logout-no-post-logout-redirect-uri",
      without("post_logout_redirect_uri"),
      "You are signed out",
    ],
    [
      "oidcc-rp-initiated-logout-only-state",
      without("id_token_hint", "post_logout_redirect_uri"),
      "You are signed out",
    ],
  ])("%s", async (module, change, title) => {
    const { page, error } = await signOut(module, change);
    expect([page.callback, page.placeholder]).toEqual([undefined, title]);
    expect(error).toBe(title === "You are signed out" ? "login_required" : undefined);
  });

  it("oidcc-backchannel-rp-initiated-logout-certification-test-plan", async () => {
    expect(suite.metadata).toMatchObject({
      backchannel_logout_supported: true,
      backchannel_logout_session_supported: true,
    });
    const module = "oidcc-backchannel-rp-initiated-logout";
    const browser = stage.browser();
    const { tokens, claims } = await suite.succeed(module, { browser });
    const target = suite.address("end_session", {
      id_token_hint: String(tokens["id_token"]),
      post_logout_redirect_uri: stage.at("post_logout_redirect"),
      state: "s",
    });
    expect((await stage.visit(browser, module, target)).callback).toEqual({ state: "s" });
    // Logout tokens of earlier sessions may still arrive.
    const isOurs = (body: string): boolean => {
      const [, payload = ""] = (new URLSearchParams(body).get("logout_token") ?? "").split(".");
      return Buffer.from(payload, "base64url").toString().includes(String(claims["sid"]));
    };
    while (!stage.backchannel.some(isOurs)) await new Promise((resolve) => setTimeout(resolve, 20));
    const form = new URLSearchParams(stage.backchannel.find(isOurs));
    expect([...form.keys()]).toEqual(["logout_token"]);
    const payload = await suite.verify(form.get("logout_token") ?? "", stage.suite.client, ["iat", "jti"]);
    expect(payload).toMatchObject({
      sub: claims.sub,
      sid: claims["sid"],
      events: { "http://schemas.openid.net/event/backchannel-logout": {} },
    });
    expect(payload).not.toHaveProperty("nonce");
    const after = await suite.authorize(module, { browser, parameters: { prompt: "none" } });
    expect(after.callback).toMatchObject({ error: "login_required" });
  });
});
