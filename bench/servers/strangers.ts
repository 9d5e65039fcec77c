/** This service behind a proxy that says where requests come from, with accounts of several origins. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Koa from "koa";
import { pino } from "pino";
import { createSignInService } from "../../lib/index.ts";
import { CALLBACK, CLIENT, IMPORTED, PERSON } from "./people.ts";
import { options, serve } from "./ready.ts";

/** Enough for every try of a password grant to be a password that is compared. */
const ROOM = { points: 100_000_000, seconds: 900 };

const { file } = options();

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

await serve(async (base) => {
  const service = await createSignInService({
    deployments: { oauth2: { url: base } },
    storage: `sqlite:${file}`,
    proxy: 1,
    logger: pino({ level: "warn" }, pino.destination(2)),
    // The sign-in form keeps its default limits.
    rateLimits: { passwordGrant: { accountAndClient: ROOM, account: ROOM, client: ROOM } },
  });
  await service.directory.services.put("1", { name: "Benchmarks" });
  await service.clients.register({
    ...CLIENT,
    name: "Benchmarks",
    service: "1",
    redirect_uris: [CALLBACK],
    password_grant: true,
  });
  await service.accounts.create(PERSON);
  for (const [username, password_hash] of Object.entries(IMPORTED)) {
    await service.accounts.import({ username, email: `${username}@example.com`, password_hash });
  }
  const app = new Koa();
  app.use(service.routes());
  // Everything else: bytes of JavaScript's heap after a collection.
  app.use((ctx) => {
    collectGarbage();
    ctx.body = String(process.memoryUsage().heapUsed);
  });
  const handle = app.callback();
  return { handle: (req, res) => void handle(req, res), close: () => service.close() };
});
