/** The parts of oidc-provider that it does not export. Only `patches.ts` imports them. */
declare module "oidc-provider/lib/helpers/validate_dpop.js" {
  import type { KoaContextWithOIDC, Provider } from "oidc-provider";

  interface VerifiedProof {
    readonly thumbprint: string;
  }
  /** @returns `undefined` without a proof, or when DPoP is off. @throws InvalidDpopProof */
  export default function validateDpop(
    provider: Provider,
    ctx: KoaContextWithOIDC,
  ): Promise<VerifiedProof | undefined>;
  /** Records the use of a proof. @throws InvalidGrant when it was used before. */
  export function checkDpopReplay(
    provider: Provider,
    ctx: KoaContextWithOIDC,
    proof: VerifiedProof | undefined,
    clientId: string,
  ): Promise<void>;
}
