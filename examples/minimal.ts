/** A whole sign-in service in fifteen lines: node examples/minimal.ts */
import Koa from "koa";
import { readEnvironment } from "../config/environment.ts";
import { createSignInService } from "../lib/index.ts";

const { port = 3000 } = readEnvironment();
const url = `http://127.0.0.1:${port}`;
const deployments = { oauth2: { url }, openid: { url: `${url}/openid` } };
const service = await createSignInService({ deployments, storage: "sqlite::memory:" });
await service.directory.services.put("1", { name: "News" });
await service.accounts.create({ email: "ada@example.com", username: "ada", password: "lovelace-1843" });
const redirect_uris = ["http://127.0.0.1:3001/callback"];
const client = await service.clients.register({ name: "News", service: "1", redirect_uris });
const address = `${url}/oauth2/authorize?response_type=code&client_id=${client.client_id}`;
const ready = (): void => console.log(`Sign in as ada at ${address}`);
const server = new Koa().use(service.routes()).listen(port, "127.0.0.1", ready);
process.once("SIGTERM", () => server.close(() => void service.close()));
