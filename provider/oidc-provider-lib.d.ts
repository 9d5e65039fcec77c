/** The parts of oidc-provider that it does not export. Only `patches.ts` imports them. */
declare module "oidc-provider/lib/helpers/weak_cache.js" {
  import type { Provider } from "oidc-provider";

  interface Internals {
    /** Makes and checks the nonces of DPoP proofs. */
    DPoPNonces?: {
      checkChallenge(nonce: string): boolean;
      nextChallenge(): string | undefined;
    };
  }
  export default function instance(provider: Provider): Internals;
}
