/** A client without a secret, as its authors would write it: PKCE, and its `client_id` in the form. */
import { hash, randomBytes } from "node:crypto";
import { Browser, type BrowserOptions } from "../../testing/browser/browser.ts";
import { type Answer, type Parameters, Party, readTokens, signIn, type Tokens } from "./relying-party.ts";
import { ADA } from "./running-service.ts";
import type { NewPublicClient } from "../../accounts/clients/client-schema.ts";

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

export interface Proof {
  readonly verifier: string;
  readonly code_challenge: string;
}

export function newProof(): Proof {
  const verifier = randomBytes(32).toString("base64url");
  return { verifier, code_challenge: hash("sha256", verifier, "base64url") };
}

/** A code, and what is needed to exchange it. */
export interface Issued {
  readonly code: string;
  readonly verifier: string;
  readonly redirect_uri: string;
}

export class PublicParty extends Party<KnownApp> {
  /** The address that its requests use. */
  redirectUri: string = this.client.redirect_uris[0] ?? "";

  /** A browser that stops before the client's redirect addresses. */
  browser(options: BrowserOptions = {}): Browser {
    return new Browser({ stopAt: [this.redirectUri], ...options });
  }

  authorizeUrl(proof: Proof | undefined, parameters: Parameters = {}): string {
    return this.authorization({
      redirect_uri: this.redirectUri,
      ...(proof && { code_challenge: proof.code_challenge, code_challenge_method: "S256" }),
      ...parameters,
    });
  }

  async code(parameters: Parameters = {}, browser: Browser = this.browser()): Promise<Issued> {
    const proof = newProof();
    await browser.get(this.authorizeUrl(proof, parameters));
    if (browser.location === undefined && browser.html.includes('name="password"'))
      await signIn(browser, ADA);
    const code = browser.location?.searchParams.get("code");
    if (code === undefined || code === null)
      throw new Error(`no code: ${browser.status} ${browser.title} ${browser.location?.href}`);
    return { code, verifier: proof.verifier, redirect_uri: parameters["redirect_uri"] ?? this.redirectUri };
  }

  token(parameters: Parameters, headers: HeadersInit = {}): Promise<Answer> {
    return this.post("/oauth2/token", parameters, headers);
  }

  exchange({ code, verifier, redirect_uri }: Issued, parameters: Parameters = {}): Promise<Answer> {
    return this.token({
      grant_type: "authorization_code",
      code,
      redirect_uri,
      code_verifier: verifier,
      ...parameters,
    });
  }

  refresh(refresh_token: string, parameters: Parameters = {}): Promise<Answer> {
    return this.token({ grant_type: "refresh_token", refresh_token, ...parameters });
  }

  async tokens(parameters: Parameters = {}, browser?: Browser): Promise<Tokens & { readonly scope: string }> {
    return readTokens(await this.exchange(await this.code(parameters, browser))) as Tokens & {
      scope: string;
    };
  }
}
