/** What a sample is, and the person and the moment that all of them show. */
import type { AccountSettings } from "../../config/attributes.ts";
import { createPersonFields, type PersonFields } from "../../accounts/profile-fields.ts";
import type { AttributeValue } from "../../records/directory/directory.ts";
import type { ShownAttribute } from "../look/person-fields.ts";
import type { Page, Pages, Visit } from "../page.ts";
import type { UnregisteredClient } from "../steps/running-sign-in.ts";
import type { Problem } from "../steps/step.ts";

/** One page in one state. */
export interface Sample {
  /** The name of its picture, which no other sample has. */
  readonly name: string;
  readonly render: (pages: Pick<Pages, "render">, visit: Visit) => string;
}

/**
 * Every string of a sample that comes from outside goes through a function like this: names, addresses, paths, hidden
 * fields. The tests replace them by hostile text. Codes and choices of ours stay as they are.
 */
export type Text = (realistic: string) => string;

export const asItIs: Text = (realistic) => realistic;

/**
 * The states of a page.
 * @param named by the name of each state: what it changes in `data`.
 */
export function states<Data>(
  page: Page<Data>,
  data: NoInfer<Data>,
  named: Readonly<Record<string, Partial<NoInfer<Data>>>>,
): readonly Sample[] {
  return Object.entries(named).map(([name, changes]) => ({
    name,
    render: (pages, visit) => pages.render(page, visit, { ...data, ...changes }),
  }));
}

/** Something wrong, with a value for every placeholder that a text has. */
export const problem = (code: string, ...fields: string[]): Problem => ({
  code,
  fields,
  values: { retryAfter: 840, min: 8, max: 128, tries: 3 },
});

/** The fields of a person at a service with these languages, whose registration asks for all. */
export function sampleFields(
  locales: readonly string[],
  attributes: AccountSettings["attributes"] = {},
): PersonFields {
  const optional = { username: "optional", date_of_birth: "optional", gender: "optional" } as const;
  const fields = { name: "required", surname: "required", ...optional } as const;
  return createPersonFields({
    accounts: { attributes },
    interactions: { locales, reservedUsernames: [], registration: { fields } },
  });
}

/** What operators have set in Ada's account. */
export function sampleAttributes(text: Text): readonly ShownAttribute[] {
  const values = new Map<string, AttributeValue>([
    ["phone_number", text("+442079460958")],
    ["phone_number_verified", false],
    ["address", { street_address: text("12 St James’s Square"), locality: text("London"), country: "GB" }],
  ]);
  const { rows } = sampleFields(["en"], { phone_number: true, address: true });
  return rows.flatMap((row) => {
    const value = values.get(row.name);
    return value === undefined ? [] : [{ row, value }];
  });
}

/** The moment at which everything is shown, in milliseconds since the epoch. */
export const NOW: number = Date.UTC(2026, 8, 21, 14, 20);
export const MINUTE_MS = 60_000;

/** @returns seconds since the epoch. */
export const daysAgo = (days: number): number => NOW / 1000 - days * 86_400;

/** Ada's account. */
export const SUB = "5b8a2c0e-1111-4222-8333-444455556666";
export const ADA = "ada@example.com";
export const ACCOUNT_URL = "/account";

/** A name that needs two lines. */
export const LONG_NAME = "Wirtualna Czytelnia Naukowo-Techniczna";

const HALF = ["K7QM2-XTV4N", "2D9GH-W5RKC", "ZB8PT-3YN6J", "QX4VM-7HDC2", "5RTKW-G9JPN"];
export const RECOVERY_CODES: readonly string[] = [
  ...HALF,
  ...HALF.map((each) => each.split("").toReversed().join("")),
];

/** The key of an authenticator app, its address, and a picture as large as its QR code. Drawing a real one is asynchronous. */
export const APP = {
  key: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
  uri: "otpauth://totp/Example:ada?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Example",
  qrCode: `data:image/svg+xml,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 41 41"><path d="${Array.from(
      { length: 345 },
      (_, i) => `M${(i * 7) % 41} ${(i * i + i) % 41}h1v1z`,
    ).join("")}"/></svg>`,
  ).padEnd(3_880)}`,
} as const;

/** APIs that a client asks for. */
export const sampleApis = (text: Text) => [
  {
    identifier: text("https://articles.example/"),
    name: text("Articles"),
    scopes: [
      { name: text("articles:read"), label: text("Read your articles") },
      { name: text("articles:write"), label: text("Write and delete articles") },
    ],
  },
];

/** A client that nobody registered. */
export const sampleUnregistered = (
  text: Text,
  known: Pick<UnregisteredClient, "how" | "checked"> & Partial<UnregisteredClient>,
): UnregisteredClient => ({
  host: text("assistant.example.net"),
  path: text("/oauth/clients/research-helper/metadata.json"),
  name: text("Research helper"),
  ...known,
});

/** The app and passkeys of an account. */
export function sampleFactors(text: Text) {
  const added_at = daysAgo(200);
  return {
    app: { added_at, last_used_at: daysAgo(3), stopped: false },
    passkeys: [
      { id: text("1"), name: text("iPhone"), added_at, last_used_at: daysAgo(0.1), backed_up: true },
      {
        id: text("2"),
        name: text("Security key in the safe of the Analytical Society"),
        added_at: daysAgo(9),
        last_used_at: null,
        backed_up: false,
      },
    ] as const,
    recovery_codes_left: 9,
  };
}

/** Linked accounts: a new one, and one from a provider that is no longer configured. */
export function sampleIdentities(text: Text) {
  const identity = { issuer: text("https://id.example.com"), subject: text("1") };
  return [
    {
      ...identity,
      id: text("1"),
      provider: text("google"),
      email: text("a.lovelace@gmail.com"),
      linked_at: daysAgo(2),
      last_used_at: null,
    },
    {
      ...identity,
      id: text("2"),
      provider: text("library"),
      email: null,
      linked_at: daysAgo(300),
      last_used_at: daysAgo(1),
      registered: true,
    },
  ] as const;
}

export const NO_FACTORS = { app: null, passkeys: [], recovery_codes_left: 0 };
