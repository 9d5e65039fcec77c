/** What each write of an artifact batch is as an update, with the condition that it carries. */
import type { AnyBulkWriteOperation, Document, Filter, ObjectId } from "mongodb";
import { ANSWERED_WITHIN, type Artifact, type ArtifactWrite } from "../artifacts.ts";
import {
  artifactId,
  forgetAt,
  grantId,
  type StoredArtifact,
  toDocument,
  toEntries,
} from "./artifact-documents.ts";

/**
 * One update of one artifact or of many. With a `condition` it must find what it asks for: asked to insert as well
 * (`upsert`), it fails on what is there and does not fit, or is told to have inserted.
 */
export interface PlannedUpdate {
  /** The `_id` of the artifact, or of the family's grant. */
  readonly id: string;
  readonly filter: Filter<StoredArtifact>;
  readonly update: Document | Document[];
  readonly kind: "put" | "condition" | "free" | "family";
  /** For the error: what it was about. */
  readonly label: string;
}

/** What the plans of one batch have in common. */
export interface BatchTerms {
  readonly commit: string;
  readonly now: number;
  readonly newId: () => ObjectId;
}

const literal = (value: unknown): Document => ({ $literal: value });

/**
 * A mark of consumption is part of what is there and lives as long: it stays through a replacement, and goes with an
 * artifact that has expired.
 */
function kept(field: string, own: unknown, now: number): Document {
  const fresh = own === undefined ? "$$REMOVE" : literal(own);
  return { $cond: [{ $gt: ["$expires_at", now] }, { $ifNull: [`$${field}`, fresh] }, fresh] };
}

/** The entries of a member that are there and not among our own, and then our own. */
function mergedMembers(document: Pick<StoredArtifact, "members">, merge: string, own: unknown): Document {
  const n = JSON.stringify(merge);
  const entries = toEntries(own);
  const names = entries.map((entry) => entry.n);
  const stored = {
    $reduce: {
      input: { $ifNull: ["$members", []] },
      initialValue: [],
      in: { $cond: [{ $eq: ["$$this.n", literal(n)] }, "$$this.e", "$$value"] },
    },
  };
  const others = { $filter: { input: stored, cond: { $not: [{ $in: ["$$this.n", literal(names)] }] } } };
  return {
    $concatArrays: [
      literal(document.members.filter((member) => member.n !== n)),
      [{ n: literal(n), e: { $concatArrays: [others, literal(entries)] } }],
    ],
  };
}

/** Puts the artifact in the place of what is there. */
function replacement(artifact: Artifact, merge: string | undefined, terms: BatchTerms): Document[] {
  const { now, commit, newId } = terms;
  const document = toDocument(artifact, commit);
  const { consumedAt, replay, replayUntil } = artifact;
  return [
    {
      $replaceWith: {
        $mergeObjects: [
          literal(document),
          {
            order: { $ifNull: ["$order", newId()] },
            consumed_at: kept("consumed_at", consumedAt, now),
            answered_at: kept("answered_at", undefined, now),
            replay: kept("replay", replay === undefined ? undefined : JSON.stringify(replay), now),
            replay_until: kept("replay_until", replayUntil, now),
          },
          merge === undefined ? {} : { members: mergedMembers(document, merge, artifact.payload[merge]) },
        ],
      },
    },
  ];
}

/** Nothing is left but that it was there, for as long as the batch may be sent again. */
function removal({ commit, now }: BatchTerms): Document {
  const gone = [
    "grant",
    "uid",
    "account",
    "client",
    "consumed_at",
    "answered_at",
    "replay",
    "replay_until",
    "order",
  ];
  return {
    $set: { expires_at: 0, forget_at: forgetAt(now), json: "{}", members: [], commit },
    $unset: Object.fromEntries(gone.map((field) => [field, ""])),
  };
}

/** Milliseconds since the epoch by the clock of the server. Not every server can compare its time as a date. */
export const SERVER_TIME: Document = { $toLong: "$$NOW" };

function consumption(write: Extract<ArtifactWrite, { kind: "consume" }>, { commit }: BatchTerms): Document[] {
  const { at, replay, replayUntil } = write;
  const marks = {
    consumed_at: at,
    answered_at: { $add: [SERVER_TIME, ANSWERED_WITHIN] },
    commit: literal(commit),
    replay: replay === undefined ? "$$REMOVE" : literal(JSON.stringify(replay)),
    replay_until: replayUntil ?? "$$REMOVE",
  };
  return [{ $set: marks }];
}

/** A whole family, and its grant. */
function planRevocation(grantKey: string, terms: BatchTerms): PlannedUpdate[] {
  const id = grantId(grantKey);
  const common = { id, update: removal(terms), label: "revoke" };
  return [
    { ...common, filter: { grant: id }, kind: "family" },
    { ...common, filter: { _id: id }, kind: "free" },
  ];
}

function planOne(
  write: Exclude<ArtifactWrite, { kind: "revoke" }>,
  id: string,
  terms: BatchTerms,
): Pick<PlannedUpdate, "filter" | "update" | "kind"> {
  const any = { _id: id };
  const live = { ...any, expires_at: { $gt: terms.now } };
  switch (write.kind) {
    case "put":
      return { filter: any, update: replacement(write.artifact, undefined, terms), kind: "put" };
    case "update":
      return { filter: live, update: replacement(write.artifact, write.merge, terms), kind: "condition" };
    case "consume": {
      const filter = { ...live, consumed_at: { $exists: false } };
      return { filter, update: consumption(write, terms), kind: "condition" };
    }
    case "remove":
      return write.mustExist
        ? { filter: live, update: removal(terms), kind: "condition" }
        : { filter: any, update: removal(terms), kind: "free" };
    case "require":
    default:
      // It is written, so that whoever removes it at the same time conflicts.
      return { filter: live, update: { $inc: { required: 1 } }, kind: "condition" };
  }
}

/** The updates of one write, in their order. */
export function planWrite(write: ArtifactWrite, terms: BatchTerms): PlannedUpdate[] {
  if (write.kind === "revoke") return planRevocation(write.grantKey, terms);
  const { model, key } = "artifact" in write ? write.artifact : write;
  const id = artifactId(model, key);
  return [{ ...planOne(write, id, terms), id, label: `${write.kind} ${model}` }];
}

/** The update as the driver wants it. */
export function toOperation(planned: PlannedUpdate): AnyBulkWriteOperation<StoredArtifact> {
  const { filter, update, kind } = planned;
  if (kind === "family") return { updateMany: { filter, update } };
  return { updateOne: { filter, update, upsert: kind === "put" || kind === "condition" } };
}
