/**
 * Names, addresses and what people have entered are sealed in artifacts, so that the store of artifacts, which may be a Redis without a
 * disk of its own, holds none of them in plain text.
 */
import { SignInError } from "../../core/errors.ts";
import type { Sealer } from "../../core/sealing.ts";
import type { Artifact, Payload, StoredArtifact } from "./artifact.ts";

/** Seals and opens. */
export type ArtifactSealer = Pick<Sealer, "seal" | "open">;

/** The members of the payload that hold text of people or clients, by the model. Its `state` is sealed as well. */
const PERSONAL: ReadonlyMap<string, readonly string[]> = new Map([
  // The parameters of the request, and the reasons for a page, which repeat some of them.
  ["Interaction", ["params", "prompt"]],
  ["PushedAuthorizationRequest", ["request"]],
]);

/** The sealing context. */
export const artifactContext = (model: string, key: string): string => `artifact ${model} ${key}`;

/** What the sealed text holds. */
interface Personal {
  readonly payload: Payload;
  readonly state?: object;
}

/** The accounts in a state. They are not sealed: an index on them finds the sign-ins of a deleted account. */
export interface NamingState {
  /** Who has shown something. */
  readonly proven?: { readonly sub?: string };
  /** Whom a code was sent to. */
  readonly codeFor?: string;
}

function namingPart(state: NamingState): NamingState {
  const sub = state.proven?.sub;
  return {
    ...(sub !== undefined && { proven: { sub } }),
    ...(state.codeFor !== undefined && { codeFor: state.codeFor }),
  };
}

/** The artifact as it is stored. */
export function sealArtifact(artifact: Artifact, sealer: ArtifactSealer): Artifact {
  const { model, key, payload, state, ...rest } = artifact;
  const members = PERSONAL.get(model);
  if (members === undefined) return artifact;
  const isPersonal = ([name]: readonly [string, unknown]): boolean => members.includes(name);
  const entries = Object.entries(payload);
  const personal: Personal = {
    payload: Object.fromEntries(entries.filter(isPersonal)),
    ...(state !== undefined && { state }),
  };
  return {
    ...rest,
    model,
    key,
    payload: Object.fromEntries(entries.filter((entry) => !isPersonal(entry))),
    ...(state !== undefined && { state: namingPart(state) }),
    sealed: sealer.seal(artifactContext(model, key), JSON.stringify(personal)),
  };
}

/** The artifact as it was before it was sealed; `undefined` if its key was removed since: then it is of no use. */
export function openArtifact(stored: StoredArtifact, sealer: ArtifactSealer): StoredArtifact | undefined {
  const { sealed, ...artifact } = stored;
  if (sealed === undefined) return stored;
  try {
    const text = sealer.open(artifactContext(artifact.model, artifact.key), sealed);
    const { payload, state } = JSON.parse(text) as Personal;
    return {
      ...artifact,
      payload: { ...artifact.payload, ...payload },
      ...(state !== undefined && { state }),
    };
  } catch (error) {
    if (error instanceof SignInError && error.code === "unusable_secrets") return undefined;
    throw error;
  }
}
