/**
 * A service, and an MCP server at the next port.
 *
 *     npx node examples/mcp/main.ts        then, in another terminal: npx node examples/mcp/agent.ts
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import Koa from "koa";
import { applySeed, createSignInService } from "../../lib/index.ts";
import { readExample } from "../example-config.ts";

const usage = "Usage: node examples/mcp/main.ts [--config FILE]";
const { port, host, config, seed } = await readExample(usage, new URL("mcp.json", import.meta.url));
const RESOURCE = `http://localhost:${port + 1}/mcp`;

const service = await createSignInService(config);
await applySeed(service, seed);
const { clients, directory } = service;
const { client_id, client_secret } = await clients.register({
  kind: "machine",
  name: "Notes",
  service: "notes",
});
await directory.apis.put(RESOURCE, {
  name: "Notes",
  service: "notes",
  scopes: { "notes:read": "Read your notes", "notes:write": "Add notes" },
  // Whoever has an account has notes.
  assign: true,
  introspection: [client_id],
  // VS Code and Claude Code, whose documents mcp.json allows.
  unregistered: ["notes:read", "notes:write"],
});
if ((await clients.find("agent")) === undefined) {
  await clients.register({
    kind: "public",
    native: true,
    client_id: "agent",
    name: "Agent",
    service: "notes",
    first_party: false,
    redirect_uris: ["http://127.0.0.1/callback"],
    apis: { [RESOURCE]: ["notes:read", "notes:write"] },
  });
}

const app = new Koa().use(service.routes()).listen(port, host);
const ISSUER = config.deployments.openid?.url;
const env = { ...process.env, ISSUER, RESOURCE, CLIENT_ID: client_id, CLIENT_SECRET: client_secret };
const server = spawn(process.execPath, [fileURLToPath(new URL("server.ts", import.meta.url))], {
  env,
  stdio: "inherit",
});
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    server.kill();
    app.close().closeAllConnections();
    void service.close();
  });
}
