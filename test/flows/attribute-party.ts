/** Attributes of every kind, their values, and the clients that ask for them, each in its way. */
import type { AccountsInput } from "../../config/attributes.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { tagsNamed } from "../../testing/browser/html.ts";
import { APP, clientAt, type Deployments, type KnownApp, signIn } from "./clients.ts";
import { compare, decide, FRAME, TELEVISION } from "./devices.ts";
import {
  newProof,
  type RequestParameters,
  send,
  type TestAnswer,
  type TestClient,
} from "../../testing/test-client.ts";
import { ADA, type KnownClient, NEWS, PARTNER, type RunningService, SHOP } from "./running-service.ts";

/** A claim that has another name than its attribute. */
export const MOTTO = "https://example.com/motto";

export const ACCOUNTS = {
  attributes: {
    department: { type: "text", label: "Department", scope: "org" },
    motto: { type: "text", label: "Motto", edit: "person", scope: "org", claim: MOTTO },
    desk: { type: "integer", label: "Desk", scope: "org", readers: ["1", "3"] },
    customer_number: { type: "text", label: "Customer number", scope: "customer", readers: ["2"] },
    score: { type: "integer", label: "Score", scope: "org", visible: false, readers: ["1", "3"] },
    rating: { type: "text", label: "Rating", scope: "rating", visible: false, readers: ["3"] },
    note: { type: "text", label: "Note" },
    phone_number: true,
    address: true,
    nickname: true,
  },
} as const satisfies AccountsInput;

export const VALUES = {
  department: "Engines",
  motto: "Poetical science",
  desk: 7,
  customer_number: "C-1017",
  score: 12,
  rating: "good",
  note: "Calls on Mondays",
  phone_number: "+442079460958",
  phone_number_verified: true,
  address: { street_address: "12 St James’s Square", locality: "London", country: "GB" },
  nickname: "Enchantress",
} as const;

export type Name = keyof typeof VALUES;
export const NAMES = Object.keys(VALUES) as readonly Name[];

/** The name of the service. */
export const INTERACTIONS = { theme: { name: "Byron & Co" } };

/** What a page calls what operators set. */
const set = (label: string): string => `${label} (set by ${INTERACTIONS.theme.name})`;

/** What a page that asks calls each attribute. */
const LABELS: Readonly<Record<Name, string>> = {
  department: set("Department"),
  motto: "Motto",
  desk: set("Desk"),
  customer_number: set("Customer number"),
  score: set("Score"),
  rating: set("Rating"),
  note: set("Note"),
  phone_number: "Phone number",
  phone_number_verified: set("Whether the phone number is confirmed"),
  address: "Postal address",
  nickname: "Nickname",
};

const claimOf = (name: Name): string => (name === "motto" ? MOTTO : name);

/** The attributes in an answer. @throws if one has another value than the account. */
export function attributesIn(body: Readonly<Record<string, unknown>>): readonly Name[] {
  const found = NAMES.filter((name) => Object.hasOwn(body, claimOf(name)));
  for (const name of found)
    if (JSON.stringify(body[claimOf(name)]) !== JSON.stringify(VALUES[name]))
      throw new Error(`${name} is ${JSON.stringify(body[claimOf(name)])}`);
  return found;
}

/** The attributes that a page lists, as a person sees them. */
export function attributesOn(browser: Browser): readonly Name[] {
  const items = new Set(tagsNamed(browser.html, "li").map(({ text }) => text.trim()));
  return NAMES.filter((name) => items.has(LABELS[name]));
}

/** The `claims` parameter that asks for these attributes. */
export function asking(wishes: {
  readonly userinfo?: readonly Name[];
  readonly id_token?: readonly Name[];
}): string {
  const members = Object.entries(wishes).map(([member, names]) => [
    member,
    Object.fromEntries(names.map((name) => [claimOf(name), { essential: true }])),
  ]);
  return JSON.stringify(Object.fromEntries(members));
}

/** A third party without a secret. */
const KIOSK: KnownApp = { ...APP, client_id: "kiosk", name: "Kiosk", service: "3", first_party: false };

/** Registers the clients, and gives Ada the values. */
export async function stageAttributes({
  service: { accounts, clients },
  ada,
}: RunningService): Promise<void> {
  for (const client of [APP, KIOSK, TELEVISION, FRAME]) await clients.register(client);
  await accounts.update(ada.sub, { attributes: VALUES });
}

export const standardUserinfo = ({ openid }: Deployments, token: unknown): Promise<TestAnswer> =>
  send(`${openid}/oauth2/userinfo`, { headers: { authorization: `Bearer ${String(token)}` } });

/** What a client has after a sign-in, and what the person was asked before. */
export interface Obtained {
  /** The attributes on the page that asked; `undefined` if there was none. */
  readonly asked: readonly Name[] | undefined;
  readonly answer: TestAnswer;
  readonly party: TestClient;
}

type Way = (running: Deployments, kind: DeploymentKind, parameters: RequestParameters) => Promise<Obtained>;

/** Signs in, and allows what a page asks. */
async function allowing(
  browser: Browser,
  address: string,
): Promise<Pick<Obtained, "asked"> & { readonly code: string }> {
  await browser.get(address);
  if (browser.hasForm("password")) await signIn(browser);
  const asked = browser.hasForm("decision") ? attributesOn(browser) : undefined;
  if (asked !== undefined) await browser.submit(browser.form("decision"), { decision: "allow" });
  return { asked, code: browser.location?.searchParams.get("code") ?? "" };
}

const web =
  (client: KnownClient): Way =>
  async (running, kind, parameters) => {
    const party = clientAt(running, kind, client);
    const { asked, code } = await allowing(party.browser(), party.authorizeUrl(parameters));
    return { asked, party, answer: await party.exchange(code) };
  };

const withoutSecret =
  (client: KnownApp): Way =>
  async (running, kind, parameters) => {
    const party = clientAt(running, kind, client);
    const { request, code_verifier } = newProof();
    const { asked, code } = await allowing(
      party.browser(),
      party.authorizeUrl({ ...request, ...parameters }),
    );
    return { asked, party, answer: await party.exchange(code, { code_verifier }) };
  };

const device =
  (client: typeof TELEVISION): Way =>
  async (running, kind, parameters) => {
    const party = clientAt(running, kind, client);
    const codes = await party.deviceCodes(parameters);
    const browser = await compare(codes);
    const asked = attributesOn(browser);
    await decide(browser, "connect");
    return { asked, party, answer: await party.poll(codes) };
  };

/** How each client gets its tokens. */
export const WAYS = {
  news: web(NEWS),
  shop: web(SHOP),
  partner: web(PARTNER),
  app: withoutSecret(APP),
  kiosk: withoutSecret(KIOSK),
  television: device(TELEVISION),
  frame: device(FRAME),
  async "the password grant of news"(running, kind, parameters) {
    const party = clientAt(running, kind, NEWS);
    return { asked: undefined, party, answer: await party.password(ADA, parameters) };
  },
  async "a pushed request of partner"(running, kind, parameters) {
    const party = clientAt(running, kind, PARTNER);
    const { client_id, redirect_uri } = party;
    const form = { client_id, response_type: "code", redirect_uri, ...parameters };
    const { body } = await party.at("openid").post("/oauth2/par", form);
    const request_uri = String(body["request_uri"]);
    const { asked, code } = await allowing(party.browser(), party.authorizeUrl({ request_uri }));
    return { asked, party, answer: await party.exchange(code) };
  },
} as const satisfies Readonly<Record<string, Way>>;
