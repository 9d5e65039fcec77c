/** Property names of Object, such as `constructor`, and requests that contain a name. */
import { expect } from "@jest/globals";
import * as fc from "fast-check";
import type { DeploymentKind } from "../../config/configuration.ts";
import { basic, PATHS, send, type Tokens } from "../flows/relying-party.ts";
import { ADA, CALLBACK, NEWS } from "../flows/running-service.ts";

/** Every name of `Object.prototype`, each in a different order from run to run. */
export const NAMES: readonly string[] = Object.getOwnPropertyNames(Object.prototype);
export const inAnyOrder: fc.Arbitrary<string[]> = fc.shuffledSubarray([...NAMES], {
  minLength: NAMES.length,
});
export const RUNS: fc.Parameters<[string[]]> = { numRuns: 2 };

/** A name that is neither registered nor a property. */
export const UNKNOWN = "nobody-has-this";

/** An object literal with one key, as it comes out of a file. */
export const keyed = <T>(name: string, value: T): Record<string, T> =>
  JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(value)}}`) as Record<string, T>;

/** The shared properties of all objects, including those of functions such as `constructor`. */
function shared(): unknown {
  return NAMES.map((name) => {
    const { value } = Object.getOwnPropertyDescriptor(Object.prototype, name) ?? {};
    return [name, Reflect.ownKeys(Object(value))];
  });
}

const before = shared();
const ownNames = Reflect.ownKeys(Object.prototype);

export function expectNothingShared(): void {
  expect(shared()).toEqual(before);
  expect(Reflect.ownKeys(Object.prototype)).toEqual(ownNames);
}

export interface Probe {
  readonly title: string;
  readonly kinds?: readonly DeploymentKind[];
  readonly ask: (name: string, material: Material) => readonly [path: string, init?: RequestInit];
}

export interface Material {
  readonly kind: DeploymentKind;
  readonly tokens: Tokens;
}

const query = (fields: Readonly<Record<string, string>>): string => `?${new URLSearchParams(fields)}`;
const post = (
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): RequestInit => ({ method: "POST", headers, body: new URLSearchParams(fields) });

const AUTHORIZE = { client_id: NEWS.client_id, response_type: "code", redirect_uri: CALLBACK };
const secretOf = (client_id: string) => ({ client_id, client_secret: NEWS.client_secret });
const basicOf = (client_id: string) => ({ authorization: basic(secretOf(client_id)) });
const bearerOf = ({ tokens }: Material) => ({ headers: { authorization: `Bearer ${tokens.access_token}` } });
export const claimsOf = (name: string): string =>
  `{"userinfo":{"${name}":null,"email":null},"id_token":{"${name}":{"essential":true}},"${name}":{"email":null}}`;
const GRANTS: readonly Readonly<Record<string, string>>[] = [
  { grant_type: "authorization_code", code: "c", redirect_uri: CALLBACK },
  { grant_type: "refresh_token", refresh_token: "r" },
  { grant_type: "password", username: ADA.username, password: ADA.password },
];

/** Requests with the name as a client_id. */
export const CLIENTS: readonly Probe[] = [
  { title: "authorize", ask: (name) => [`/oauth2/authorize${query({ ...AUTHORIZE, client_id: name })}`] },
  ...GRANTS.flatMap((grant): Probe[] => [
    {
      title: `token, Basic, ${grant["grant_type"]}`,
      ask: (name) => ["/oauth2/token", post(grant, basicOf(name))],
    },
    {
      title: `token, form, ${grant["grant_type"]}`,
      ask: (name) => ["/oauth2/token", post({ ...grant, ...secretOf(name) })],
    },
  ]),
  ...(["userinfo", "profile"] as const).map((endpoint): Probe => ({
    title: endpoint,
    ask: (name, material) => [
      PATHS[material.kind][endpoint] + query({ client_id: name }),
      bearerOf(material),
    ],
  })),
  {
    title: "revoke, documented",
    ask: (name, material) => [`/oauth2/revoke${query({ client_id: name })}`, bearerOf(material)],
  },
  {
    title: "revoke, Basic",
    ask: (name, { tokens }) => ["/oauth2/revoke", post({ token: tokens.refresh_token }, basicOf(name))],
  },
  {
    title: "revoke, form",
    ask: (name, { tokens }) => ["/oauth2/revoke", post({ token: tokens.refresh_token, ...secretOf(name) })],
  },
  ...["introspect", "par"].flatMap((endpoint): Probe[] => [
    {
      title: `${endpoint}, Basic`,
      kinds: ["openid"],
      ask: (name, { tokens }) => [
        `/oauth2/${endpoint}`,
        post({ ...AUTHORIZE, client_id: name, token: tokens.access_token }, basicOf(name)),
      ],
    },
    {
      title: `${endpoint}, form`,
      kinds: ["openid"],
      ask: (name, { tokens }) => [
        `/oauth2/${endpoint}`,
        post({ ...AUTHORIZE, token: tokens.access_token, ...secretOf(name) }),
      ],
    },
  ]),
  {
    title: "logout",
    kinds: ["openid"],
    ask: (name) => [
      `/oauth2/logout${query({ client_id: name, post_logout_redirect_uri: CALLBACK, state: "s" })}`,
    ],
  },
  {
    title: "logout, success",
    kinds: ["openid"],
    ask: (name) => [`/oauth2/logout/success${query({ client_id: name })}`],
  },
];

/** Requests with the name elsewhere. */
export const OTHERS: readonly Probe[] = [
  ...["scope", "ui_locales", "claims_locales", "acr_values", "login_hint", "state", "nonce"].flatMap(
    (parameter): Probe[] =>
      ["openid profile", ""].map((scope) => ({
        title: `authorize, ${parameter} with scope ${scope}`,
        ask: (name) => [
          `/oauth2/authorize${query({ ...AUTHORIZE, ...(scope && { scope }), [parameter]: `${parameter === "scope" ? scope : ""} ${name}`.trim() })}`,
        ],
      })),
  ),
  ...["response_type", "response_mode", "prompt", "display", "code_challenge_method", "id_token_hint"].map(
    (parameter): Probe => ({
      title: `authorize, ${parameter}`,
      ask: (name) => [
        `/oauth2/authorize${query({ ...AUTHORIZE, scope: "openid", ...keyed(parameter, name) })}`,
      ],
    }),
  ),
  {
    title: "authorize, a parameter of this name",
    ask: (name) => [`/oauth2/authorize${query(AUTHORIZE)}&${name}=x`],
  },
  {
    title: "authorize, claims",
    ask: (name) => [
      `/oauth2/authorize${query({ ...AUTHORIZE, scope: "openid", claims: claimsOf(name), prompt: "none" })}`,
    ],
  },
  {
    title: "authorize, Accept-Language and cookies",
    ask: (name) => [
      `/oauth2/authorize${query({ ...AUTHORIZE, client_id: UNKNOWN })}`,
      {
        headers: { accept: "text/html", "accept-language": name, cookie: `locale=${name}; ${name}=${name}` },
      },
    ],
  },
  {
    title: "token, grant_type",
    ask: (name) => ["/oauth2/token", post({ grant_type: name }, basicOf("news"))],
  },
  {
    title: "token, scope",
    ask: (name) => ["/oauth2/token", post({ ...GRANTS[2], scope: `openid ${name}` }, basicOf("news"))],
  },
  {
    title: "token, a parameter of this name",
    ask: (name) => ["/oauth2/token", post(keyed(name, "x"), basicOf("news"))],
  },
  {
    title: "revoke, token_type_hint",
    ask: (name) => ["/oauth2/revoke", post({ token: "t", token_type_hint: name }, basicOf("news"))],
  },
  {
    title: "par, claims",
    kinds: ["openid"],
    ask: (name) => [
      "/oauth2/par",
      post({ ...AUTHORIZE, scope: `openid ${name}`, claims: claimsOf(name) }, basicOf("news")),
    ],
  },
  { title: "an interaction", ask: (name) => [`/interaction/${name}`] },
];

/** A response without variable parts, and with `NAME` instead of the name. */
export async function responseTo(
  base: string,
  name: string,
  [path, init]: readonly [path: string, init?: RequestInit],
): Promise<unknown> {
  const { status, headers, body, text } = await send(base + path, init);
  const plain = (value: string): string => value.replaceAll(name, "NAME");
  const location = headers.get("location")?.replace(/(interaction\/|code=)[\w-]+/, "$1NEW");
  const title = /<title>[^<]*<\/title>/.exec(text)?.[0];
  const members = Object.keys(body).length === 0 ? title : JSON.stringify([body["error"], Object.keys(body)]);
  return { status, location: plain(location ?? ""), members: plain(members ?? "") };
}
