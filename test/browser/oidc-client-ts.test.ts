/** A single-page application with oidc-client-ts, as its documentation shows it, at another origin than the service. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Page, Response } from "playwright-core";
import { ADA, useService } from "../flows/running-service.ts";
import { serve, signIn, useBrowser } from "./chromium.ts";

/** The library renews a token this long before it ends: two seconds after it came. */
const LIFETIME_SECONDS = 30;
const RENEWED_BEFORE_SECONDS = 28;

const browser = useBrowser();
let origin: string;

const running = useService({ config: { lifetimes: { accessToken: LIFETIME_SECONDS } } });

beforeAll(async () => {
  const bundle = import.meta
    .resolve("oidc-client-ts")
    .replace(/dist\/.*/, "dist/browser/oidc-client-ts.min.js");
  const library = readFileSync(fileURLToPath(bundle));
  origin = await serve((request, response) => {
    const isLibrary = request.url === "/oidc-client-ts.js";
    response.setHeader("content-type", isLibrary ? "text/javascript" : "text/html");
    response.end(isLibrary ? library : application());
  });
  await running.service.clients.register({
    kind: "public",
    client_id: "spa",
    name: "News",
    service: "1",
    redirect_uris: [`${origin}/`],
    post_logout_redirect_uris: [`${origin}/`],
  });
});

/** Signed in, the page counts its renewals; `?silent` in its address turns those on. */
const application = (): string => `<!doctype html>
<title>News</title>
<script src="/oidc-client-ts.js"></script>
<button id="sign-in">Sign in</button><button id="renew">Renew</button>
<button id="revoke">Revoke</button><button id="sign-out">Sign out</button>
<p role="status"></p><output>0</output>
<script type="module">
  const manager = new oidc.UserManager({
    authority: "${running.openid}",
    client_id: "spa",
    redirect_uri: "${origin}/",
    post_logout_redirect_uri: "${origin}/",
    scope: "openid email profile",
    loadUserInfo: true,
    automaticSilentRenew: localStorage.getItem("silent") === "yes",
    accessTokenExpiringNotificationTimeInSeconds: ${RENEWED_BEFORE_SECONDS},
    userStore: new oidc.WebStorageStateStore({ store: localStorage }),
  });
  const say = (text) => (document.querySelector("[role=status]").textContent = text);
  const show = async () => {
    const user = await manager.getUser();
    say(user ? "Signed in as " + user.profile.email + ", " + user.profile.name : "Not signed in");
  };
  const attempt = (work) => work().then(show, (error) => say("Failed: " + (error.error ?? error.message)));
  manager.events.addUserLoaded(() => (document.querySelector("output").textContent++, void show()));
  manager.events.addSilentRenewError((error) => say("Not renewed: " + error.message));
  const on = (id, work) => document.getElementById(id).addEventListener("click", () => attempt(work));
  on("sign-in", () => manager.signinRedirect());
  on("renew", () => manager.signinSilent());
  on("revoke", () => manager.revokeTokens(["access_token", "refresh_token"]));
  on("sign-out", () => manager.signoutRedirect());
  const query = new URLSearchParams(location.search);
  await attempt(async () => {
    if (query.has("code") || query.has("error")) await manager.signinCallback();
    if (location.search) history.replaceState(null, "", "/");
  });
</script>`;

const says = (page: Page, text: string): Promise<void> =>
  page.getByRole("status").getByText(text, { exact: true }).waitFor();
const press = (page: Page, name: string): Promise<void> =>
  page.getByRole("button", { name, exact: true }).click();
const SIGNED_IN = "Signed in as ada@example.com, Ada Lovelace";

interface Stored {
  readonly access_token: string;
  readonly refresh_token: string;
}
const KEY = (): string => `oidc.user:${running.openid}:spa`;
const stored = (page: Page): Promise<Stored> =>
  page.evaluate((key) => JSON.parse(localStorage.getItem(key) ?? "{}") as Stored, KEY());

/** Waits until other tokens than these are stored. */
const renewed = async (page: Page, { refresh_token }: Stored): Promise<void> => {
  await page.waitForFunction(
    ([key, old]) => !(localStorage.getItem(key!) ?? old!).includes(old!),
    [KEY(), refresh_token],
  );
};

const isOfTokens = (response: Response): boolean =>
  response.url().endsWith("/oauth2/token") && response.request().method() === "POST";

/** The statuses of the token endpoint, as they come. */
function answersOf(...tabs: readonly Page[]): string[] {
  const answers: string[] = [];
  for (const tab of tabs)
    tab.on("response", (response) => {
      if (isOfTokens(response)) answers.push(`${response.status()}`);
    });
  return answers;
}

async function signedIn(silent: "yes" | "no" = "no"): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(origin);
  await says(page, "Not signed in");
  await page.evaluate((value) => localStorage.setItem("silent", value), silent);
  await press(page, "Sign in");
  await signIn(page, ADA);
  await says(page, SIGNED_IN);
  return page;
}

describe("oidc-client-ts in a browser", () => {
  it("signs a person in, with userinfo, and stays signed in after a reload [D-KIND-6]", async () => {
    const page = await signedIn();
    await page.reload();
    await says(page, SIGNED_IN);
    expect(page.url()).toBe(`${origin}/`);
  });

  it("renews by itself, again and again, each time with a new refresh token [D-KIND-3]", async () => {
    const page = await signedIn("yes");
    const answers = answersOf(page);
    for (let round = 0; round < 2; round += 1) await renewed(page, await stored(page));
    await says(page, SIGNED_IN);
    expect(new Set(answers)).toEqual(new Set(["200"]));
  });

  it("renews in two tabs at once: nobody is signed out [D-KIND-3]", async () => {
    const page = await signedIn();
    const other = await page.context().newPage();
    await other.goto(origin);
    await says(other, SIGNED_IN);
    const answers = answersOf(page, other);
    const before = await stored(page);
    // What a tab shows may come before its answer is reported.
    const answered = [page, other].map((tab) => tab.waitForResponse(isOfTokens));
    await Promise.all([press(page, "Renew"), press(other, "Renew"), ...answered]);
    await renewed(page, before);
    for (const tab of [page, other]) await tab.locator("output", { hasText: /^[1-9]/ }).waitFor();
    for (const tab of [page, other]) await says(tab, SIGNED_IN);
    expect(answers).toEqual(["200", "200"]);
    // Whichever answer was stored last, its refresh token still works.
    const then = await stored(page);
    await press(other, "Renew");
    await renewed(page, then);
    await says(other, SIGNED_IN);
  });

  it("revokes its tokens without a secret [D-KIND-3]", async () => {
    const page = await signedIn();
    const { access_token, refresh_token } = await stored(page);
    await press(page, "Revoke");
    await page.waitForFunction(
      ([key, old]) => !(localStorage.getItem(key!) ?? "").includes(old!),
      [KEY(), refresh_token],
    );
    const response = await fetch(`${running.openid}/resources/userinfo?client_id=spa`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    expect(response.status).toBe(401);
  });

  it("signs out, here and at the service", async () => {
    const page = await signedIn();
    // The page that signs out has the same address as the page that comes after it.
    const back = page.waitForEvent("framenavigated", (frame) => frame.url() === `${origin}/`);
    await press(page, "Sign out");
    await back;
    await says(page, "Not signed in");
    await press(page, "Sign in");
    await page.getByLabel("Password").waitFor();
  });
});
