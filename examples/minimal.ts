/** A complete sign-in service in fifteen lines: npx node examples/minimal.ts [--config FILE] */
import Koa from "koa";
import { applySeed, createSignInService } from "../lib/index.ts";
import { readExample } from "./example-config.ts";

const usage = "Usage: node examples/minimal.ts [--config FILE]";
const own = new URL("minimal.json", import.meta.url);
const { port, host, config, seed } = await readExample(usage, own);
const service = await createSignInService(config);
await applySeed(service, seed);
const [client] = seed?.clients ?? [];
const { url } = config.deployments.oauth2 ?? config.deployments.openid ?? {};
const address = `${url}/oauth2/authorize?response_type=code&client_id=${client?.client_id}`;
const ready = (): void => console.log(`Sign in at ${address}`);
const server = new Koa().use(service.routes()).listen(port, host, ready);
process.once("SIGTERM", () => void service.close().then(() => server.close().closeAllConnections()));
