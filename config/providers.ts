/** The key `providers`: where people can sign in besides here, such as Google or the directory of their company. */
import { createPrivateKey } from "node:crypto";
import { z } from "zod";
import { isObjectName } from "../core/untrusted-keys.ts";
import { described, flag, list, seconds, section, text } from "./documented-schema.ts";
import { checkLabel, type Found, type Label, LABEL_FORM, localLabel } from "./labels.ts";
import { nearestKey } from "./nearest-key.ts";
import type { Problem } from "./problems.ts";
import { isHostName, isLoopback, isPrintable, isServiceAddress, WEB_ADDRESS_FORM } from "./value-forms.ts";

const MAX_PROVIDERS = 30;
/** With `only`: for so long a person who has left the organization stays signed in. */
const ONE_DAY = 24 * 60 * 60;

interface Preset {
  readonly issuer?: string;
  readonly name?: string;
  readonly scopes: readonly string[];
  readonly trustsEmail: boolean;
}

/** What a provider has if its settings don't say otherwise. A provider whose key is a preset's has that preset. */
export const PRESETS = {
  openid: { scopes: ["openid", "email", "profile"], trustsEmail: false },
  google: {
    issuer: "https://accounts.google.com",
    name: "Google",
    scopes: ["openid", "email", "profile"],
    trustsEmail: true,
  },
  microsoft: {
    issuer: "https://login.microsoftonline.com/{tenantid}/v2.0",
    name: "Microsoft",
    scopes: ["openid", "email", "profile"],
    trustsEmail: false,
  },
  // Apple tells the name only once, and not in the ID token.
  apple: {
    issuer: "https://appleid.apple.com",
    name: "Apple",
    scopes: ["openid", "email"],
    trustsEmail: true,
  },
  github: {
    issuer: "https://github.com",
    name: "GitHub",
    scopes: ["read:user", "user:email"],
    trustsEmail: false,
  },
} as const satisfies Readonly<Record<string, Preset>>;

export type ProviderPreset = keyof typeof PRESETS;

const PRESET_NAMES = Object.keys(PRESETS) as [ProviderPreset, ...ProviderPreset[]];
const OWN_KEYS = PRESET_NAMES.filter((name) => name !== "openid");
/** The place of the tenant in the issuer of Microsoft. */
const TENANT = "{tenantid}";

const domain = text(
  253,
  (name) => isHostName(name) && !isObjectName(name),
  "a domain in lower case, such as `corp.example`",
);
const tenant = text(
  36,
  (id) => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/u.test(id),
  "the ID of a tenant: a UUID in lower case",
);
const scope = text(
  128,
  (name) => /^[\x21\x23-\x5b\x5d-\x7e]+$/u.test(name) && !isObjectName(name),
  "a scope, without spaces",
);
const appleId = text(
  10,
  (id) => /^[A-Z\d]{10}$/u.test(id),
  "10 letters and digits, as Apple's developer site shows it",
);
const credential = (form: string): z.ZodString =>
  text(
    1024,
    (value) => isPrintable(value) && !/\s/u.test(value),
    `${form} of 1 to 1024 characters, without spaces`,
  );

/** Apple signs with ES256, so its keys are on P-256. */
function isApplePrivateKey(pem: string): boolean {
  if (!/^\s*-----BEGIN PRIVATE KEY-----/u.test(pem)) return false;
  try {
    return createPrivateKey(pem).asymmetricKeyDetails?.namedCurve === "prime256v1";
  } catch {
    return false;
  }
}

const provider = section({
  /** What is known about it beforehand. Default: the key, if it is `google`, `microsoft`, `apple` or `github`; otherwise `openid`. */
  preset: described(z.enum(PRESET_NAMES).exactOptional(), {
    form: "`openid`, `google`, `microsoft`, `apple` or `github`",
    otherwise: "the key, if it is `google`, `microsoft`, `apple` or `github`; otherwise `openid`",
  }),
  /**
   * Its issuer, as its discovery document writes it. Of `microsoft`, with `{tenantid}` in place of the tenant. Default: that of the
   * preset; `openid`: required.
   */
  issuer: described(
    text(
      2048,
      (address) => isServiceAddress(address.replace(TENANT, "tenant")),
      `${WEB_ADDRESS_FORM}, without a query`,
    ).exactOptional(),
    { otherwise: "that of the preset; `openid`: required" },
  ),
  /** The client ID that the provider gave this service. */
  client_id: credential("a text"),
  /** The secret of this client. Default: required, except for `apple` and for a public client of an `openid` provider. */
  client_secret: described(credential("a text").exactOptional(), {
    otherwise: "required, except for `apple` and for a public client of an `openid` provider",
    holds: "secret",
  }),
  /** `apple`: the ID of the team. Default: none: required for `apple`. */
  team_id: described(appleId.exactOptional(), { otherwise: "none: required for `apple`" }),
  /** `apple`: the ID of the key. Default: none: required for `apple`. */
  key_id: described(appleId.exactOptional(), { otherwise: "none: required for `apple`" }),
  /** `apple`: the content of the key file, with which the service makes its client secrets. Default: none: required for `apple`. */
  private_key: described(
    text(
      4096,
      isApplePrivateKey,
      "a private key on P-256 in PEM form, as in Apple's `.p8` file",
    ).exactOptional(),
    { otherwise: "none: required for `apple`", holds: "secret" },
  ),
  /** What people call it. Default: that of the preset; `openid`: required. */
  name: described(localLabel.exactOptional(), {
    form: LABEL_FORM,
    otherwise: "that of the preset; `openid`: required",
  }),
  /** What the service asks for. Default: those of the preset: what tells the address and the name. */
  scopes: described(list(scope, 1).exactOptional(), {
    otherwise: "those of the preset: what tells the address and the name",
  }),
  /**
   * Whether an address counts as confirmed when the provider says so. Only for a provider that checks every address itself.
   * Default: `true` for `google` and `apple`, otherwise `false`.
   */
  trustsEmail: described(flag().exactOptional(), {
    otherwise: "`true` for `google` and `apple`, otherwise `false`",
  }),
  /** Whether a second factor that was shown there, at most five minutes ago, counts here. Default: `false`. */
  trustsMfa: described(flag().exactOptional(), { otherwise: "`false`" }),
  /** Whether people without an account can register with it. Default: `true`. */
  registration: described(flag().exactOptional(), { otherwise: "`true`" }),
  /** In production, whether the host of the issuer may be loopback or private. Default: `false`. */
  allowPrivate: described(flag().exactOptional(), { otherwise: "`false`" }),
  /**
   * The domains of addresses whose people it is offered to. Nobody with another address registers with it or links it. Default:
   * none: it is for everyone.
   */
  domains: described(list(domain, 1).exactOptional(), { otherwise: "none: it is for everyone" }),
  /** Whether accounts at its `domains` sign in there and by nothing else. Default: `false`. */
  only: described(flag().exactOptional(), { otherwise: "`false`" }),
  /** `google`: lets in only accounts of these Google Workspace domains. Default: all. */
  hd: described(list(domain, 1).exactOptional(), { otherwise: "all" }),
  /** `microsoft`: lets in only accounts of these tenants; `any`: of all tenants. Default: none: required for `microsoft`. */
  tenants: described(z.union([z.literal("any"), list(tenant, 1)]).exactOptional(), {
    form: "`any`, or a list of the IDs of tenants (UUIDs in lower case)",
    otherwise: "none: required for `microsoft`",
  }),
  /** With `only`: seconds after the sign-in when sessions and refresh tokens end. Default: 86400. */
  sessionMax: described(seconds().exactOptional(), { otherwise: "86400" }),
});

/** A provider as it is configured. */
export interface ProviderSettings extends z.output<typeof provider> {}

/** Its type has a name, because only so the comments of its keys reach the declarations of other files. */
export const providerSchema: z.ZodType<ProviderSettings, z.input<typeof provider>> = provider;

export interface ProvidersInput extends Readonly<Record<string, z.input<typeof provider>>> {}

/** Key of a provider → its settings. */
export const providers: z.ZodType<Readonly<Record<string, ProviderSettings>>, ProvidersInput> = z
  .record(z.string(), described(provider, { form: "an object that describes a provider" }))
  .readonly();

/** A provider with the defaults of its preset. */
export interface IdentityProvider {
  /** Its name in addresses and records: 1 to 32 of `a-z 0-9 -`, a letter first. */
  readonly key: string;
  readonly preset: ProviderPreset;
  /** Of its identities as well. Of Microsoft a template, with `{tenantid}` in place of the tenant. */
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret?: string;
  /** What the client secrets for Apple are made with. */
  readonly apple?: { readonly team_id: string; readonly key_id: string; readonly private_key: string };
  /** One text, or one for each language. */
  readonly name: Label;
  readonly scopes: readonly string[];
  readonly trustsEmail: boolean;
  readonly trustsMfa: boolean;
  readonly registration: boolean;
  readonly allowPrivate: boolean;
  /** In lower case. Empty: it is for everyone. */
  readonly domains: readonly string[];
  readonly only: boolean;
  readonly hd?: readonly string[];
  readonly tenants?: readonly string[] | "any";
  /** Seconds. Present with `only`. */
  readonly sessionMax?: number;
}

type Providers = Readonly<Record<string, ProviderSettings>>;

function presetOf(key: string, { preset }: Pick<ProviderSettings, "preset">): ProviderPreset {
  return preset ?? OWN_KEYS.find((name) => name === key) ?? "openid";
}

/** The providers of a configuration without problems, in its order. */
export function providersOf(configured: Providers): readonly IdentityProvider[] {
  return Object.entries(configured).map(([key, settings]) => withDefaults(key, settings));
}

function withDefaults(key: string, settings: ProviderSettings): IdentityProvider {
  const { team_id = "", key_id = "", private_key = "", ...given } = settings;
  const preset = presetOf(key, settings);
  return {
    issuer: "",
    name: key,
    trustsMfa: false,
    registration: true,
    allowPrivate: false,
    domains: [],
    only: false,
    ...(given.only === true && { sessionMax: ONE_DAY }),
    ...PRESETS[preset],
    ...given,
    key,
    preset,
    ...(preset === "apple" && { apple: { team_id, key_id, private_key } }),
  };
}

/** The keys that only some presets have. */
const KEYS_OF_PRESETS = {
  // There is one GitHub, and its endpoints are known.
  issuer: ["openid", "google", "microsoft", "apple"],
  client_secret: ["openid", "google", "microsoft", "github"],
  team_id: ["apple"],
  key_id: ["apple"],
  private_key: ["apple"],
  hd: ["google"],
  tenants: ["microsoft"],
  // GitHub has no ID token.
  trustsMfa: ["openid", "google", "microsoft", "apple"],
} as const satisfies Partial<Record<keyof ProviderSettings, readonly ProviderPreset[]>>;

/** The keys that a preset can't do without, and what they are. `client_id` is always required. */
const REQUIRED: Readonly<Record<ProviderPreset, Partial<Record<keyof ProviderSettings, string>>>> = {
  openid: { issuer: "the address of the provider", name: "what people call the provider" },
  google: { client_secret: "the secret of the client" },
  microsoft: {
    client_secret: "the value of the client secret",
    tenants: 'a list of the IDs of tenants, or `"any"` for everyone who has an account at Microsoft',
  },
  apple: {
    team_id: "the ID of the team",
    key_id: "the ID of the key",
    private_key: "the content of the key file",
  },
  github: { client_secret: "the secret of the client" },
};

function checkKey(key: string, found: Found): void {
  if (!/^[a-z][a-z0-9-]{0,31}$/u.test(key))
    found("is not a key for a provider: it has 1 to 32 of a-z 0-9 -, a letter first");
  else if (isObjectName(key)) found("must not have a name that every object has");
}

/** Which keys there are. */
function checkPresence(key: string, settings: ProviderSettings, found: Found): void {
  const preset = presetOf(key, settings);
  for (const [name, presets] of Object.entries(KEYS_OF_PRESETS))
    if (Object.hasOwn(settings, name) && !presets.some((each) => each === preset))
      found(`must be left out: it is only for the preset ${presets.join(", ")}`, name);
  const meant = nearestKey(key, OWN_KEYS, []);
  for (const [name, meaning] of Object.entries(REQUIRED[preset])) {
    if (Object.hasOwn(settings, name)) continue;
    const hint =
      name === "issuer" && meant?.close === true ? `; or should the key be \`${meant.path}\`?` : "";
    found(`is required: ${meaning}${hint}`, name);
  }
}

/** What the values mean together. */
function checkValues(settings: IdentityProvider, written: ProviderSettings, found: Found): void {
  const { preset, issuer, scopes, only, domains, tenants } = settings;
  if (written.issuer !== undefined && issuer.includes(TENANT) !== (preset === "microsoft"))
    found(
      preset === "microsoft"
        ? `must have \`${TENANT}\` in place of the tenant`
        : `must not have \`${TENANT}\`: only the preset microsoft does`,
      "issuer",
    );
  if (preset !== "github" && !scopes.includes("openid")) found("must have `openid`", "scopes");
  if (written.trustsEmail === true && tenants === "any")
    found(
      'must not be `true` with `tenants: "any"`: everyone can have a tenant and write any address there',
      "trustsEmail",
    );
  if (only && domains.length === 0) found("needs `domains`: whose accounts sign in only there", "only");
  if (!only && written.sessionMax !== undefined) found("needs `only: true`", "sessionMax");
}

/** What is wrong with providers, beyond the form of each key. */
export function providerProblems(
  configured: Providers,
  { locales, production }: { readonly locales: readonly string[]; readonly production: boolean },
): readonly Problem[] {
  const problems: Problem[] = [];
  const count = Object.keys(configured).length;
  if (count > MAX_PROVIDERS)
    problems.push({ path: ["providers"], text: `must have at most ${MAX_PROVIDERS} providers` });
  const clients = new Map<string, string>();
  const domains = new Map<string, string>();
  for (const [key, written] of Object.entries(configured).slice(0, MAX_PROVIDERS)) {
    const found: Found = (problem, ...inner) =>
      void problems.push({ path: ["providers", key, ...inner], text: problem });
    const settings = withDefaults(key, written);
    checkKey(key, found);
    checkPresence(key, written, found);
    checkLabel(written.name, locales, ["name"], found);
    checkValues(settings, written, found);
    const host = URL.parse(settings.issuer)?.hostname;
    if (production && host !== undefined && isLoopback(host) && !settings.allowPrivate)
      found("is on loopback, which needs `allowPrivate: true` in production", "issuer");
    // A line break is in neither of them.
    const client = `${settings.issuer}\n${settings.client_id}`;
    const twin = clients.get(client);
    if (twin !== undefined)
      found(`must not be a client of an issuer that config.providers.${twin} has as well`, "client_id");
    clients.set(client, twin ?? key);
    for (const name of settings.domains) {
      const other = domains.get(name);
      if (other === undefined) domains.set(name, key);
      else found(`must not have a domain that config.providers.${other} has as well`, "domains");
    }
  }
  return problems;
}
