/** Fetching documents of clients that nobody has registered, by the guarded agents from a real server. */
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { createFetching } from "../../../accounts/documents/fetching.ts";
import { AddressRefused } from "../../../core/outbound-agents.ts";
import { atVeryEnd } from "../../closing.ts";
import { type Answer, BOUNDS, CACHED, documentOf, json, slowly } from "../../hostile/lying-documents.ts";
import { selfSigned } from "../../notifier/peers.ts";

/** What the server answers, by path. */
const pages = new Map<string, Answer>();
/** The paths that were asked for. */
let asked: string[] = [];
let origin: string;
let ca: string;

beforeAll(async () => {
  const { key, cert } = selfSigned("localhost");
  const server = createServer({ key, cert }, (request, response) => {
    const path = request.url ?? "";
    asked.push(path);
    pages.get(path)?.(response);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  atVeryEnd(() => {
    server.close().closeAllConnections();
  });
  origin = `https://localhost:${(server.address() as AddressInfo).port}`;
  ca = cert;
});
beforeEach(() => {
  asked = [];
});

const answers =
  (...addresses: readonly string[]) =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

describe("the fetching", () => {
  const path = "/fetched";
  type Options = NonNullable<Parameters<typeof createFetching>[2]> & {
    readonly allow?: readonly string[] | "any";
    readonly host?: string;
  };
  /** For how long the document counts, or why there is none. */
  async function fetched({
    allow = [origin],
    host = "localhost",
    ...options
  }: Options = {}): Promise<unknown> {
    const fetching = createFetching({}, { allow, schemes: [] }, { ca, ...options });
    const url = `https://${host}:${new URL(origin).port}${path}`;
    return fetching(url).then(
      ({ freshMs }) => freshMs / 1000,
      (error: unknown) => (error as Error).cause ?? (error as Error).message,
    );
  }

  it.each(BOUNDS)("of %s ends with %s [D-DOC-91]", async (_what, expected, answer) => {
    pages.set(path, answer(origin + path));
    const result = await fetched();
    expect(result instanceof Error ? result.message : result).toBe(expected);
    expect(asked).toEqual([path]);
  });

  it.each(CACHED)("with %j keeps what it has got for %i seconds [D-DOC-91]", async (headers, seconds) => {
    pages.set(path, json(documentOf(origin + path), headers));
    expect(await fetched()).toBe(seconds);
  });

  it("ends in time, with document and keys together, also while a name has no answer [D-DOC-91]", async () => {
    const ended = expect.objectContaining({ name: "TimeoutError" }) as unknown;
    pages.set(path, slowly);
    expect(await fetched({ timeoutMs: 300 })).toEqual(ended);
    const keys = { token_endpoint_auth_method: "private_key_jwt", jwks_uri: `${origin}/slow-keys` };
    pages.set(path, json(documentOf(origin + path, keys)));
    pages.set("/slow-keys", slowly);
    expect(await fetched({ timeoutMs: 300 })).toEqual(ended);
    expect(await fetched({ timeoutMs: 50, resolve: () => new Promise(() => undefined) })).toEqual(ended);
    expect(asked).toEqual([path, path, "/slow-keys"]);
  });

  it.each<[string, Options]>([
    ["the loopback by its address", { allow: "any", host: "127.0.0.1" }],
    ["the loopback in six", { allow: "any", host: "[::1]" }],
    ["the loopback mapped to six", { allow: "any", host: "[::ffff:7f00:1]" }],
    ["the loopback by its address, which only a name is allowed for", { host: "127.0.0.1" }],
    ["the loopback by a name", { allow: "any" }],
    ["a private network by a name", { allow: "any", resolve: answers("10.0.0.1") }],
    [
      "the loopback by a name, beside a public address",
      { allow: "any", resolve: answers("8.8.8.8", "127.0.0.1") },
    ],
    ["the metadata of a cloud by a name that is allowed", { resolve: answers("169.254.169.254") }],
  ])("does not lead to %s [D-DOC-92]", async (_what, options) => {
    pages.set(path, json(documentOf(origin + path)));
    expect(await fetched(options)).toBeInstanceOf(AddressRefused);
    expect(asked).toEqual([]);
  });

  it("connects to the address that was checked, whatever the name leads to a moment later [D-DOC-92]", async () => {
    const keys = { token_endpoint_auth_method: "private_key_jwt", jwks_uri: `${origin}/keys` };
    let looks = 0;
    const resolve = async () => answers((looks += 1) === 1 ? "127.0.0.1" : "169.254.169.254")();
    pages.set(path, json(documentOf(origin + path)));
    expect([await fetched({ resolve }), looks]).toEqual([300, 1]);
    // The keys are another connection, which is checked anew.
    looks = 0;
    pages.set(path, json(documentOf(origin + path, keys)));
    expect([await fetched({ resolve }), looks]).toEqual([expect.any(AddressRefused), 2]);
    expect(asked).toEqual([path, path]);
  });

  it("trusts only who has a certificate for the name [D-DOC-92]", async () => {
    pages.set(path, json(documentOf(origin + path)));
    const other = { host: "other.example", resolve: answers("127.0.0.1") };
    expect(await fetched({ ...other, allow: ["https://other.example"] })).toMatchObject({
      code: "ERR_TLS_CERT_ALTNAME_INVALID",
    });
    expect(await fetched({ ca: undefined })).toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    expect(asked).toEqual([]);
  });
});
