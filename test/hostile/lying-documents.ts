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

/** A byte a second, without an end. */
export const slowly: Answer = (response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const timer = setInterval(() => response.write(" "), 1000);
  response.on("close", () => clearInterval(timer));
};

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
  ["comes by a byte a second", () => slowly],
  ["hangs up", () => (response) => response.destroy()],
];

const MOST = 64 * 1024;
/** A good document of this many bytes. */
const ofBytes =
  (bytes: number) =>
  (address: string): Answer =>
  (response) =>
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify(documentOf(address)).padEnd(bytes));

const withType =
  (type: string) =>
  (address: string): Answer =>
    json(documentOf(address), { "content-type": type });

const encoded =
  (encoding: string) =>
  (address: string): Answer =>
    json(documentOf(address), { "content-encoding": encoding });

const elsewhere =
  (location: (address: string) => string, status = 302) =>
  (address: string): Answer =>
  (response) =>
    response.writeHead(status, { location: location(address) }).end();

const NO_TYPE = "the document is not application/json";
const COMPRESSED = "the document is compressed";

/** What is taken and what is not: for how many seconds it counts, or what is wrong. */
export const BOUNDS: readonly (readonly [string, number | string, (address: string) => Answer])[] = [
  ["64 KiB", 300, ofBytes(MOST)],
  ["64 KiB and a byte", "the body is too large", ofBytes(MOST + 1)],
  ["a charset", 300, withType("Application/JSON; charset=utf-8")],
  ["JSON of another kind", NO_TYPE, withType("application/ld+json")],
  ["JSON as text", NO_TYPE, withType("text/json")],
  ["a type that begins the same", NO_TYPE, withType("application/jsonp")],
  ["no type", NO_TYPE, withType("")],
  ["gzip", COMPRESSED, encoded("gzip")],
  ["br", COMPRESSED, encoded("br")],
  ["identity, then gzip", COMPRESSED, encoded("identity, gzip")],
  ["identity", 300, encoded("identity")],
  ["301 to itself", "the document was answered with 301", elsewhere((address) => address, 301)],
  ["302 to another path", "the document was answered with 302", elsewhere(() => "/agent.json")],
  [
    "307 to another port",
    "the document was answered with 307",
    elsewhere((address) => Object.assign(new URL(address), { port: "1" }).href, 307),
  ],
  [
    "308 to a host inside",
    "the document was answered with 308",
    elsewhere(() => "http://169.254.169.254/", 308),
  ],
  ["204", "the document was answered with 204", () => (response) => response.writeHead(204).end()],
];

const MINUTES = 300;
const DAY = 86_400;
/** For how many seconds an answer counts. */
export const CACHED: readonly (readonly [Readonly<Record<string, string>>, number])[] = [
  [{}, MINUTES],
  [{ "cache-control": "max-age=0" }, MINUTES],
  [{ "cache-control": "max-age=299" }, MINUTES],
  [{ "cache-control": "public, Max-Age=301" }, 301],
  [{ "cache-control": "max-age=86400" }, DAY],
  [{ "cache-control": "max-age=86401" }, DAY],
  [{ "cache-control": "max-age=99999999999999999999" }, DAY],
  [{ "cache-control": "max-age=-1" }, MINUTES],
  [{ "cache-control": "max-age=3600", age: "600" }, 3000],
  [{ "cache-control": "max-age=3600", age: "-600" }, 3600],
  [{ "cache-control": "max-age=3600", age: "x" }, 3600],
  [{ "cache-control": "s-maxage=3600" }, MINUTES],
  [{ "cache-control": "max-age=3600, no-store" }, MINUTES],
  [{ "cache-control": "no-cache, max-age=3600" }, MINUTES],
];
