/** What the server of a client answers instead of its document. */
import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";

export type Answer = (response: ServerResponse) => void;

export const json =
  (value: unknown, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };

/** A good document, but for the changes. */
export const documentOf = (client_id: string, change: Readonly<Record<string, unknown>> = {}): object => ({
  client_id,
  client_name: "Agent",
  redirect_uris: ["http://127.0.0.1/callback"],
  token_endpoint_auth_method: "none",
  ...change,
});

/** Documents that make no client. */
export const LIES: readonly (readonly [string, (address: string) => Answer])[] = [
  ["names another client", (address) => json(documentOf(`${address}/other`))],
  ["names itself with a slash more", (address) => json(documentOf(`${address}/`))],
  ["has a secret", (address) => json(documentOf(address, { client_secret: "s" }))],
  [
    "wants to send a secret",
    (address) => json(documentOf(address, { token_endpoint_auth_method: "client_secret_basic" })),
  ],
  [
    "has keys nowhere",
    (address) => json(documentOf(address, { token_endpoint_auth_method: "private_key_jwt" })),
  ],
  [
    "has an empty set of keys",
    (address) =>
      json(documentOf(address, { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [] } })),
  ],
  [
    "has a symmetric key",
    (address) =>
      json(
        documentOf(address, {
          token_endpoint_auth_method: "private_key_jwt",
          jwks: { keys: [{ kty: "oct", k: "AAAA" }] },
        }),
      ),
  ],
  [
    "has its keys at another origin",
    (address) =>
      json(
        documentOf(address, {
          token_endpoint_auth_method: "private_key_jwt",
          jwks_uri: "https://evil.example/jwks",
        }),
      ),
  ],
  [
    "has its keys at a name that looks like its own",
    (address) =>
      json(
        documentOf(address, {
          token_endpoint_auth_method: "private_key_jwt",
          jwks_uri: `${new URL(address).origin}.evil.example/jwks`,
        }),
      ),
  ],
  [
    "has its keys where nothing is",
    (address) =>
      json(
        documentOf(address, {
          token_endpoint_auth_method: "private_key_jwt",
          jwks_uri: `${new URL(address).origin}/gone`,
        }),
      ),
  ],
  [
    "has only an address of another host",
    (address) => json(documentOf(address, { redirect_uris: ["https://evil.example/callback"] })),
  ],
  [
    "has only an address that begins like the loopback",
    (address) =>
      json(
        documentOf(address, {
          redirect_uris: ["http://localhost.evil.example/callback", "http://127.0.0.1.evil.example/"],
        }),
      ),
  ],
  [
    "has only an address with its host as user",
    (address) => json(documentOf(address, { redirect_uris: [`${new URL(address).origin}@evil.example/`] })),
  ],
  [
    "has only schemes that a browser runs",
    (address) =>
      json(
        documentOf(address, {
          redirect_uris: [
            "javascript:alert(1)//127.0.0.1",
            "data:text/html,x",
            "blob:x",
            "file:///etc/passwd",
          ],
        }),
      ),
  ],
  [
    "has only a scheme that nobody allows",
    (address) => json(documentOf(address, { redirect_uris: ["zed://callback"] })),
  ],
  ["is a list", (address) => json([documentOf(address)])],
  [
    "has 30 levels",
    (address) =>
      json(documentOf(address, { more: JSON.parse(`${"[".repeat(30)}${"]".repeat(30)}`) as unknown })),
  ],
  ["has 10 MB", (address) => json(documentOf(address, { more: "x".repeat(10_000_000) }))],
  ["is HTML", (address) => json(documentOf(address), { "content-type": "text/html" })],
  [
    "is no JSON",
    () => (response) => response.writeHead(200, { "content-type": "application/json" }).end("{"),
  ],
  ["is elsewhere", () => (response) => response.writeHead(302, { location: "/agent.json" }).end()],
  [
    "is a gzip bomb",
    (address) => (response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
      response.end(gzipSync(JSON.stringify(documentOf(address, { more: "x".repeat(1_000_000) }))));
    },
  ],
  [
    "comes by a byte a second",
    () => (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const timer = setInterval(() => response.write(" "), 1000);
      response.on("close", () => clearInterval(timer));
    },
  ],
  ["hangs up", () => (response) => response.destroy()],
];
