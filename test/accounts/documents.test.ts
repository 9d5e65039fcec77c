/** What the documents of clients that nobody has registered may say, and at which addresses they may be. */
import { describe, expect, it } from "@jest/globals";
import { readDocument, requireKeepable } from "../../accounts/documents/document.ts";
import { documentAddressProblem } from "../../config/clients.ts";
import { problemsIn, problemsWith } from "../config/refusals.ts";

const CLIENT = "https://tool.example/client.json";
const DOCUMENT = { client_id: CLIENT, redirect_uris: ["http://127.0.0.1/callback"] };

it.each([
  "http://tool.example/client.json",
  "https://tool.example",
  "https://tool.example/",
  "https://tool.example/a?b",
  "https://tool.example/a?",
  "https://tool.example/a#b",
  "https://tool.example/a#",
  "https://user@tool.example/a",
  "https://tool.example/a/../b",
  "https://tool.example/%2e%2e/b",
  "https://TOOL.example/a",
  "https://tool.example:443/a",
  "https://tool.example./a",
  "https://0x7f000001/a",
  "https://tool.example\\a",
  `https://tool.example/${"a".repeat(500)}`,
])("no document is at %s [D-DOC-3]", (address) => {
  expect(documentAddressProblem(address)).toBeDefined();
});

const problems = (metadataDocuments: unknown): readonly string[] =>
  problemsIn({
    deployments: { openid: { url: "http://127.0.0.1:3000" } },
    clients: { metadataDocuments },
  });

describe("a configuration", () => {
  it.each([
    "javascript",
    "https",
    "http",
    "data",
    "file",
    "blob",
    "mailto",
    "intent",
    "ms-word",
    "x-apple.systempreferences",
    "web+x",
  ])("doesn't start with the scheme %s [D-DOC-84]", (scheme) => {
    expect(problems({ allow: "any", schemes: ["cursor", scheme] })).toEqual([
      expect.stringContaining("schemes[1]: must not be a scheme that a browser or a system acts on"),
    ]);
  });

  it.each<[string, unknown]>([
    ["no origin", { allow: [] }],
    ["an origin over http", { allow: ["http://tool.example"] }],
    ["a pattern", { allow: ["https://*.example"] }],
    ["a pattern in an address", { allow: ["https://*.example/client.json"] }],
    ["all, in a list", { allow: ["any"] }],
    ["a query", { allow: ["https://tool.example/a?b"] }],
    ["a scheme in upper case", { allow: "any", schemes: ["Cursor"] }],
    ["a scheme with its colon", { allow: "any", schemes: ["cursor:"] }],
    ["nothing", {}],
  ])("doesn't start with %s [D-DOC-84]", (_what, metadataDocuments) => {
    expect(problems(metadataDocuments)).toHaveLength(1);
  });

  it("doesn't start without the openid deployment [D-DOC-84]", () => {
    expect(problemsWith({ clients: { metadataDocuments: { allow: "any" } } })).toEqual([
      expect.stringContaining("needs config.deployments.openid"),
    ]);
  });
});

describe("a document", () => {
  it.each<[string, unknown, string]>([
    ["is a list", [], "form"],
    ["is of another client", { ...DOCUMENT, client_id: `${CLIENT}/` }, "other_client"],
    ["has a secret", { ...DOCUMENT, client_secret: "x" }, "secret"],
    ["wants a secret", { ...DOCUMENT, token_endpoint_auth_method: "client_secret_post" }, "secret"],
    ["wants TLS", { ...DOCUMENT, token_endpoint_auth_method: "tls_client_auth" }, "authentication"],
    ["has no key", { ...DOCUMENT, token_endpoint_auth_method: "private_key_jwt" }, "keys"],
    [
      "has its keys elsewhere",
      {
        ...DOCUMENT,
        token_endpoint_auth_method: "private_key_jwt",
        jwks_uri: "https://evil.example/keys",
      },
      "keys",
    ],
    [
      "has no address that counts",
      {
        ...DOCUMENT,
        redirect_uris: [
          "https://evil.example/",
          "http://localhost.evil.example/",
          "javascript:alert(1)",
          "http://10.0.0.1/",
          1,
        ],
      },
      "addresses",
    ],
    ["has no addresses", { client_id: CLIENT }, "addresses"],
  ])("that %s makes no client [D-DOC-3]", (_what, document, fault) => {
    expect(() => readDocument(CLIENT, document, [])).toThrow(expect.objectContaining({ fault }));
  });

  it("decides a name without marks and controls, and nothing that is not listed [D-DOC-3]", () => {
    const client_name = `A\u202e  To\u0000ol\n${"x".repeat(10_000)}`;
    const read = readDocument(
      CLIENT,
      { ...DOCUMENT, client_name, logo_uri: "https://x.example", scope: "openid" },
      [],
    );
    expect(read).toEqual({ name: `A Tool ${"x".repeat(53)}`, redirect_uris: DOCUMENT.redirect_uris });
  });

  it("has twenty addresses at most, and a copy of 16 KiB [D-DOC-3]", () => {
    const redirect_uris = Array.from({ length: 21 }, (_each, index) => `http://127.0.0.1/${index}`);
    expect(readDocument(CLIENT, { ...DOCUMENT, redirect_uris }, []).redirect_uris).toEqual(
      redirect_uris.slice(0, 20),
    );
    const long = redirect_uris.map((each) => `${each}/${"x".repeat(1_000)}`);
    expect(() => requireKeepable({ redirect_uris: long.slice(0, 20) })).toThrow(
      expect.objectContaining({ fault: "size" }),
    );
  });

  it("can't end the quotation marks around its name [D-DOC-41]", () => {
    const read = readDocument(CLIENT, { ...DOCUMENT, client_name: 'Notes” is safe. “x"' }, []);
    expect(read.name).toBe("Notes' is safe. 'x'");
  });
});
