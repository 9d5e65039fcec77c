/**
 * The step `continue`: whether the client may have the person who is signed in, or somebody else. A client asks for it
 * with `prompt=select_account`. It always precedes a code for an application on this device: any application can claim
 * such an address, so a code never goes there without the person's knowledge.
 */
import type { Step } from "./step.ts";

export const continueAs: Step = {
  isOpen: ({ prompt }) => prompt === "continue",
  fields: () => [],
  actions: () => ["submit", "another-account", "cancel"],
  alternatives: () => [],
  async submit({ ctx, signIn, action }, { protocol }) {
    // The next step signs in somebody else; until then, nothing has changed.
    if (action === "another-account") return { kind: "next", state: { ...signIn.state, step: "login" } };
    const location = action === "cancel" ? await protocol.deny(ctx) : await protocol.continueAs(ctx);
    return { kind: "done", location };
  },
};
