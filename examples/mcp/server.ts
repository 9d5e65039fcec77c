/**
 * An MCP server with two tools for people who have signed in. Reading and writing are two scopes.
 *
 *     ISSUER=… RESOURCE=http://localhost:3001/mcp CLIENT_ID=… CLIENT_SECRET=… npx node examples/mcp/server.ts
 */
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { ErrorRequestHandler } from "express";
import { z } from "zod";
import { type Access, AccessError, createApi } from "../../api/index.ts";

// RESOURCE is the address of this server, and its identifier in the directory. The server introspects tokens with this client.
const { ISSUER = "", RESOURCE = "", CLIENT_ID = "", CLIENT_SECRET = "" } = process.env;
const READ = ["notes:read"];
// The next token of a client has only these scopes, so they include what the other tool needs.
const WRITE = ["notes:read", "notes:write"];
const api = createApi({
  issuer: ISSUER,
  resource: RESOURCE,
  name: "Notes",
  scopes: WRITE,
  introspection: { client_id: CLIENT_ID, client_secret: CLIENT_SECRET },
});

const notes = new Map<string, readonly string[]>();
const say = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });

/** The tools for the person who calls. */
function toolsFor({ sub }: Access): McpServer {
  const server = new McpServer({ name: "notes", version: "1.0.0" });
  server.registerTool("list_notes", { description: "Lists your notes." }, () =>
    say((notes.get(sub) ?? []).join("\n") || "There are no notes."),
  );
  server.registerTool(
    "add_note",
    { description: "Adds a note.", inputSchema: { text: z.string().min(1).max(1000) } },
    ({ text }) => {
      notes.set(sub, [...(notes.get(sub) ?? []), text]);
      return say("Added.");
    },
  );
  return server;
}

/** What a request needs. A client may send several messages at once. */
function scopesFor(body: unknown): readonly string[] {
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  const isWriting = messages.some((message) => Object(Object(message)["params"])["name"] === "add_note");
  return isWriting ? WRITE : READ;
}

const app = createMcpExpressApp();
app.get(api.metadataPath, (_request, response) => {
  response.set("access-control-allow-origin", "*").json(api.metadata);
});
const { pathname, port } = new URL(RESOURCE);
app.all(pathname, async (request, response) => {
  const access = await api.verify(request, { scope: scopesFor(request.body) });
  // Without a stream and a session, nothing outlives the token: each request is answered for the person who sent it.
  if (request.method !== "POST") {
    response.status(405).set("allow", "POST").end();
    return;
  }
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  response.on("close", () => void transport.close());
  await toolsFor(access).connect(transport);
  await transport.handleRequest(request, response, request.body);
});
const refuse: ErrorRequestHandler = (error, _request, response, next) => {
  if (!(error instanceof AccessError)) return next(error);
  response.status(error.status).set(error.headers).end();
};
app.use(refuse);
const server = app.listen(Number(port), "127.0.0.1", () => console.log(`The MCP server is at ${RESOURCE}`));
process.once("SIGTERM", () => server.close().closeAllConnections());
