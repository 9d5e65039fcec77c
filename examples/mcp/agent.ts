/**
 * An MCP client on the command line. The MCP server tells it where people sign in, and which scopes a tool needs.
 *
 *     npx node examples/mcp/agent.ts http://localhost:3001/mcp ["A note to add"]
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type OAuthClientProvider, UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";

const [, , address = "http://localhost:3001/mcp", note] = process.argv;
const { CLIENT_ID = "agent" } = process.env;

// Any free port: the service ignores the port of a loopback address.
const server = createServer().listen(0, "127.0.0.1");
await once(server, "listening");
const redirectUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;

let tokens: OAuthTokens | undefined;
let verifier = "";
let state = "";
const authProvider: OAuthClientProvider = {
  redirectUrl,
  clientMetadata: { redirect_uris: [redirectUrl] },
  clientInformation: () => ({ client_id: CLIENT_ID }),
  state: () => (state = randomUUID()),
  tokens: () => tokens,
  // A program that runs for long keeps the refresh token in the key store of the system. It has to leave it out while it asks for
  // more scopes: the SDK would refresh instead.
  saveTokens: ({ refresh_token: _unused, ...saved }) => void (tokens = saved),
  codeVerifier: () => verifier,
  saveCodeVerifier: (saved) => void (verifier = saved),
  redirectToAuthorization: ({ href }) => console.log(`Open this address in your browser:\n${href}`),
};

/** Waits for the request that answers the last question. Every other request gets a 404. */
async function answer(): Promise<string> {
  for (;;) {
    const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const { pathname, searchParams } = new URL(request.url ?? "", redirectUrl);
    const isOurs = pathname === "/callback" && searchParams.get("state") === state;
    response.writeHead(isOurs ? 200 : 404).end(isOurs ? "Done. You can close this page." : "Not found.");
    const code = searchParams.get("code");
    if (isOurs && code !== null) return code;
    if (isOurs) throw new Error(searchParams.get("error") ?? "no code");
  }
}

let transport: StreamableHTTPClientTransport;
/** Does it again once the person has agreed. */
async function agreed<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(await answer());
    return await work();
  }
}

const client = new Client({ name: "agent", version: "1.0.0" });
try {
  await agreed(() => {
    transport = new StreamableHTTPClientTransport(new URL(address), { authProvider });
    return client.connect(transport);
  });
  if (note !== undefined) {
    await agreed(() => client.callTool({ name: "add_note", arguments: { text: note } }));
  }
  const { content } = await client.callTool({ name: "list_notes" });
  for (const { text } of content as readonly { readonly text: string }[]) console.log(text);
} catch (error) {
  console.error(`Refused: ${(error as Error).message}`);
  process.exitCode = 1;
} finally {
  await client.close();
  server.close().closeAllConnections();
}
