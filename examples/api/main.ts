/**
 * An API that accepts the access tokens of a sign-in service, JWTs and opaque ones.
 *
 *     ISSUER=… AUDIENCE=… CLIENT_ID=… CLIENT_SECRET=… npx node examples/api/main.ts
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { AccessError, createApi, type Needs } from "../../api/index.ts";

// AUDIENCE is the identifier of this API in the directory. The API introspects tokens with this client.
const { ISSUER = "", AUDIENCE = "", CLIENT_ID = "", CLIENT_SECRET = "", PORT = "3001" } = process.env;
const introspection = { client_id: CLIENT_ID, client_secret: CLIENT_SECRET };
const api = createApi({ issuer: ISSUER, resource: AUDIENCE, introspection });

/** Who deletes an article signed in with a second factor or a passkey in the last five minutes. */
const acr = ["urn:sign-in-service:acr:mfa", "urn:sign-in-service:acr:passkey"];
const ROUTES = new Map<string, Needs>([
  ["GET /articles", { scope: "articles:read" }],
  ["DELETE /articles", { scope: "articles:write", acr, max_age: 300 }],
]);

async function answer(request: IncomingMessage): Promise<Response> {
  const needs = ROUTES.get(`${request.method} ${request.url}`);
  if (needs === undefined) return api.metadataResponse(request) ?? new Response(null, { status: 404 });
  const { sub } = await api.verify(request, needs);
  return Response.json({ articles: ["First article"], for: sub });
}

const refused = (error: unknown): Response =>
  error instanceof AccessError ? error.toResponse() : new Response(null, { status: 500 });

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, headers, body } = await answer(request).catch(refused);
  response.writeHead(status, Object.fromEntries(headers));
  response.end(body === null ? undefined : await new Response(body).text());
}

const server = createServer((request, response) => void respond(request, response));
server.listen(Number(PORT), "127.0.0.1", () => console.log(`Listening on ${PORT}`));
process.once("SIGTERM", () => server.close().closeAllConnections());
