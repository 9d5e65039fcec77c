/** This service as an application embeds it. */
import { generateKeyPairSync } from "node:crypto";
import Koa from "koa";
import type { JWK } from "oidc-provider";
import { pino } from "pino";
import { createSignInService } from "../../lib/index.ts";
import {
  APIS,
  CALLBACK,
  CLIENT,
  ID_TOKEN_CLIENTS,
  type IdTokenAlgorithm,
  MACHINE,
  PERSON,
  ROOMY_LIMITS,
} from "./people.ts";
import { options, serve } from "./ready.ts";

const { file, parallel, cost, redis, storage = `sqlite:${file}`, ecdsa, url } = options();
const SECRETS = [Buffer.alloc(32, 1).toString("base64")];
const ecKey = (): JWK =>
  generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });

await serve(async (base) => {
  const service = await createSignInService({
    deployments: { oauth2: { url: url ?? base }, openid: { url: `${url ?? base}/openid` } },
    storage,
    keys: {
      ...(!storage.startsWith("sqlite:") && { secrets: SECRETS }),
      ...(ecdsa === true && { signing: [ecKey()] }),
    },
    logger: pino({ level: "warn" }, pino.destination(2)),
    rateLimits: ROOMY_LIMITS,
    ...(redis === undefined ? {} : { artifacts: redis }),
    passwords: { ...cost, ...(parallel === undefined ? {} : { parallel }) },
  });
  if ((await service.clients.find(CLIENT.client_id)) === undefined) {
    await service.directory.services.put("1", { name: "Benchmarks" });
    const redirect_uris = [CALLBACK];
    await service.clients.register({
      ...CLIENT,
      name: "Benchmarks",
      service: "1",
      redirect_uris,
      password_grant: true,
    });
    for (const [algorithm, credentials] of Object.entries(ID_TOKEN_CLIENTS)) {
      if (ecdsa === true && algorithm !== "ES256") continue;
      await service.clients.register({
        ...credentials,
        name: "Benchmarks",
        service: "1",
        redirect_uris,
        id_token_signed_response_alg: algorithm as IdTokenAlgorithm,
      });
    }
    const { clients, directory } = service;
    const api = { name: "Benchmarks", service: "1", scopes: { read: "Read" } };
    for (const [tokens, identifier] of Object.entries(APIS))
      await directory.apis.put(identifier, { ...api, tokens: tokens as keyof typeof APIS });
    const apis = { [APIS.opaque]: ["read"], [APIS.jwt]: ["read"] };
    await clients.register({ ...MACHINE, kind: "machine", name: "Benchmarks", service: "1", apis });
    await clients.update(CLIENT.client_id, { apis });
    await directory.apis.put(APIS.opaque, { ...api, introspection: [MACHINE.client_id] });
    await service.accounts.create(PERSON);
  }
  const app = new Koa();
  app.use(service.routes());
  const handle = app.callback();
  return { handle: (req, res) => void handle(req, res), close: () => service.close() };
});
