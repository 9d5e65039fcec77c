/** The operations on clients that nobody has registered: who was here, and who may not come again. */
import { z } from "zod";
import { choice, exactly, flag } from "../arguments.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

const state = choice(["allowed", "refused", "blocked"]);

const shown = exactly({
  /** The URL of its document, which is also its client_id, or a blocked origin. */
  address: z.string(),
  /** Its host, in ASCII. */
  host: z.string(),
  /** What it calls itself, which nobody has checked. `null`: nothing, or no copy of its document is kept. */
  name: z.string().nullable(),
  /** `blocked` by an operator, itself or with its origin; `refused`: the configuration allows neither address nor origin. */
  state,
  /** How many people have allowed it something since its document was first fetched. */
  people: z.int(),
  /** The identifiers of the last ten APIs that people allowed it to call, the latest last. */
  called_apis: z.array(z.string()).readonly(),
  /** When the first of them did, in seconds since the epoch. `null`: nobody did. */
  first_grant_at: z.int().nullable(),
  /** When its document was last fetched with success, in seconds since the epoch. `null`: no copy is kept. */
  fetched_at: z.int().nullable(),
  /** What is blocked: its address, or its origin. `null`: neither is. */
  blocked: z.string().nullable(),
  /** When it was blocked, in seconds since the epoch. `null`: it is not. */
  blocked_at: z.int().nullable(),
  /** Where its answers go. */
  redirect_uris: z.array(z.string()).readonly(),
  /** How it authenticates: `none`, or `private_key_jwt` with keys of its document. */
  authentication: choice(["none", "private_key_jwt"]),
});

/** A client that nobody has registered, or a block of an origin. */
export interface DocumentClient extends Readonly<z.output<typeof shown>> {}
const documentClient: z.ZodType<DocumentClient> = shown.meta({ id: "DocumentClient" });

const ON_ONE = { target: ["address"], limited: false } as const;

const BLOCKS = {
  ...ON_ONE,
  effect: "verb",
  output: NONE,
  role: "administrator",
  recent: true,
  columns: [],
  errors: ["not_applicable"],
} as const;

const READS = { role: "viewer", confirm: "none", audit: [], errors: [] } as const;

export const documents = operations("document", {
  /**
   * Lists the clients that nobody has registered and that somebody has allowed something, and then what else is blocked.
   *
   * The client with the latest first grant comes first. A client is listed for as long as it can have a living grant, and a block until
   * an operator takes it back.
   */
  list: operation({
    ...READS,
    effect: "list",
    target: [],
    input: exactly({
      /** Only those in this state. */
      state: state.exactOptional(),
    }),
    output: documentClient,
    limited: false,
    columns: [
      "address",
      "name",
      "state",
      "people",
      "called_apis",
      "first_grant_at",
      "fetched_at",
      "blocked_at",
    ],
    example: { target: [], input: { state: "blocked" } },
  }),
  /**
   * Shows a client that nobody has registered, or an origin, also one that was never here.
   * @returns `undefined` for something that is neither the address of a document nor an origin.
   */
  find: operation({
    ...READS,
    ...ON_ONE,
    effect: "read",
    input: NONE,
    output: documentClient,
    columns: [],
    example: { target: ["https://other.example.com"], input: {} },
  }),
  /**
   * Blocks a client that nobody has registered, or all of an origin.
   *
   * Its codes, refresh tokens and opaque tokens end at once. A JWT that was issued before works until it expires. Blocking what is
   * blocked changes nothing.
   *
   * @throws InvalidArgument for something that is neither the address of a document nor an origin.
   * @throws SignInError `not_applicable` while `clients.metadataDocuments` is not set.
   */
  block: operation({
    ...BLOCKS,
    input: exactly({
      /** Everything of its origin. */
      whole_origin: flag().optional(),
    }),
    confirm: "page",
    audit: ["document.blocked"],
    example: { target: ["https://agent.example.com/client.json"], input: { whole_origin: true } },
  }),
  /**
   * Lets a client that nobody has registered ask again, or all of an origin.
   *
   * What the block has ended stays ended: people are asked anew. An origin and the addresses in it are blocked apart.
   *
   * @throws SignInError `not_applicable` when it is not blocked, and while `clients.metadataDocuments` is not set.
   */
  unblock: operation({
    ...BLOCKS,
    input: NONE,
    confirm: "none",
    audit: ["document.unblocked"],
    example: { target: ["https://agent.example.com"], input: {} },
  }),
});

/** The calls for clients that nobody has registered. */
export interface DocumentClients extends Facade<typeof documents.rows> {}
