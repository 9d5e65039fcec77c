/** A program at the JSON interface: it keeps cookies, as a UI in a browser does, and expects answers as published. */
import { decodeJwt, type JWTPayload } from "jose";
import type { RequestParameters, TestClient, TestVisitor } from "../../testing/test-client.ts";
import type { PasskeyCreation, PasskeyRequest } from "../../accounts/factors/passkeys.ts";
import { deviation } from "./published.ts";
import { Browser } from "../../testing/browser/browser.ts";
import type { StepDescription } from "../../interactions/steps/described-step.ts";

/** An answer of the JSON interface. */
export interface JsonAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Omit<StepDescription, "passkey"> & {
    /** The options of one kind or the other, depending on the step. */
    readonly passkey?: { readonly publicKey: PasskeyRequest & PasskeyCreation };
    readonly done?: true;
    readonly location?: string;
    readonly error?: string;
    /** Why the sign-in has ended. */
    readonly reason?: string;
    readonly error_description?: string;
  };
}

/** What the step asks a passkey. @throws if it asks for none. */
export function publicKeyOf({ passkey }: JsonAnswer["body"]): PasskeyRequest & PasskeyCreation {
  if (passkey === undefined) throw new Error("the step asks for no passkey");
  return passkey.publicKey;
}

/** What a request differs in from what a UI on the deployment's host sends. */
export interface JsonRequest {
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the body as JSON. */
  readonly text?: string;
}

export class JsonVisitor {
  readonly browser: Browser;
  #url = "";

  constructor(browser: Browser = new Browser()) {
    this.browser = browser;
  }

  /** Begins a sign-in, or goes on with one. */
  async open(url: string): Promise<JsonAnswer> {
    await this.browser.get(url);
    this.#url = this.browser.url.href;
    return this.get();
  }

  /** The present step, or another one. */
  get(href: string = this.#url, { headers = {} }: JsonRequest = {}): Promise<JsonAnswer> {
    return this.#send(href, { headers: { accept: "application/json", ...headers } });
  }

  /** Posts to an address. */
  post(href: string, body: unknown, { headers = {}, text }: JsonRequest = {}): Promise<JsonAnswer> {
    const url = this.#resolve(href);
    return this.#send(url.href, {
      method: "POST",
      headers: {
        accept: "application/json",
        "content-type": "application/json",
        origin: url.origin,
        ...headers,
      },
      body: text ?? JSON.stringify(body),
    });
  }

  /** Does one of the actions of a step. */
  act(
    step: Pick<StepDescription, "actions" | "csrf">,
    name: string,
    values: Readonly<Record<string, unknown>> = {},
    request?: JsonRequest,
  ): Promise<JsonAnswer> {
    const action = step.actions.find((each) => each.name === name);
    if (action === undefined) throw new TypeError(`the step has no action ${name}`);
    if (action.method === "GET") return this.get(action.href, request);
    return this.post(action.href, { csrf: step.csrf, ...values }, request);
  }

  /** Goes to the address at which a sign-in ended. @returns the claims of the ID token that the client gets for it. */
  async claims(client: TestClient, location = ""): Promise<JWTPayload> {
    await this.browser.get(location);
    return decodeJwt((await client.tokensOf(this.browser)).id_token ?? "");
  }

  #resolve(href: string): URL {
    return this.#url === "" ? new URL(href) : new URL(href, this.#url);
  }

  async #send(href: string, init: RequestInit): Promise<JsonAnswer> {
    const url = this.#resolve(href);
    const cookie = this.browser.jar.header(url);
    const headers = { ...(init.headers as Record<string, string>), ...(cookie !== "" && { cookie }) };
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    this.browser.jar.take(url, response.headers.getSetCookie());
    const text = await response.text();
    const body = (
      response.headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text) : {}
    ) as JsonAnswer["body"];
    const wrong = deviation(url.pathname, init.method === "POST" ? "post" : "get", response.status, body);
    if (wrong !== undefined) throw new Error(wrong);
    return { status: response.status, headers: response.headers, body };
  }
}

/** A program, and the step that it is at. */
export interface Waiting {
  readonly visitor: JsonVisitor;
  readonly step: JsonAnswer["body"];
}

/** A new sign-in at a client. */
export async function atLogin(client: TestClient, parameters?: RequestParameters): Promise<Waiting> {
  const visitor = new JsonVisitor(client.browser());
  return { visitor, step: (await visitor.open(client.authorizeUrl(parameters))).body };
}

/** A sign-in at a client after the name and the password. */
export async function afterPassword(
  client: TestClient,
  { username, password }: TestVisitor,
  parameters?: RequestParameters,
): Promise<Waiting> {
  const { visitor, step: login } = await atLogin(client, parameters);
  return { visitor, step: (await visitor.act(login, "submit", { username, password })).body };
}
