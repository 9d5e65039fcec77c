/**
 * The step `continue`: whether an application on this device may have the person who is signed in. Any application can claim
 * such an address, so a code never goes there without the person's knowledge.
 */
import type { Step } from "./step.ts";

export const continueAs: Step = {
  isOpen: ({ prompt }) => prompt === "continue",
  fields: () => [],
  actions: () => ["submit", "cancel"],
  ways: () => ["login"],
  async submit({ ctx, action }, { protocol }) {
    const location = action === "cancel" ? await protocol.deny(ctx) : await protocol.continueAs(ctx);
    return { kind: "done", location };
  },
};
