/** The clients of a running service, and how people sign in to it. */
import { expect } from "@jest/globals";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { NewPublicClient } from "../../accounts/clients/client-schema.ts";
import { Browser, type Send } from "../../testing/browser/browser.ts";
import { newProof, type RequestParameters, TestClient, type TestVisitor } from "../../testing/test-client.ts";
import { ADA, type RunningService } from "./running-service.ts";

/** A public client with a known id. */
export type KnownApp = NewPublicClient & { readonly client_id: string };

export const APP: KnownApp = {
  kind: "public",
  client_id: "app",
  name: "App",
  service: "1",
  redirect_uris: ["https://app.example/callback"],
};

/** Its addresses are on the device. */
export const NATIVE: KnownApp = {
  kind: "public",
  native: true,
  client_id: "native",
  name: "Native App",
  service: "1",
  redirect_uris: ["http://127.0.0.1/callback", "com.example.app:/callback", "https://app.example/native"],
};

/** Base URLs of deployments. */
export type Deployments = Readonly<Record<DeploymentKind, string>>;

/** A client of known credentials. */
type Known = Pick<
  ConstructorParameters<typeof TestClient>[0],
  "client_id" | "client_secret" | "redirect_uris"
>;

/** A client at one of the deployments. @param urls may begin to listen later. */
export const clientAt = (urls: Deployments, deployment: DeploymentKind, client: Known): TestClient =>
  new TestClient({ ...client, urls, deployment });

/** A client at both deployments. */
export const atBoth = (urls: Deployments, client: Known): Record<DeploymentKind, TestClient> => ({
  oauth2: clientAt(urls, "oauth2", client),
  openid: clientAt(urls, "openid", client),
});

/** The native client, which uses this address. */
export const nativeAt = (
  urls: Deployments,
  redirect_uri: string,
  deployment: DeploymentKind = "openid",
): TestClient => clientAt(urls, deployment, { ...NATIVE, redirect_uris: [redirect_uri] });

/** A code of a public client, and what its exchange needs. */
export interface Issued {
  readonly code: string;
  readonly proof: { readonly code_verifier: string; readonly redirect_uri: string };
}

/** Ada signs in to a public client. */
export async function issue(
  app: TestClient,
  parameters: RequestParameters = {},
  browser: Browser = app.browser(),
): Promise<Issued> {
  const { request, code_verifier } = newProof();
  const code = await app.code({ ...ADA, browser }, { ...request, ...parameters });
  return { code, proof: { code_verifier, redirect_uri: app.redirect_uri } };
}

/** Submits the login form. Where providers have domains, the page asks for the name first. */
export async function signIn(browser: Browser, { username, password }: TestVisitor = ADA): Promise<Browser> {
  const asksForName = !browser.forms().some(({ fields }) => fields.some(([name]) => name === "password"));
  if (asksForName) await browser.submit(browser.form("username"), { username });
  return browser.submit(browser.form("password"), { username, password });
}

/** Sends the password, and does not go on. @returns where the browser would go. */
export async function enterPassword(browser: Browser, person: TestVisitor): Promise<string> {
  const form = browser.form("password");
  const sent = new URLSearchParams(form.fields.map(([name, value]) => [name, value]));
  sent.set("username", person.username);
  sent.set("password", person.password);
  const answer = await fetch(form.action, {
    method: "POST",
    body: sent,
    redirect: "manual",
    headers: { cookie: browser.jar.header(form.action), origin: form.action.origin },
  });
  expect(answer.status).toBe(303);
  browser.jar.take(form.action, answer.headers.getSetCookie());
  return answer.headers.get("location") ?? "";
}

/** A browser that is signed in to the account pages of a deployment. */
export async function signedIn(base: string, person: TestVisitor = ADA): Promise<Browser> {
  return signIn(await new Browser().get(`${base}/account`), person);
}

/** Sends requests to the service as a proxy that forwards the host. */
export function viaProxy({ origin }: Pick<RunningService, "origin">): Send {
  return (url, init) => {
    const headers = new Headers(init.headers);
    headers.set("host", url.host);
    headers.set("x-forwarded-host", url.host);
    return fetch(`${origin}${url.pathname}${url.search}`, { ...init, headers });
  };
}
