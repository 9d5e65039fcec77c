/** An app process of a campaign: changes accounts on request. Argument: its configuration as JSON. */
import { openStores } from "../../../adapters/open.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { SHARED_KINDS } from "../../../records/directory/directory-kinds.ts";
import { createSignInServiceOver, type SignInService } from "../../../lib/service.ts";
import { type Storage, storageOver, WATCHED_KINDS } from "../../../records/storage.ts";
import { carryOut, type Change, type Outcome } from "./change.ts";
import { live } from "./child.ts";
import { withJournalOf } from "./journal.ts";

/** A change to make; the answer carries its number. */
export interface Order {
  readonly number: number;
  readonly change: Change;
}

export interface Answer {
  readonly number: number;
  readonly outcome: Outcome;
}

/** Carries out an order and sends the outcome. */
export async function answer({ accounts }: SignInService, { number, change }: Order): Promise<void> {
  const message: Answer = { number, outcome: await carryOut(accounts, change) };
  process.send?.(message);
}

/** The storage that the configuration names, with a journal. */
async function openJournalled(configuration: Configuration): Promise<Storage> {
  const kinds = { sharedKinds: SHARED_KINDS, watchedKinds: WATCHED_KINDS };
  const { main, artifacts } = await openStores({ ...configuration, ...kinds });
  return storageOver(withJournalOf(main), configuration, artifacts);
}

if (import.meta.main) {
  await live(async () => {
    const service = await createSignInServiceOver(JSON.parse(process.argv[2] ?? ""), openJournalled);
    process.on("message", (order: Order) => void answer(service, order));
    return service;
  });
}
