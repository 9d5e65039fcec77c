/** The authorization code grant: simultaneous exchanges of one code are a tie; a later exchange is a replay. */
import type { ServerResponse } from "node:http";
import { errors } from "oidc-provider";
import { artifactKey } from "../adapter.ts";
import type { GrantHandler } from "../apis.ts";
import { requireProof } from "../assertions.ts";
import type { UnitsOfWork } from "../unit-of-work.ts";
import type { ArtifactStore } from "../../records/artifacts/artifact-store.ts";
import type { Artifact, StoredArtifact } from "../../records/artifacts/artifact.ts";
import { type Clock, monotonic } from "../../core/clock.ts";

/** Finds the API that a token request is for. */
export interface ChooseApi {
  choose(ctx: Parameters<GrantHandler>[0], source: Artifact): Promise<void>;
}

/** Keeps the grant of a code that is being exchanged. */
export interface KeepGrant {
  keepGrant(ctx: Parameters<GrantHandler>[0], grantKey: string | undefined): void;
}

export interface CodeExchanges {
  /**
   * Begins an exchange that has found its code and will be answered through `res`.
   * @param underWaySince when the request may have begun, on the clock of these exchanges.
   * @returns whether the exchange that consumed the code was still in flight when this one began.
   */
  begin(code: Artifact, res: ServerResponse, underWaySince: number): Promise<boolean>;
  /** An exchange of this process has used the code: a replay here is known without the store. */
  used(code: Pick<Artifact, "key">): void;
}

/** Exchanges of one code in this process, each of which began before the previous one was answered. */
interface Burst {
  readonly begunAt: number;
  /** How many of them have no response yet. */
  pending: number;
  /** When the last response was sent. */
  idleSince: number;
  /** Whether one of them has used the code. */
  hasUsed: boolean;
  readonly isTie: Promise<boolean>;
}

/** No request takes longer than five seconds, so a later one can't overlap the first exchange of a burst. */
const MAX_BURST_MS = 5_000;
/** A burst is remembered until the store knows that it was answered. */
const REMEMBERED_MS = 6_000;

/**
 * Tells ties from replays (docs/decisions/0005-parallel-use-and-replay-of-a-code.md). The first exchange of a burst decides for
 * all of it: it is a tie if it found the code unconsumed, or began before the exchange that consumed the code was
 * answered. Both times are elapsed times, one of this process and one of the store, so the clocks of two processes are
 * never compared.
 * @param clock a monotonic clock.
 */
export function createCodeExchanges(store: Pick<ArtifactStore, "sinceAnswer">, clock: Clock): CodeExchanges {
  /** By the key of the code, oldest first. */
  const bursts = new Map<string, Burst>();

  function forgetOld(now: number): void {
    for (const [key, { begunAt }] of bursts) {
      if (begunAt > now - REMEMBERED_MS) return;
      bursts.delete(key);
    }
  }

  async function beganInTime({ model, key, consumedAt }: Artifact, underWaySince: number): Promise<boolean> {
    if (consumedAt === undefined) return true;
    // Measured before the store reads its clock, so it is too short rather than too long: when in doubt, it is a
    // replay.
    const elapsed = clock.now() - underWaySince;
    const sinceAnswer = await store.sinceAnswer(model, key);
    return sinceAnswer !== undefined && elapsed >= sinceAnswer;
  }

  /** The burst that this exchange belongs to. */
  function burstOf(code: Artifact, underWaySince: number): Burst {
    const now = clock.now();
    forgetOld(now);
    const last = bursts.get(code.key);
    const isRunning = last !== undefined && last.begunAt > now - MAX_BURST_MS;
    if (isRunning && (last.pending > 0 || underWaySince <= last.idleSince)) return last;
    const isTie = last?.hasUsed ? Promise.resolve(false) : beganInTime(code, underWaySince);
    const burst = { begunAt: now, pending: 0, idleSince: now, hasUsed: last?.hasUsed ?? false, isTie };
    bursts.delete(code.key);
    bursts.set(code.key, burst);
    // After a storage fault, the next exchange decides again.
    isTie.catch(() => bursts.get(code.key) === burst && bursts.delete(code.key));
    return burst;
  }

  return {
    begin(code, res, underWaySince) {
      const burst = burstOf(code, underWaySince);
      const answered = (): void => {
        burst.pending -= 1;
        burst.idleSince = clock.now();
      };
      burst.pending += 1;
      // "close" is not emitted again for a client that has already hung up.
      if (res.closed) answered();
      else res.once("close", answered);
      return burst.isTie;
    },
    used({ key }) {
      const burst = bursts.get(key);
      if (burst !== undefined) burst.hasUsed = true;
    },
  };
}

/**
 * Of several simultaneous exchanges one gets the tokens; the others fail without ending anything. A later exchange is a
 * replay, which oidc-provider answers by revoking the family.
 * @param original oidc-provider's handler.
 */
export function codeGrant(
  original: GrantHandler,
  artifacts: ArtifactStore,
  units: UnitsOfWork,
  apis: ChooseApi,
  grants: KeepGrant,
): GrantHandler {
  const exchanges = createCodeExchanges(artifacts, monotonic);

  /** Lets other processes see soon that the code was used. Until then, an exchange there counts as simultaneous. */
  function markAnswered(code: StoredArtifact | undefined): void {
    if (code === undefined) return;
    exchanges.used(code);
    // Without the mark the code counts as answered five seconds after its use.
    artifacts.markAnswered(code).catch(() => undefined);
  }

  return async (ctx) => {
    const unit = units.required();
    const { code } = ctx.oidc.params;
    const found = code === undefined ? undefined : await unit.find("AuthorizationCode", artifactKey(code));
    if (found === undefined || found.clientId !== ctx.oidc.client.clientId) return original(ctx);
    const isTie = await exchanges.begin(found, ctx.res, unit.underWaySince).catch((error: unknown) => {
      unit.failure ??= error;
      throw error;
    });
    if (isTie && found.consumedAt !== undefined) {
      throw new errors.InvalidGrant("authorization code already consumed");
    }
    await requireProof(ctx, found.payload["dpopJkt"]);
    if (found.consumedAt === undefined) await apis.choose(ctx, found);
    await original(ctx);
    grants.keepGrant(ctx, found.grantKey);
    unit.whenCommitted(markAnswered);
  };
}
