/**
 * oidc-provider alone, with its documented adapter: first-party sign-in with a form and a password hash, opaque tokens,
 * long-lived refresh tokens.
 */
import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { hash, verify } from "@node-rs/argon2";
import { type AdapterConstructor, Provider, type Configuration, type JWK } from "oidc-provider";
import { openForOidc, type SqliteForOidc } from "./oidc-adapter.ts";
import { CALLBACK, CLIENT, ID_TOKEN_CLIENTS, type IdTokenAlgorithm, PERSON } from "./people.ts";
import { options, serve } from "./ready.ts";
import { redisForOidc } from "./redis-adapter.ts";

const { file, redis, cost } = options();
const SUB = randomUUID();
const FIELDS = `<input name="username"><input type="password" name="password"><button>Sign in</button>`;
const METADATA = {
  redirect_uris: [CALLBACK],
  response_types: ["code"],
  grant_types: ["authorization_code", "refresh_token"],
} as const;

function signingKeys(): JWK[] {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  return [
    { ...rsa.export({ format: "jwk" }), use: "sig", alg: "RS256" },
    { ...ec.export({ format: "jwk" }), use: "sig", alg: "ES256" },
  ];
}

function configuration(storage: SqliteForOidc, adapter: AdapterConstructor): Configuration {
  const days = 86_400;
  return {
    adapter,
    jwks: { keys: signingKeys() },
    cookies: { keys: [randomBytes(32).toString("base64")] },
    scopes: ["openid", "account"],
    claims: { openid: ["sub", "email"] },
    ttl: {
      AuthorizationCode: 60,
      AccessToken: 36_000,
      IdToken: 3_600,
      RefreshToken: 30 * days,
      Session: 14 * days,
      Interaction: 3_600,
      Grant: 31 * days,
    },
    async findAccount(_ctx, sub) {
      const address = storage.email(sub);
      return address === undefined
        ? undefined
        : { accountId: sub, claims: async () => ({ sub, email: address }) };
    },
    async loadExistingGrant({ oidc }) {
      const { client, session, provider, account } = oidc;
      const id = session?.grantIdFor(client?.clientId ?? "");
      const known = id === undefined ? undefined : await provider.Grant.find(id);
      if (known !== undefined || !client || !account) return known;
      const grant = new provider.Grant({ accountId: account.accountId, clientId: client.clientId });
      grant.addOIDCScope("openid account");
      await grant.save();
      return grant;
    },
    issueRefreshToken: async () => true,
    rotateRefreshToken: false,
    expiresWithSession: async () => false,
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      resourceIndicators: { enabled: false },
      userinfo: { enabled: true },
    },
  };
}

await serve(async (base) => {
  const storage = openForOidc(file);
  storage.saveAccount(SUB, PERSON.email);
  const adapter = redis === undefined ? storage.adapter : redisForOidc(redis);
  // In the storage, like those of the service, because clients can be registered and changed at run time.
  const clients = new adapter("Client");
  await clients.upsert(CLIENT.client_id, { ...CLIENT, ...METADATA });
  for (const [algorithm, credentials] of Object.entries(ID_TOKEN_CLIENTS)) {
    const own = { ...credentials, id_token_signed_response_alg: algorithm as IdTokenAlgorithm };
    await clients.upsert(credentials.client_id, { ...METADATA, ...own });
  }
  const provider = new Provider(base, configuration(storage, adapter));
  const handle = provider.callback();
  const { memory = 19_456, passes = 2 } = cost ?? {};
  const kept = await hash(PERSON.password, { memoryCost: memory, timeCost: passes, parallelism: 1 });

  async function interact(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { uid } = await provider.interactionDetails(req, res);
    if (req.method !== "POST") {
      res.setHeader("content-type", "text/html; charset=utf-8");
      res.end(`<form method="post"><input type="hidden" name="uid" value="${uid}">${FIELDS}</form>`);
      return;
    }
    const form = new URLSearchParams(await text(req));
    if (!(await verify(kept, form.get("password") ?? ""))) throw new Error("the password is wrong");
    await provider.interactionFinished(req, res, { login: { accountId: SUB } });
  }

  return {
    handle(req, res) {
      if (req.url?.startsWith("/interaction/")) void interact(req, res).catch(() => res.destroy());
      else void handle(req, res);
    },
  };
});
