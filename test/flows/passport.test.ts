/** Web applications that sign people in with passport, by each of its two strategies for OpenID Connect. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import express, { type RequestHandler } from "express";
import * as openid from "openid-client";
import { Strategy as OpenIdClientStrategy, type VerifyFunction } from "openid-client/passport";
import { Browser } from "../../testing/browser/browser.ts";
import { signIn } from "./clients.ts";
import { ADA, NEWS, useService } from "./running-service.ts";

type Done = (error: unknown, user?: object) => void;
/** What passport adds to a request of express. */
interface Visit {
  session?: object;
  readonly user?: unknown;
}
interface Passport {
  use(strategy: object): void;
  authenticate(name: string, options: object): RequestHandler;
}

// Both packages come without types.
const load = createRequire(import.meta.url);
const { Passport } = load("passport") as { Passport: new () => Passport };
const { Strategy: PassportOpenIdConnect } = load("passport-openidconnect") as {
  Strategy: new (options: object, verify: (...values: never[]) => void) => object;
};
let server: Server;
let origin: string;

/** The sessions of the application, in memory. */
function inMemorySessions(): RequestHandler {
  const sessions = new Map<string, object>();
  return (request, response, next) => {
    const known = /(?:^|; )application=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
    const id = known ?? randomUUID();
    if (known === undefined) response.cookie("application", id, { httpOnly: true, sameSite: "lax" });
    if (!sessions.has(id)) sessions.set(id, {});
    (request as Visit).session = sessions.get(id)!;
    next();
  };
}

/** passport-openidconnect: without PKCE, the credentials in the form; it reads the standard userinfo. */
function passportOpenIdConnect(metadata: openid.ServerMetadata): object {
  const options = {
    issuer: metadata.issuer,
    authorizationURL: metadata.authorization_endpoint,
    tokenURL: metadata.token_endpoint,
    userInfoURL: metadata["userinfo_endpoint"],
    clientID: NEWS.client_id,
    clientSecret: NEWS.client_secret,
    callbackURL: `${origin}/openidconnect`,
    scope: ["email", "profile"],
    skipUserProfile: false,
  };
  interface Profile {
    readonly id: string;
    readonly displayName: string;
    readonly emails: readonly { readonly value: string }[];
  }
  return new PassportOpenIdConnect(options, (_issuer: string, profile: Profile, done: Done) =>
    done(null, { sub: profile.id, email: profile.emails[0]?.value, name: profile.displayName }),
  );
}

const claimed: VerifyFunction = (tokens, done) => {
  const claims = tokens.claims();
  done(null, { sub: claims?.sub, email: claims?.["email"] });
};

/** openid-client's own strategy: with PKCE. */
function openIdClientStrategy(config: openid.Configuration): object {
  const options = {
    config,
    name: "openid-client",
    scope: "openid email profile",
    callbackURL: `${origin}/openid-client`,
  };
  return new OpenIdClientStrategy(options, claimed);
}

const running = useService();

beforeAll(async () => {
  const passport = new Passport();
  const application = express().use(inMemorySessions());
  server = application.listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await running.service.clients.update(NEWS.client_id, {
    redirect_uris: ["openidconnect", "openid-client"].map((path) => `${origin}/${path}`),
  });
  const config = await openid.discovery(
    new URL(running.openid),
    NEWS.client_id,
    undefined,
    openid.ClientSecretBasic(NEWS.client_secret),
    { execute: [openid.allowInsecureRequests] },
  );
  passport.use(passportOpenIdConnect(config.serverMetadata()));
  passport.use(openIdClientStrategy(config));
  // Each address begins a sign-in, and is where it comes back to.
  for (const name of ["openidconnect", "openid-client"])
    application.get(
      `/${name}`,
      passport.authenticate(name, { session: false }),
      (request, response) => void response.json((request as Visit).user),
    );
});
afterAll(() => {
  server.close().closeAllConnections();
});

describe.each([
  ["openidconnect", { email: ADA.email, name: "Ada Lovelace" }],
  ["openid-client", { email: ADA.email }],
])("passport with the strategy %s", (name, profile) => {
  it("signs a person in, and again in the same browser without a form [AUTH-8, D-DEPLOY-4]", async () => {
    const browser = new Browser();
    await browser.get(`${origin}/${name}`);
    await signIn(browser);
    expect(browser.status).toBe(200);
    expect(JSON.parse(browser.html)).toEqual({ ...profile, sub: running.ada.sub });
    await browser.get(`${origin}/${name}`);
    expect(JSON.parse(browser.html)).toEqual({ ...profile, sub: running.ada.sub });
  });

  it("refuses a code that another browser brings", async () => {
    const browser = new Browser({ stopAt: `${origin}/${name}?` });
    await browser.get(`${origin}/${name}`);
    await signIn(browser);
    const elsewhere = await new Browser().get(browser.location!);
    expect(elsewhere.html).not.toContain(ADA.email);
    expect(elsewhere.status).not.toBe(200);
  });
});
