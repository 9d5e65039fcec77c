/** One provider: its documents, which are kept, and the settings with which openid-client talks to it. */
import type * as OpenIdClient from "openid-client";
import type { IdentityProvider } from "../config/providers.ts";
import { isUrl } from "../config/value-forms.ts";
import { type Clock, clockOfDurations, seconds } from "../core/clock.ts";
import { isObject, isTooDeep } from "../core/untrusted-json.ts";
import { createKeptDocument, DISCOVERY, type KeptDocument, KEYS } from "./documents.ts";
import { UpstreamFault } from "./faults.ts";
import { createOutgoing, type Outgoing, type OutgoingSettings } from "./outgoing.ts";
import { PRESETS } from "./presets.ts";

/** What one exchange with a provider uses. */
export interface Exchange {
  readonly provider: IdentityProvider;
  readonly client: typeof OpenIdClient;
  readonly settings: OpenIdClient.Configuration;
  /** Whether it has ID tokens. */
  readonly isOpenId: boolean;
  /** The public keys that its ID tokens are checked with. */
  readonly keys: () => readonly Readonly<Record<string, unknown>>[];
}

/** What is done in one exchange. @param signal ends every request. */
export type Work<T> = (exchange: Exchange, signal: AbortSignal) => Promise<T>;

export interface Connection {
  readonly provider: IdentityProvider;
  /** That of the discovery document, if the provider has one. */
  readonly address: string | undefined;
  /** The discovery document as it is now, unchecked. */
  readonly discover: () => Promise<Document>;
  /** One request, where requests to the provider may go. */
  readonly send: Outgoing["send"];
  /** @param signal ends every request of the exchange. */
  open(signal: AbortSignal): Promise<Exchange>;
  close(): void;
}

/** JSON of a provider. */
export type Document = Readonly<Record<string, unknown>>;

/** Seconds by which the clocks of a provider and of this process may differ. */
const TOLERANCE_SECONDS = 60;

/** openid-client asks for keys again when those that it has are older than a minute, and lack one. */
const MINUTE_SECONDS = 60;

/** The address of a discovery document (OpenID Connect Discovery 1.0 section 4). */
function discoveryAddress(base: string): string {
  return `${base.replace(/\/$/, "")}/.well-known/openid-configuration`;
}

/** Algorithms of ID tokens that prove who signed: neither `none`, nor those of a shared secret. */
export function provingAlgorithms({ id_token_signing_alg_values_supported: listed }: Document): string[] {
  const all: unknown[] = Array.isArray(listed) ? listed : ["RS256"];
  return all.filter((each): each is string => typeof each === "string" && !/^(?:none$|HS)/i.test(each));
}

const ENDPOINTS = ["authorization_endpoint", "token_endpoint", "jwks_uri"] as const;

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** What counts of a discovery document. @throws UpstreamFault if it is not that of the provider. */
function metadataOf(provider: IdentityProvider, document: Document): OpenIdClient.ServerMetadata {
  const issuer = PRESETS[provider.preset].issuer?.(provider) ?? provider.issuer;
  if (document["issuer"] !== issuer) throw new UpstreamFault("lied", "discovery issuer");
  for (const name of ENDPOINTS)
    if (!isUrl(textOf(document[name]) ?? "", /^https?:$/u))
      throw new UpstreamFault("lied", `discovery ${name}`);
  const { token_endpoint_auth_methods_supported: methods } = document;
  const optional = {
    userinfo_endpoint: textOf(document["userinfo_endpoint"]),
    token_endpoint_auth_methods_supported: Array.isArray(methods) ? methods.map(String) : undefined,
  };
  return {
    issuer,
    ...(Object.fromEntries(ENDPOINTS.map((name) => [name, document[name]])) as Record<string, string>),
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    id_token_signing_alg_values_supported: provingAlgorithms(document),
    authorization_response_iss_parameter_supported:
      document["authorization_response_iss_parameter_supported"] === true,
    claims_parameter_supported: document["claims_parameter_supported"] === true,
  };
}

function checkKeys({ keys }: Document): { readonly keys: Record<string, string>[] } {
  if (!Array.isArray(keys) || !keys.every(isObject)) throw new UpstreamFault("lied", "keys");
  return { keys: keys as Record<string, string>[] };
}

/** The parameters `client_id` and `client_secret`, or the header if the provider takes nothing else. */
function authenticationOf(
  client: typeof OpenIdClient,
  secret: string | undefined,
  { token_endpoint_auth_methods_supported: methods = ["client_secret_basic"] }: OpenIdClient.ServerMetadata,
): OpenIdClient.ClientAuth {
  if (secret === undefined) return client.None();
  return methods.includes("client_secret_post")
    ? client.ClientSecretPost(secret)
    : client.ClientSecretBasic(secret);
}

export function createConnection(
  provider: IdentityProvider,
  given: OutgoingSettings,
  clock: Clock,
  timeoutMs: number,
): Connection {
  const outgoing = createOutgoing(provider, given);
  const preset = PRESETS[provider.preset];
  const base = preset.discovery?.(provider);
  const address = base && discoveryAddress(base);
  const durations = clockOfDurations(clock);
  const closing = new AbortController();

  /** A document that several exchanges wait for ends with none of them, and before the first of them gives up. */
  async function load<T>(url: string, read: (document: Document) => T): Promise<T> {
    const stop = new AbortController();
    const end = (): void => stop.abort(new UpstreamFault("slow", "timeout"));
    const timer = setTimeout(end, timeoutMs / 2);
    closing.signal.addEventListener("abort", end);
    try {
      return read(
        await readDocument(
          await outgoing.send(url, { headers: { accept: "application/json" } }, stop.signal),
        ),
      );
    } finally {
      clearTimeout(timer);
      closing.signal.removeEventListener("abort", end);
    }
  }

  const discovery = createKeptDocument(
    () => load(address ?? "", (document) => metadataOf(provider, document)),
    DISCOVERY,
    durations,
  );
  let keys: { readonly url: string; readonly kept: KeptDocument<ReturnType<typeof checkKeys>> } | undefined;

  /** Another address has other keys. */
  function keysAt(url: string): KeptDocument<ReturnType<typeof checkKeys>> {
    if (keys?.url !== url)
      keys = { url, kept: createKeptDocument(() => load(url, checkKeys), KEYS, durations) };
    return keys.kept;
  }

  return {
    provider,
    address,
    send: outgoing.send,
    discover: () => load(address ?? "", (document) => document),
    async open(signal) {
      const client = await import("openid-client");
      const metadata = preset.metadata ?? (await discovery.read());
      const jwks = metadata.jwks_uri;
      const now = seconds(clock);
      const secret = preset.secret === undefined ? provider.client_secret : preset.secret(provider, now);
      const own: OpenIdClient.ClientMetadata = {
        client_id: provider.client_id,
        [client.clockSkew]: now - Math.floor(Date.now() / 1000),
        [client.clockTolerance]: TOLERANCE_SECONDS,
      };
      const authentication = authenticationOf(client, secret, metadata);
      // openid-client knows what is special about Microsoft's issuer only if it discovers the provider itself.
      const settings =
        base === undefined
          ? new client.Configuration(metadata, provider.client_id, own, authentication)
          : await client.discovery(new URL(base), provider.client_id, own, authentication, {
              [client.customFetch]: async () => Response.json(metadata),
              execute: [client.allowInsecureRequests],
            });
      // `outgoing.ts` decides what may go without TLS, and the signal ends everything in time.
      client.allowInsecureRequests(settings);
      settings.timeout = 0;
      settings[client.customFetch] = async (url, init) => {
        if (url === jwks) return Response.json(await keysAt(url).renew());
        const response = await outgoing.send(url, init as RequestInit, signal);
        return preset.repair?.(response) ?? response;
      };
      if (jwks !== undefined) {
        client.enableNonRepudiationChecks(settings);
        const kept = keysAt(jwks).current();
        if (kept !== undefined)
          client.setJwksCache(settings, { jwks: kept, uat: Math.floor(Date.now() / 1000) - MINUTE_SECONDS });
      }
      return {
        provider,
        client,
        settings,
        isOpenId: jwks !== undefined,
        keys: () => keys?.kept.current()?.keys ?? [],
      };
    },
    close() {
      closing.abort();
      outgoing.close();
    },
  };
}

/** JSON of moderate depth, with status 200. */
async function readDocument(response: Response): Promise<Document> {
  if (response.status !== 200)
    throw new UpstreamFault(response.status >= 400 ? "refused" : "lied", `status_${response.status}`);
  let document: unknown;
  try {
    document = JSON.parse(await response.text());
  } catch {
    throw new UpstreamFault("lied", "not_json");
  }
  if (!isObject(document) || isTooDeep(document)) throw new UpstreamFault("lied", "not_json");
  return document;
}
