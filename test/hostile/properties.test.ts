import { beforeAll, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { basic, send, type TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, PARTNER, useService } from "../flows/running-service.ts";

const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];
let browsers: Record<DeploymentKind, Browser>;

const news = (where: DeploymentKind): TestClient => clientAt(running, where, NEWS);

async function signedIn(where: DeploymentKind): Promise<Browser> {
  const browser = news(where).browser();
  await news(where).code({ ...ADA, browser });
  return browser;
}

const ask = async (where: DeploymentKind, redirect_uri: string, response_type: string): Promise<Browser> =>
  browsers[where].getOnly(news(where).authorizeUrl({ client_id: "exact", redirect_uri, response_type }));

const formEncoded = (value: string): string => new URLSearchParams([["", value]]).toString().slice(1);

const running = useService();

beforeAll(async () => {
  browsers = { oauth2: await signedIn("oauth2"), openid: await signedIn("openid") };
});

const kind = fc.constantFrom(...KINDS);
/** Text that a state may hold: whole Unicode without NUL. */
const text = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.string({ unit: "grapheme" }),
    fc.constantFrom(
      "",
      " ",
      "+",
      "%",
      "%20",
      "a b+c%2Bd",
      "\"'<>&#?/=;",
      "\r\nSet-Cookie: a=b",
      "ąćę 日本 👩‍👩‍👧",
      "\u202e",
      "\ufeff",
      "\ufffd",
    ),
  )
  .filter((value) => value.isWellFormed() && !value.includes("\0"));

describe("the state", () => {
  it("is returned exactly with a code, an error, and a wrong response_type [AUTHZ-5, D-AUTHZ-10]", async () => {
    await fc.assert(
      fc.asyncProperty(kind, text, async (where, state) => {
        const { oauth2 } = browsers;
        for (const other of [
          {},
          { prompt: "none", max_age: "x" },
          { response_type: "token" },
          { scope: '"' },
        ]) {
          const { location } = await browsers[where].getOnly(news(where).authorizeUrl({ ...other, state }));
          expect(location?.searchParams.getAll("state")).toEqual([state]);
          const raw = /[?&]state=([^&]*)/.exec(browsers[where].headers.get("location") ?? "")?.[1] ?? "none";
          expect(decodeURIComponent(raw)).toBe(state);
        }
        expect(oauth2.status).toBe(302);
      }),
      { numRuns: 60 },
    );
  });

  it("may have at most 4,096 bytes [D-AUTHZ-10]", async () => {
    for (const where of KINDS) {
      for (const letter of ["a", "é", "€", "👩"]) {
        const most = letter.repeat(Math.floor(4096 / Buffer.byteLength(letter)));
        const { location } = await browsers[where].getOnly(news(where).authorizeUrl({ state: most }));
        expect(location?.searchParams.get("state")).toBe(most);
        const more = await browsers[where].getOnly(news(where).authorizeUrl({ state: `${most}${letter}` }));
        expect([more.status, more.location]).toEqual([400, undefined]);
      }
    }
  });
});

describe("the redirect address", () => {
  const ADDRESS = "https://App.example:8443/Call/back%2fx?tab=1&b=%20#".slice(0, -1);
  const edits = fc.oneof(
    fc
      .tuple(fc.nat(ADDRESS.length), fc.string({ minLength: 1, maxLength: 3 }))
      .map(([at, more]) => ADDRESS.slice(0, at) + more + ADDRESS.slice(at)),
    fc.nat(ADDRESS.length - 1).map((at) => ADDRESS.slice(0, at) + ADDRESS.slice(at + 1)),
    fc.nat(ADDRESS.length - 1).map((at) => {
      const letter = ADDRESS[at] ?? "";
      const other = letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();
      return ADDRESS.slice(0, at) + other + ADDRESS.slice(at + 1);
    }),
    fc.nat(ADDRESS.length - 1).map((at) => {
      const escape = `%${ADDRESS.charCodeAt(at).toString(16)}`;
      return ADDRESS.slice(0, at) + escape + ADDRESS.slice(at + 1);
    }),
    fc.webUrl(),
    fc.constantFrom(
      new URL(ADDRESS).href,
      `${ADDRESS}#`,
      `${ADDRESS}&`,
      ADDRESS.replace("https", "http"),
      ADDRESS.replace(":8443", ""),
      ADDRESS.replace("App.example", "App.example."),
      ADDRESS.replace("App.example", "evil@App.example"),
      ADDRESS.replace("/Call/", "/Call/../Call/"),
      ADDRESS.replace("https://", "https:/\\"),
      `${ADDRESS} `,
      `\t${ADDRESS}`,
      NEWS.redirect_uris[0] ?? "",
      "javascript:alert(1)",
      "//App.example/Call",
    ),
  );

  it("matches character by character, and is the only redirect target [RES-CLIENT-3, AUTH-7, ERR-3, D-AUTHZ-2]", async () => {
    await running.service.clients.register({
      ...PARTNER,
      client_id: "exact",
      name: "Exact",
      first_party: true,
      redirect_uris: [ADDRESS],
    });
    await fc.assert(
      fc.asyncProperty(kind, edits, fc.constantFrom("code", "token"), async (where, address, type) => {
        const right = address === ADDRESS;
        const { status, headers } = await ask(where, address, type);
        expect([address, status, headers.has("location")]).toEqual([address, right ? 302 : 400, right]);
      }),
      { numRuns: 300, examples: [["oauth2", ADDRESS, "code"]] },
    );
    for (const where of KINDS) {
      const { headers } = await ask(where, ADDRESS, "code");
      expect(headers.get("location")?.startsWith(`${ADDRESS}&code=`)).toBe(true);
    }
  });
});

describe("Basic credentials", () => {
  const printable = fc.string({ unit: "grapheme-ascii", minLength: 16, maxLength: 60 });
  it("work plain and form-encoded with any printable ASCII secret, and with no other secret [RES-CLIENT-2, TOKEN-CODE-2, AUTH-2, D-TOKEN-6]", async () => {
    let count = 0;
    const awkward = [
      "a+b%2Bc:d&e=f g%zz%",
      "%41%41%41%41%41%41%41%41",
      "++++++++++++++++",
      "%".repeat(16),
      ":".repeat(16),
      `"quotes" and \\ ~-._!*'()`,
      "a & b = c, 100% +",
    ];
    await fc.assert(
      fc.asyncProperty(kind, printable, async (where, client_secret) => {
        count += 1;
        const client_id = `basic-${count}`;
        await running.service.clients.register({ ...PARTNER, client_id, name: "Basic", client_secret });
        const party = clientAt(running, where, { ...PARTNER, client_id, client_secret });
        const error = async (header: string): Promise<unknown> => {
          const form = { grant_type: "refresh_token", refresh_token: "unknown" };
          return (await party.token(form, { authorization: header })).body["error"];
        };
        const encoded = basic({
          client_id: formEncoded(client_id),
          client_secret: formEncoded(client_secret),
        });
        expect(await error(basic({ client_id, client_secret }))).toBe("invalid_grant");
        expect(await error(encoded)).toBe("invalid_grant");
        expect(await error(basic({ client_id, client_secret: `${client_secret}x` }))).toBe("invalid_client");
        expect(await error(basic({ client_id, client_secret: client_secret.slice(1) }))).toBe(
          "invalid_client",
        );
        const form = { client_id, client_secret, grant_type: "refresh_token", refresh_token: "unknown" };
        expect((await party.token(form, {})).body["error"]).toBe("invalid_grant");
        // Form parameters are decoded once, so this is another secret.
        const twice = await party.token({ ...form, client_secret: formEncoded(client_secret) }, {});
        const same = formEncoded(client_secret) === client_secret;
        expect(twice.body["error"]).toBe(same ? "invalid_grant" : "invalid_client");
      }),
      { numRuns: 60, examples: awkward.map((secret) => ["oauth2", secret] as [DeploymentKind, string]) },
    );
  });
});

describe("the authorization query", () => {
  /** Parameters that change nothing on either deployment. */
  const idle = fc.tuple(fc.stringMatching(/^x[\w.~[\]-]{0,8}$/), text);

  it("is independent of order, encoding and unknown parameters", async () => {
    await fc.assert(
      fc.asyncProperty(
        kind,
        fc.array(idle, { maxLength: 5 }),
        fc.infiniteStream(fc.nat(1000)),
        text,
        async (where, more, order, state) => {
          const url = new URL(news(where).authorizeUrl({ state, scope: "openid" }));
          const pairs = [...url.searchParams, ...more].map((pair) => ({ pair, at: order.next().value ?? 0 }));
          const encode = (value: string): string =>
            (order.next().value ?? 0) % 2 === 0
              ? encodeURIComponent(value)
              : [...Buffer.from(value)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
          const query = pairs
            .toSorted((one, other) => one.at - other.at)
            .map(({ pair: [name, value] }) => `${encode(name)}=${encode(value)}`);
          const { status, location } = await browsers[where].getOnly(
            `${url.origin}${url.pathname}?${query.join("&")}`,
          );
          expect([status, location?.searchParams.get("state")]).toEqual([302, state]);
          expect(location?.searchParams.get("code")).toMatch(/^[\w-]{43}$/);
          expect([...(location?.searchParams.keys() ?? [])]).toEqual(
            where === "oauth2" ? ["code", "state"] : ["code", "state", "iss"],
          );
        },
      ),
      { numRuns: 80 },
    );
  });

  it("is refused with a malformed part at any position [D-AUTHZ-11]", async () => {
    const broken = fc.constantFrom("%", "%g1", "%ff", "%C3%28", "%00", "%ed%a0%80", "%f5%80%80%80");
    const names = fc.constantFrom("client_id", "state", "scope", "unknown", "");
    await fc.assert(
      fc.asyncProperty(
        kind,
        broken,
        names,
        fc.boolean(),
        fc.boolean(),
        async (where, part, name, first, inName) => {
          const url = new URL(news(where).authorizeUrl());
          const bad = inName ? `${name}${part}=x` : `${name}=a${part}b`;
          const query = first ? `${bad}&${url.search.slice(1)}` : `${url.search.slice(1)}&${bad}`;
          const { status, body, headers } = await send(`${url.origin}${url.pathname}?${query}`);
          expect([status, body["error"], headers.get("location")]).toEqual([400, "invalid_request", null]);
        },
      ),
      { numRuns: 100 },
    );
  });
});
