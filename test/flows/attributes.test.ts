/** Who reads the attributes of a service: by client, scope, `readers`, consent and endpoint. */
import { clientAt } from "./clients.ts";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { decodeJwt } from "jose";
import type { DeploymentKind } from "../../config/configuration.ts";
import {
  ACCOUNTS,
  asking,
  attributesIn,
  INTERACTIONS,
  MOTTO,
  type Name,
  NAMES,
  stageAttributes,
  standardUserinfo,
  WAYS,
} from "./attribute-party.ts";
import { send, type TestTokens } from "../../testing/test-client.ts";
import { ADA, NEWS, PARTNER, useService } from "./running-service.ts";
import { ARTICLES, READER, registerReader, resetApis, VIDEOS } from "./sample-apis.ts";

const running = useService({ config: { accounts: ACCOUNTS, interactions: INTERACTIONS } });

beforeAll(async () => {
  await stageAttributes(running);
  await registerReader(running);
});
beforeEach(async () => {
  await running.service.accounts.revokeTokens(running.ada.sub);
  await resetApis(running, [NEWS, PARTNER]);
});

interface Request {
  readonly scope?: string;
  /** The attributes that the parameter `claims` asks for. */
  readonly userinfo?: readonly Name[];
  readonly id_token?: readonly Name[];
}

interface Expected {
  /** On the page that asks. Default: there is none. */
  readonly asked?: readonly Name[];
  /** In standard userinfo. `"refused"`: it takes no such token. Default: none. */
  readonly userinfo?: readonly Name[] | "refused";
  /** In the ID token. `"none"`: there is no ID token. Default: none. */
  readonly id_token?: readonly Name[] | "none";
  /** The scope that the client has, where it is told. */
  readonly scope?: string;
}

type By = keyof typeof WAYS;
type Row = readonly [by: By, kind: DeploymentKind, request: Request, expected: Expected];

const EVERYTHING = { userinfo: NAMES, id_token: NAMES };
const PHONE = ["phone_number", "phone_number_verified"] as const;
const STANDARD = [...PHONE, "address", "nickname"] as const;
/** Those of the scope `org` that the person sees. */
const ORG = ["department", "motto", "desk"] as const;
const ORG_AND_HIDDEN = [...ORG, "score"] as const;
/** For requests whose tokens standard userinfo does not take. */
const NO_OPENID = { userinfo: "refused", id_token: "none" } as const;

const OF_NEWS = [...ORG_AND_HIDDEN, ...STANDARD] as const;
const OF_SHOP = ["department", "motto", "customer_number", ...STANDARD] as const;
const OF_PARTNER = [...ORG, ...STANDARD] as const;

const TABLE: readonly Row[] = [
  // First parties: what their service may read, unasked.
  ["news", "openid", { scope: "openid" }, {}],
  ["news", "openid", { scope: "openid profile" }, { userinfo: ["nickname"] }],
  ["news", "openid", { scope: "openid phone address" }, { userinfo: [...PHONE, "address"] }],
  ["news", "openid", { scope: "openid org" }, { userinfo: ORG_AND_HIDDEN }],
  ["news", "openid", { scope: "openid customer rating" }, {}],
  ["news", "openid", { scope: "openid", userinfo: ["desk", "customer_number"] }, { userinfo: ["desk"] }],
  ["news", "openid", { scope: "openid", id_token: ["desk", "customer_number"] }, { id_token: ["desk"] }],
  [
    "news",
    "openid",
    { scope: "openid org", id_token: ["desk"] },
    { userinfo: ORG_AND_HIDDEN, id_token: ["desk"] },
  ],
  ["news", "openid", { scope: "openid", ...EVERYTHING }, { userinfo: OF_NEWS, id_token: OF_NEWS }],
  ["shop", "openid", { scope: "openid org" }, { userinfo: ["department", "motto"] }],
  ["shop", "openid", { scope: "openid customer" }, { userinfo: ["customer_number"] }],
  ["shop", "openid", { scope: "openid", ...EVERYTHING }, { userinfo: OF_SHOP, id_token: OF_SHOP }],
  ["app", "openid", { scope: "openid org customer" }, { userinfo: ORG_AND_HIDDEN, scope: "openid org" }],
  [
    "television",
    "openid",
    { scope: "openid org customer" },
    { asked: ORG, userinfo: ORG_AND_HIDDEN, scope: "openid org" },
  ],
  ["the password grant of news", "openid", { scope: "openid org customer" }, { userinfo: ORG_AND_HIDDEN }],
  // Third parties: what the person sees and has allowed.
  ["partner", "openid", { scope: "openid" }, { asked: [] }],
  ["partner", "openid", { scope: "openid profile" }, { asked: ["nickname"], userinfo: ["nickname"] }],
  [
    "partner",
    "openid",
    { scope: "openid phone address" },
    { asked: [...PHONE, "address"], userinfo: [...PHONE, "address"] },
  ],
  ["partner", "openid", { scope: "openid org" }, { asked: ORG, userinfo: ORG }],
  ["partner", "openid", { scope: "openid customer rating" }, { asked: [] }],
  [
    "partner",
    "openid",
    { scope: "openid", userinfo: ["desk", "score", "rating"] },
    { asked: ["desk"], userinfo: ["desk"] },
  ],
  [
    "partner",
    "openid",
    { scope: "openid", id_token: ["desk", "score", "rating"] },
    { asked: ["desk"], id_token: ["desk"] },
  ],
  [
    "partner",
    "openid",
    { scope: "openid", ...EVERYTHING },
    { asked: OF_PARTNER, userinfo: OF_PARTNER, id_token: OF_PARTNER },
  ],
  [
    "kiosk",
    "openid",
    { scope: "openid org customer rating" },
    { asked: ORG, userinfo: ORG, scope: "openid org" },
  ],
  [
    "frame",
    "openid",
    { scope: "openid org customer rating" },
    { asked: ORG, userinfo: ORG, scope: "openid org" },
  ],
  ["a pushed request of partner", "openid", { scope: "openid org rating" }, { asked: ORG, userinfo: ORG }],
  // Without the scope openid there are neither ID tokens nor standard userinfo. Without any, it is the documented profile.
  ["news", "openid", { scope: "org", ...EVERYTHING }, NO_OPENID],
  ["partner", "openid", { scope: "org" }, { ...NO_OPENID, asked: ORG }],
  ["partner", "openid", {}, { ...NO_OPENID, asked: [] }],
  ["app", "openid", { scope: "customer rating" }, { ...NO_OPENID, scope: "" }],
  ["news", "oauth2", { scope: "openid org phone profile", ...EVERYTHING }, NO_OPENID],
  ["app", "oauth2", { scope: "openid org phone email" }, { ...NO_OPENID, scope: "email" }],
  ["television", "oauth2", { scope: "org" }, { ...NO_OPENID, asked: [], scope: "" }],
  ["partner", "oauth2", { scope: "org phone", ...EVERYTHING }, { ...NO_OPENID, asked: [] }],
];

const inWords = ({ scope = "none", ...claims }: Request): string =>
  [`scope ${scope}`, ...Object.keys(claims).map((member) => `claims for ${member}`)].join(", ");

/** What the documented endpoints answer, byte for byte. */
const documented = (): { readonly userinfo: string; readonly profile: string } => {
  const { sub } = running.ada;
  const { email, name, surname, date_of_birth, gender } = ADA;
  return {
    userinfo: JSON.stringify({ sub, email }),
    profile: JSON.stringify({ sub, email, name, surname, date_of_birth, gender }),
  };
};

describe("attributes", () => {
  it.each(TABLE.map((row) => [row[0], row[1], inWords(row[2]), row] as const))(
    "%s at %s with %s reads what it may, and nothing else [D-ATTR-1, D-ATTR-2, D-ATTR-3, D-ATTR-5]",
    async (by, kind, _words, [, , { scope, ...wishes }, expected]) => {
      const claims = Object.keys(wishes).length === 0 ? undefined : asking(wishes);
      const { asked, party, answer } = await WAYS[by](running, kind, {
        ...(scope && { scope }),
        ...(claims && { claims }),
      });
      expect(asked).toEqual(expected.asked);
      // A refresh gives what the first answer gave.
      for (const { status, body } of [answer, await party.refresh(answer.body["refresh_token"])]) {
        expect([status, attributesIn(body)]).toEqual([200, []]);
        if (expected.scope !== undefined) expect(body["scope"]).toBe(expected.scope);
        const { id_token, access_token } = body as Partial<TestTokens>;
        const inToken = id_token === undefined ? "none" : attributesIn(decodeJwt(id_token));
        expect(inToken).toEqual(expected.id_token ?? []);
        const standard = await standardUserinfo(running, access_token);
        const read = standard.status === 200 ? attributesIn(standard.body) : "refused";
        expect(read).toEqual(expected.userinfo ?? []);
        for (const endpoint of ["userinfo", "profile"] as const) {
          const { text, ...refused } = await party[endpoint](access_token);
          if (refused.status === 200) expect(text).toBe(documented()[endpoint]);
          else expect(refused.body["error"]).toBe("insufficient_scope");
        }
        if (party.client_secret === undefined) continue;
        const about = await party.at("openid").post("/oauth2/introspect", { token: String(access_token) });
        expect([about.body["active"], attributesIn(about.body)]).toEqual([true, []]);
      }
    },
  );

  it.each([VIDEOS, ARTICLES])(
    "are in no token for %s, and no API gets them by introspection [D-ATTR-1]",
    async (resource) => {
      for (const [by, readable] of [
        ["news", OF_NEWS],
        ["partner", OF_PARTNER],
      ] as const) {
        const scope = "openid org phone articles:read";
        const { answer } = await WAYS[by](running, "openid", { scope, resource, claims: asking(EVERYTHING) });
        // The ID token is about the person, whoever the access token is for.
        expect(attributesIn(decodeJwt(String(answer.body["id_token"])))).toEqual(readable);
        const token = String(answer.body["access_token"]);
        expect((await standardUserinfo(running, token)).status).toBe(401);
        const { body } = await clientAt(running, "openid", READER).post("/oauth2/introspect", { token });
        const about = resource === VIDEOS ? decodeJwt(token) : body;
        expect(about["sub"]).toBe(running.ada.sub);
        expect(attributesIn(about)).toEqual([]);
      }
    },
  );

  it("are in no token of a machine [D-ATTR-1]", async () => {
    const { clients } = running.service;
    await clients.update(READER.client_id, { apis: { [VIDEOS]: ["articles:read"] } });
    const form = { grant_type: "client_credentials", resource: VIDEOS };
    for (const scope of ["articles:read", "articles:read org phone"]) {
      const { status, body } = await clientAt(running, "openid", READER).post("/oauth2/token", {
        ...form,
        scope,
      });
      expect([scope, status]).toEqual([scope, 200]);
      expect(attributesIn(decodeJwt(String(body["access_token"])))).toEqual([]);
    }
  });

  it("are in discovery, with their scopes [D-ATTR-6, D-CLAIMS-1]", async () => {
    const { body } = await send(`${running.openid}/.well-known/openid-configuration`);
    expect(body["scopes_supported"]).toEqual([
      "openid",
      "email",
      "profile",
      "roles",
      "org",
      "customer",
      "rating",
      "phone",
      "address",
    ]);
    const claims = body["claims_supported"] as string[];
    const read = NAMES.filter((name) => claims.includes(name === "motto" ? MOTTO : name));
    expect(read).toEqual(NAMES.filter((name) => name !== "note"));
    expect(claims).not.toContain("note");
  });
});
