/** DPoP (RFC 9449): who proves the possession of a key, and which proofs count (decisions.md, High-security clients). */
import type { KeyObject } from "node:crypto";
import { type Client, errors, type KoaContextWithOIDC } from "oidc-provider";
import type { ClientInternals } from "../../accounts/clients/client.ts";
import type { Configuration } from "../../config/configuration.ts";
import type * as ProofModule from "../../core/dpop-proof.ts";
import { hmac, isEqual } from "../../core/sealing.ts";
import type { ServiceEmitter } from "../../core/events.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import { type Exchange, exchangeOf } from "../exchange.ts";
import { clientRecord } from "../clients.ts";

const NONCE_SECONDS = 180;
/** The clocks of processes differ. */
const NONCE_AHEAD_SECONDS = 10;

/** A proof is dead before its `jti` is forgotten, with and without a nonce. */
const JTI_SECONDS = 300;

/** All clients are read again after this. */
const MAX_AGE_MS = 5_000;

export interface Proofs {
  /** Whether the client may prove its key. @param client left out: any client. */
  isOn(client: ClientRecord | undefined): boolean;
  /** Whether discovery has it: it is on for everybody, or some client needs it. */
  isOffered(): Promise<boolean>;
  /**
   * Checks the proof of a request, which oidc-provider sees only then.
   * @param token the access token that comes with it.
   * @throws InvalidDpopProof or UseDpopNonce
   */
  check(exchange: Exchange, method: string, token?: string): Promise<ProofModule.Proof>;
  /** The same at the token endpoint, within oidc-provider, before anything is looked up. @throws InvalidGrant without a proof that is needed */
  checkTokenRequest(ctx: KoaContextWithOIDC): Promise<void>;
  /** A value that proofs may have for three minutes. All processes know it. */
  nextNonce(): string;
}

export function createProofs({
  configuration,
  clients,
  events,
  key,
}: {
  readonly configuration: Pick<Configuration, "features" | "profile" | "clock">;
  readonly clients: Pick<ClientInternals, "kindOf" | "allRecords">;
  readonly events: Pick<ServiceEmitter, "on">;
  readonly key: KeyObject;
}): Proofs {
  const { features, profile, clock } = configuration;
  const now = (): number => Math.floor(clock.now() / 1000);
  const nonceOf = (time: string): string => `${time}.${hmac(key, `nonce ${time}`).slice(0, 22)}`;
  let checking: Promise<Pick<typeof ProofModule, "checkProof">> | undefined;
  let known: { readonly since: number; readonly isNeeded: Promise<boolean> } | undefined;
  events.on("client.changed", () => (known = undefined));

  /** With `profile: strict`, applications of people can't keep a token that is worth stealing. */
  const isRequired = (client: ClientRecord): boolean =>
    client.dpop === "required" ||
    (profile === "strict" && clients.kindOf(client).addresses === "application");

  const isOn = (client: ClientRecord | undefined): boolean =>
    features.dpop || (client !== undefined && isRequired(client));

  function isNonce(nonce: string): boolean {
    const [time = ""] = nonce.split(".", 1);
    if (!/^\d{1,12}$/.test(time) || !isEqual(nonceOf(time), nonce)) return false;
    const age = now() - Number(time);
    return age <= NONCE_SECONDS && age >= -NONCE_AHEAD_SECONDS;
  }

  const rules: ProofModule.ProofRules = {
    keys: new Map(),
    isNonce,
    refused: (what) => new errors.InvalidDpopProof(`the DPoP proof is refused: ${what}`),
    nonceNeeded: (what) => new errors.UseDpopNonce(what),
    tooDeep: (what) => new errors.InvalidRequest(what),
  };

  async function check(
    exchange: Exchange,
    { method, token, needsNonce }: { method: string; token?: string | undefined; needsNonce: boolean },
  ): Promise<ProofModule.Proof> {
    const { deployment, path, proof } = exchange;
    const { checkProof } = await (checking ??= import("../../core/dpop-proof.ts"));
    const address = deployment.url + path;
    proof.checked = checkProof(proof.sent, { method, address, token, needsNonce }, rules);
    return proof.checked;
  }

  return {
    isOn,
    async isOffered() {
      if (features.dpop) return true;
      const since = performance.now();
      if (known === undefined || since - known.since > MAX_AGE_MS) {
        const before = known?.isNeeded ?? false;
        const isNeeded = clients
          .allRecords()
          .then((all) => all.some((client) => !client.disabled && isRequired(client)))
          // The document is there while the storage is not. A client that needs DPoP knows it without the document.
          .catch(() => before);
        known = { since, isNeeded };
      }
      return known.isNeeded;
    },
    check: (exchange, method, token) => check(exchange, { method, token, needsNonce: false }),
    async checkTokenRequest(ctx) {
      const exchange = exchangeOf(ctx);
      const client = clientRecord(ctx.oidc.client as Client);
      if (!isOn(client)) return;
      const { sent } = exchange.proof;
      const needsNonce = isRequired(client);
      if (sent !== "") {
        const { nonce } = await check(exchange, { method: ctx.method, needsNonce });
        ctx.req.headers["dpop"] = sent;
        if (nonce !== undefined) ctx.set("DPoP-Nonce", nonceOf(String(now())));
      } else if (needsNonce) throw new errors.InvalidGrant("the request needs a DPoP proof");
    },
    nextNonce: () => nonceOf(String(now())),
  };
}

/** The part of the model that remembers what was used. */
interface ReplayDetection {
  unique(iss: string, jti: string, exp: number): Promise<boolean>;
}

/**
 * Uses the proof of a token request before the grant is used up: one that was used, or is made with another key, spends no code
 * and no refresh token, and ends nothing. The commit of the request inserts its `jti`.
 * @param boundTo the thumbprint of the key that the code or token is bound to.
 * @returns the thumbprint of the proof's key; `undefined` without a proof.
 */
export async function requireProof(ctx: KoaContextWithOIDC, boundTo: unknown): Promise<string | undefined> {
  const { provider, client } = ctx.oidc;
  const { checked } = exchangeOf(ctx).proof;
  if (boundTo !== undefined && checked?.thumbprint !== boundTo)
    throw new errors.InvalidGrant("the request needs a DPoP proof with the key that the grant is bound to");
  if (checked === undefined) return undefined;
  const { ReplayDetection: used } = provider as unknown as { readonly ReplayDetection: ReplayDetection };
  const until = Math.floor(Date.now() / 1000) + JTI_SECONDS;
  if (!(await used.unique(client?.clientId ?? "", checked.jti, until)))
    throw new errors.InvalidGrant("the DPoP proof was used before");
  return checked.thumbprint;
}
