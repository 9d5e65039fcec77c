/** The kinds of records for codes, tokens, grants, sessions and interactions, and their indexes. */
import type { RecordData, Ref } from "../../adapters/record-store.ts";
import { defineKind, type Kind, type KindDeclaration, type IndexPosition } from "../kinds.ts";
import type { Artifact, StoredArtifact } from "./artifact.ts";
import { artifactContext, type NamingState } from "./sealed-artifact.ts";

/** The value of an artifact's record: everything but its key, expiry and version. */
export type ArtifactValue = Omit<StoredArtifact, "model" | "key" | "expiresAt" | "version">;

type ArtifactIndex = "uid" | "account" | "client" | "holder";
type ArtifactKind = Kind<ArtifactValue, ArtifactIndex>;
type Declaration = KindDeclaration<ArtifactValue, ArtifactIndex>;

/** The model of the root of a family. */
export const GRANT = "Grant";

const whole = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : 0);

/** Ordered by the time of issue, if the library gives one. */
function at(name: string | undefined, { payload: { iat } }: ArtifactValue): IndexPosition[] {
  return name === undefined ? [] : [{ at: name, order: whole(iat) }];
}

const byAccount = (kept: ArtifactValue): IndexPosition[] => at(kept.accountId, kept);

/** The sessions of an account in the order of their last use. */
function byLastUse({ accountId, payload }: ArtifactValue): IndexPosition[] {
  const { use, iat } = payload as { readonly use?: { readonly at?: unknown }; readonly iat?: unknown };
  return accountId === undefined ? [] : [{ at: accountId, order: whole(use?.at ?? iat) }];
}

/** The grants that a client holds for an account, in the order of their last use. A code that waits is not held yet. */
function byHolder({ accountId, clientId, usedAt }: ArtifactValue): IndexPosition[] {
  if (accountId === undefined || clientId === undefined || usedAt === undefined) return [];
  return [{ at: [accountId, clientId], order: usedAt }];
}

/** The accounts that a running sign-in names: the one of the session, and the one whose owner has shown something. */
function byNamedAccount(kept: ArtifactValue): IndexPosition[] {
  const { session, result } = kept.payload as {
    readonly session?: { readonly accountId?: string };
    readonly result?: { readonly login?: { readonly accountId?: string } };
  };
  const { proven, codeFor } = (kept.state ?? {}) as NamingState;
  const all = [kept.accountId, session?.accountId, result?.login?.accountId, proven?.sub, codeFor];
  return [...new Set(all)].flatMap((sub) => at(sub, kept));
}

/** @param model as oidc-provider calls it: `AccessToken` is the kind `access-token`. */
function defineArtifact(
  model: string,
  parts: Pick<Declaration, "holds" | "personal"> & Partial<Declaration>,
): ArtifactKind {
  return defineKind({
    name: model.replaceAll(/(?!^)[A-Z]/g, "-$&").toLowerCase(),
    key: "the SHA-256 of what the client or browser holds",
    // A time of one store's clock means nothing in another store.
    carried: ({ spentAt: _spent, ...kept }) => kept,
    expires: "at its end, see `lifetimes` of the configuration",
    store: "artifacts",
    exported: true,
    afterRestore: "removed",
    ...parts,
  });
}

const grants = defineArtifact(GRANT, {
  holds: "what a client may do for an account: the root of a family of codes and tokens",
  personal: "the `sub`",
  index: { account: byAccount, client: (kept) => at(kept.clientId, kept), holder: byHolder },
  indexFor: {
    account: "revoking the tokens of an account",
    client: "removing a client",
    holder: "`limits.grants`, and the connected devices of an account",
  },
});

/** Codes and tokens have the grant as their parent, and no index. */
const family: Pick<Declaration, "parent" | "personal"> = {
  parent: { kind: grants, key: ({ grantKey }) => grantKey },
  personal: "the `sub`",
};

/** What `sealed-artifact.ts` seals. */
function sealedParts(model: string): Pick<Declaration, "sealed"> {
  return {
    sealed: ({ sealed, ...rest }, replace, key) => ({
      ...rest,
      ...(sealed !== undefined && { sealed: replace(artifactContext(model, key), sealed) }),
    }),
  };
}

const BY_MODEL: Readonly<Record<string, ArtifactKind>> = {
  [GRANT]: grants,
  Session: defineArtifact("Session", {
    holds: "a browser in which an end user is signed in",
    personal:
      "the `sub`, the time of the sign-in; time, shortened address, browser and system of the last use",
    index: { uid: (kept) => at(kept.uid, kept), account: byLastUse },
    indexFor: {
      uid: "finding the session of a running sign-in",
      account: "ending the sessions of an account, `limits.sessions`, and their list on its pages",
    },
  }),
  Interaction: defineArtifact("Interaction", {
    holds: "a running sign-in",
    personal:
      "the `sub`, a digest of the browser's cookie; sealed with `keys.secrets`: the parameters of the request, and what the person has entered",
    ...sealedParts("Interaction"),
    index: { account: byNamedAccount },
    indexFor: { account: "removing what names a deleted account" },
  }),
  AuthorizationCode: defineArtifact("AuthorizationCode", { holds: "an authorization code", ...family }),
  DeviceCode: defineArtifact("DeviceCode", {
    holds: "a device that waits for a person to type its code",
    ...family,
    personal: "the shortened address of the device; once it is connected, the `sub`",
    index: { uid: (kept) => at(kept.uid, kept) },
    indexFor: { uid: "finding the device whose code a person types" },
  }),
  AccessToken: defineArtifact("AccessToken", { holds: "an access token", ...family }),
  RefreshToken: defineArtifact("RefreshToken", {
    holds: "a refresh token; for a short time after its use, with the sealed response",
    ...family,
  }),
  ClientCredentials: defineArtifact("ClientCredentials", {
    holds: "an access token of a `machine` client",
    personal: undefined,
  }),
  PushedAuthorizationRequest: defineArtifact("PushedAuthorizationRequest", {
    holds: "the parameters of a pushed request",
    personal: "a `login_hint`, if the client sent one; sealed with `keys.secrets`",
    ...sealedParts("PushedAuthorizationRequest"),
  }),
  ReplayDetection: defineArtifact("ReplayDetection", {
    holds: "an assertion or a proof that was used",
    afterRestore: "kept",
    personal: undefined,
  }),
};

/** All kinds of artifacts. */
export const ARTIFACTS: readonly ArtifactKind[] = Object.values(BY_MODEL);

const KINDS: ReadonlyMap<string, ArtifactKind> = new Map(Object.entries(BY_MODEL));

/** @throws TypeError for a model that is not stored. */
export function artifactKind(model: string): ArtifactKind {
  const kind = KINDS.get(model);
  if (kind === undefined) throw new TypeError(`no kind is declared for the model ${model}`);
  return kind;
}

export const artifactRef = (model: string, key: string): Ref => artifactKind(model).ref(key);

/** The record of an artifact. */
export function artifactRecord(artifact: Artifact & Partial<StoredArtifact>): RecordData {
  const { model, key, expiresAt, version: _version, ...kept } = artifact;
  return artifactKind(model).record(kept, { key, expiresAt });
}
