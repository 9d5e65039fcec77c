/** An app process of a campaign: changes accounts as it is told to. Argument: its configuration, as JSON. */
import { createSignInService, type SignInService } from "../../../lib/index.ts";
import { carryOut, type Change, type Outcome } from "./change.ts";
import { live } from "./child.ts";

/** A change to make; the answer carries its number. */
export interface Order {
  readonly number: number;
  readonly change: Change;
}

export interface Answer {
  readonly number: number;
  readonly outcome: Outcome;
}

/** Carries an order out, and says what came of it. */
export async function answer({ accounts }: SignInService, { number, change }: Order): Promise<void> {
  const told: Answer = { number, outcome: await carryOut(accounts, change) };
  process.send?.(told);
}

if (import.meta.main) {
  await live(async () => {
    const service = await createSignInService(JSON.parse(process.argv[2] ?? ""));
    process.on("message", (order: Order) => void answer(service, order));
    return service;
  });
}
