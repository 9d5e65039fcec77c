/** The step `consent`: whether a third-party client may read the account. */
import type { Step } from "./step.ts";

export const consent: Step = {
  isOpen: ({ prompt }) => prompt === "consent",
  fields: () => [],
  // Nothing recommends a client that nobody registered.
  actions: ({ client }) => (client.unregistered ? ["deny", "allow"] : ["allow", "deny"]),
  alternatives: () => [],
  async submit({ ctx, action }, services) {
    const { protocol } = services;
    const location = action === "allow" ? await protocol.allow(ctx) : await protocol.deny(ctx);
    return { kind: "done", location };
  },
};
