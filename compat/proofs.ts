/** DPoP proofs outside the token endpoint: pushed requests, and requests with an access token (RFC 9449 section 7). */
import { errors } from "oidc-provider";
import { noteFailure } from "../accounts/limits/attempt-limits.ts";
import { artifactKey, isPresentable } from "../provider/adapter.ts";
import { callerOf } from "../provider/exchange.ts";
import { PROOF_ALGORITHMS } from "../core/client-keys.ts";
import type { ProviderServices } from "../provider/services.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import { queryFields } from "./form-fields.ts";

/** The error for a proof that is wrong in any way. A missing or a repeated one has others. */
const WRONG_PROOF = "invalid_dpop_proof";
const NEEDS_NONCE = "use_dpop_nonce";

/** RFC 9449 section 7.1; like {@link BEARER} of `userinfo.ts`. */
const DPOP = /^dpop +([A-Za-z0-9._~+/-]{1,8000}=*) *$/i;

/** The access token of a request with the scheme `DPoP`. */
export const boundToken = (authorization = ""): string | undefined => DPOP.exec(authorization)?.[1];

/** The challenge of an endpoint that takes access tokens (RFC 9449 section 7.1). */
export const proofChallenge = (realm: string, error: string): string =>
  `DPoP ${realm}, error="${error}", algs="${PROOF_ALGORITHMS.join(" ")}"`;

/** Whether a request has a proof, or a token that needs one. It is answered as the standards say, whatever its client wants. */
export const hasProof = ({ ctx, proof }: EndpointExchange): boolean =>
  proof.sent !== "" || /^dpop(?: |$)/i.test(ctx.req.headers.authorization ?? "");

/** Adds a nonce to the refusal that asks for one, and counts a wrong proof, of which only wrong ones are told to wait. */
export async function refusedProof(
  exchange: EndpointExchange,
  { status, error, message, retryAfter }: EndpointError,
  { limits, audit, proofs }: Pick<ProviderServices, "limits" | "audit" | "proofs">,
): Promise<EndpointError> {
  if (error === NEEDS_NONCE) return new EndpointError(status, error, message, { nonce: proofs.nextNonce() });
  const { ctx, client, address } = exchange;
  let wait = retryAfter ?? 0;
  if (error === WRONG_PROOF) {
    const attempt = await limits.wrongProof(address);
    const subject = client === undefined ? {} : { subject: client.client_id };
    const event = { ...callerOf(ctx, ANONYMOUS), action: "client.authentication", ...subject } as const;
    noteFailure(audit, { ...event, reason: "proof" }, attempt);
    if (!attempt.allowed) wait = attempt.retryAfter;
  }
  return new EndpointError(status, error, message, wait === 0 ? {} : { retryAfter: wait });
}

export interface ProofChecks {
  /** Checks the proof of a pushed request, if it has one: it binds the code. */
  pushed(exchange: EndpointExchange): Promise<void>;
  /** Requires a proof with the key of the access token that it comes with. @returns the thumbprint of its key */
  ofToken(exchange: EndpointExchange, token: string): Promise<string>;
  /** The same in front of oidc-provider's userinfo. @returns the header `Authorization` for it; `undefined` for that of the request */
  atUserinfo(exchange: EndpointExchange): Promise<string | undefined>;
  /** Whether a request revokes the token in its header, with a proof of a client that may send one. */
  revokes(exchange: EndpointExchange): Promise<boolean>;
}

export function createProofChecks(
  services: Pick<ProviderServices, "clients" | "limits" | "audit" | "proofs" | "units">,
): ProofChecks {
  const { clients, proofs, units } = services;

  async function check(exchange: EndpointExchange, token?: string): Promise<string> {
    const { ctx } = exchange;
    try {
      const { thumbprint, nonce } = await proofs.check(exchange, ctx.method, token);
      if (nonce !== undefined) ctx.set("DPoP-Nonce", proofs.nextNonce());
      return thumbprint;
    } catch (error) {
      if (!(error instanceof errors.OIDCProviderError)) throw error;
      const { error: code, error_description: description = "" } = error;
      throw await refusedProof(exchange, new EndpointError(400, code, description), services);
    }
  }

  return {
    async pushed(exchange) {
      if (exchange.proof.sent !== "" && proofs.isOn(exchange.client)) await check(exchange);
    },
    ofToken(exchange, token) {
      if (exchange.proof.sent === "") throw invalidRequest("the DPoP header is missing");
      return check(exchange, token);
    },
    async atUserinfo(exchange) {
      if (!hasProof(exchange)) return undefined;
      const token = boundToken(exchange.ctx.req.headers.authorization);
      const found =
        token !== undefined && isPresentable(token)
          ? await units.required().find("AccessToken", artifactKey(token))
          : undefined;
      if (found?.clientId !== undefined) exchange.client = await clients.record(found.clientId);
      if (token === undefined) return undefined;
      if (!proofs.isOn(exchange.client))
        throw invalidRequest("the Authorization header must have the scheme Bearer");
      if (exchange.proof.sent === "") throw invalidRequest("the DPoP header is missing");
      if ((await check(exchange, token)) !== found?.payload["jkt"])
        throw badRequest("invalid_token", "the access token is not valid");
      exchange.proof.token = found.key;
      return `Bearer ${token}`;
    },
    async revokes({ ctx }) {
      const [id, ...others] = queryFields(ctx.querystring).all("client_id");
      if (boundToken(ctx.req.headers.authorization) === undefined || !id || others.length > 0) return false;
      return proofs.isOn(await clients.record(id));
    },
  };
}
