/** The authorization code grant: exchanges of one code that are in flight together, and its replay. */
import { errors } from "oidc-provider";
import { clientRecord } from "../clients.ts";
import type { ArtifactStore } from "../../records/artifacts/artifact-store.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { artifactKey } from "../adapter.ts";
import type { ApiTokens, GrantHandler } from "../apis.ts";
import { requireProof } from "../proofs/proofs.ts";
import type { Unit, UnitsOfWork } from "../unit-of-work.ts";
import type { RefreshTokens } from "./refresh-tokens.ts";

/**
 * A client that sends an exchange twice must not lose its tokens, and its requests may reach two processes: exchanges
 * within this time of the first are in flight together (docs/decisions/0005-parallel-use-and-replay-of-a-code.md).
 */
const TOGETHER_MS = 1_000;

/**
 * Of several simultaneous exchanges one gets the tokens; the others fail without ending anything. A later exchange is a
 * replay, which oidc-provider answers by revoking the family.
 * @param original oidc-provider's handler.
 */
export function codeGrant(
  original: GrantHandler,
  artifacts: Pick<ArtifactStore, "clock">,
  units: UnitsOfWork,
  apis: Pick<ApiTokens, "choose">,
  refreshTokens: Pick<RefreshTokens, "keepGrant">,
): GrantHandler {
  /** The time in this process is not the code's: a request may have waited here while the first was answered. */
  async function isInFlight({ spentAt }: Artifact, unit: Unit): Promise<boolean> {
    if (spentAt === undefined) return false;
    const waited = performance.now() - unit.receivedAt;
    return (await artifacts.clock()).earliest() - waited - spentAt <= TOGETHER_MS;
  }

  return async (ctx) => {
    const unit = units.required();
    const { code } = ctx.oidc.params;
    const found = code === undefined ? undefined : await unit.find("AuthorizationCode", artifactKey(code));
    if (found === undefined || found.clientId !== clientRecord(ctx.oidc.client).client_id)
      return original(ctx);
    if (found.consumedAt !== undefined) {
      const isTie = await isInFlight(found, unit).catch((error: unknown) => {
        unit.failure ??= error;
        throw error;
      });
      if (isTie) throw new errors.InvalidGrant("authorization code already consumed");
    }
    await requireProof(ctx, found.payload["dpopJkt"]);
    if (found.consumedAt === undefined) await apis.choose(ctx, found);
    await original(ctx);
    refreshTokens.keepGrant(ctx, found.grantKey);
  };
}
