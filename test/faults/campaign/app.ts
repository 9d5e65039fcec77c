/** An app process of a campaign: changes accounts on request. Arguments: its configuration as JSON, and its version. */
import type { Configuration } from "../../../config/configuration.ts";
import { createSignInServiceOver, type SignInService } from "../../../lib/service.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { become } from "../../records/formats/planted-format.ts";
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
  /** In milliseconds since the epoch. */
  readonly at: number;
}

/** Carries out an order and sends the outcome. */
export async function answer({ accounts }: SignInService, { number, change }: Order): Promise<void> {
  const outcome = await carryOut(accounts, change);
  const message: Answer = { number, outcome, at: Date.now() };
  process.send?.(message);
}

/** The storage that the configuration names, with a journal. */
async function openJournalled(configuration: Configuration): Promise<Storage> {
  const through = await become(process.argv[3]);
  return openStorage(configuration, undefined, (store) => withJournalOf(through(store)));
}

if (import.meta.main) {
  await live(async () => {
    const service = await createSignInServiceOver(JSON.parse(process.argv[2] ?? ""), openJournalled);
    process.on("message", (order: Order) => void answer(service, order));
    return service;
  });
}
