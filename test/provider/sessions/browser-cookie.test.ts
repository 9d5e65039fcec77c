import { hash } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { readConfiguration } from "../../../config/read.ts";
import { createFindBrowser } from "../../../provider/sessions/browser-cookie.ts";

const HTTPS: SignInServiceConfig = {
  deployments: { openid: { url: "https://login.example.org" } },
  storage: "sqlite:sign-in.db",
  interactions: { theme: { name: "Example" } },
  proxy: true,
};

/** The cookie of a browser that sends this header. */
function visit(config: SignInServiceConfig, cookie?: string) {
  const set: string[] = [];
  const browser = createFindBrowser(readConfiguration(config))({ req: { headers: { cookie } } });
  browser.remember({ append: (_field, value) => void set.push(value) });
  const [name = "", value = ""] = (set[0]?.split(";")[0] ?? "").split("=");
  return { digest: browser.digest, name, value, flags: set[0]?.replace(/^[^;]*; /, "") };
}

describe("the cookie of a browser", () => {
  it.each<[string, Partial<SignInServiceConfig>, string, string]>([
    ["on https", {}, "__Host-sis_browser_", "HttpOnly; SameSite=Lax; Secure"],
    [
      "on http",
      { deployments: { oauth2: { url: "http://localhost:3000" } }, storage: "sqlite::memory:" },
      "sis_browser_",
      "HttpOnly; SameSite=Lax",
    ],
    [
      "for a domain",
      { cookies: { domain: "example.org" } },
      "__Secure-sis_browser_",
      "HttpOnly; SameSite=Lax; Domain=example.org; Secure",
    ],
    [
      "where other sites post the request",
      { deployments: { openid: { url: "https://login.example.org", post: true } } },
      "__Host-sis_browser_",
      "HttpOnly; SameSite=None; Secure",
    ],
  ])("%s has these flags, and 90 days [D-BROWSER-3]", (_where, changes, name, flags) => {
    const fresh = visit({ ...HTTPS, ...changes });
    expect(fresh.name.slice(0, -8)).toBe(name);
    expect(fresh.flags).toBe(`Path=/; Max-Age=7776000; ${flags}`);
  });

  it("is random, stays the same, and shows only its digest", () => {
    const fresh = visit(HTTPS);
    expect(fresh.value).toMatch(/^[\w-]{43}$/);
    expect(fresh.digest).toBe(hash("sha256", fresh.value, "base64url"));
    expect(visit(HTTPS, `a=b; ${fresh.name}=${fresh.value}; c=d`)).toEqual(fresh);
    expect(visit(HTTPS).value).not.toBe(fresh.value);
  });

  it("counts as none if there are two, or if it is malformed", () => {
    const { name, value } = visit(HTTPS);
    const other = visit(HTTPS);
    const sent = [
      `${name}=${value}; ${name}=${other.value}`,
      `${name}=${value}; ${name}=${value}`,
      `${name}=`,
      `${name}=${value}x`,
      `${name}="${value}"`,
      `${name}=${value.slice(1)}é`,
      `x${name}=${value}`,
      `${name.toLowerCase()}=${value}`,
      "",
    ];
    for (const cookie of sent) expect(visit(HTTPS, cookie).value).not.toBe(value);
  });
});
