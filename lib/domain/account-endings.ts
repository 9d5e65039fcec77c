/** What an account change ends: read off its generations, and cleared away after the change. */
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { ArtifactFilter } from "../artifacts/artifact.ts";
import type { AccountRecord, DirectoryStore } from "../directory/directory.ts";
import type { SessionEnd } from "../events.ts";
import { generationAt } from "./generations.ts";

/** Why the sign-in sessions of an account ended. */
export type EndReason = Exclude<SessionEnd, "signed_out">;

/** Told when sessions of an account have ended, before their records are removed: for back-channel logout. */
export interface SessionsEnded {
  readonly sub: string;
  readonly reason: EndReason;
  /** The `uid` of the one session that lives on. */
  readonly keepSession?: string;
}

/** Models of oidc-provider that hold a sign-in session. */
const SESSION_MODELS = ["Session"] as const;
/** Models of oidc-provider that hold what clients got: with a grant go its codes and tokens. */
const TOKEN_MODELS = ["Grant"] as const;

/** What ended with a change. */
export interface Endings {
  readonly account: boolean;
  readonly sessions: boolean;
  readonly tokens: boolean;
  /** Services at which codes and tokens ended. */
  readonly services: readonly string[];
  /** Clients at which codes and tokens ended. */
  readonly clients: readonly string[];
}

/** Compares the generations before and after. */
export function endingsOf(before: AccountRecord, after: AccountRecord | undefined): Endings {
  if (after === undefined) return { account: true, sessions: true, tokens: true, services: [], clients: [] };
  return {
    account: false,
    sessions: after.sessions_generation !== before.sessions_generation,
    tokens: after.tokens_generation !== before.tokens_generation,
    services: raisedKeys(before.service_generations, after.service_generations),
    clients: raisedKeys(before.client_generations, after.client_generations),
  };
}

function raisedKeys(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
): string[] {
  return Object.keys(after).filter((key) => generationAt(after, key) !== generationAt(before, key));
}

/**
 * Removes the artifacts that the change ended. The generations have ended them already, so a failure here
 * leaves nothing that works, only records that go when they expire.
 * @param keepSession when a session lives on, session records stay: the store can't tell them apart.
 */
export async function clearArtifacts(
  deps: { readonly artifacts: ArtifactStore; readonly directory: DirectoryStore },
  sub: string,
  endings: Endings,
  keepSession: string | undefined,
): Promise<void> {
  for (const filter of await filtersOf(deps.directory, sub, endings, keepSession)) {
    await deps.artifacts.removeByAccount(filter);
  }
}

async function filtersOf(
  directory: DirectoryStore,
  sub: string,
  endings: Endings,
  keepSession: string | undefined,
): Promise<ArtifactFilter[]> {
  if (endings.account) return [{ accountId: sub }];
  const filters: ArtifactFilter[] = [];
  if (endings.sessions && keepSession === undefined) filters.push({ accountId: sub, models: SESSION_MODELS });
  if (endings.tokens) return [...filters, { accountId: sub, models: TOKEN_MODELS }];
  const clientIds = [...endings.clients, ...(await clientsOf(directory, endings.services))];
  if (clientIds.length > 0) filters.push({ accountId: sub, clientIds, models: TOKEN_MODELS });
  return filters;
}

/** The ids of all clients that belong to one of these services. */
export async function clientsOf(
  directory: Pick<DirectoryStore, "listClients">,
  services: readonly string[],
): Promise<string[]> {
  if (services.length === 0) return [];
  const clients = await directory.listClients();
  return clients
    .filter(({ service }) => service !== null && services.includes(service))
    .map((client) => client.client_id);
}
