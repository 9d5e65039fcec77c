/** Who asks for a change: an option of every call that changes something, kept by the audit. */
import { z } from "zod";
import { type Actor, ACTOR_KINDS, type Caller, SYSTEM } from "../audit/audit-event.ts";
import { checked, exactly, ruled } from "./arguments.ts";

/** What every call that changes something may be told. */
export interface CallOptions {
  /** Who asks for it, for the audit. Default: `{ kind: "system" }`. */
  readonly actor?: Actor | undefined;
}

/** Nobody changes anything without having shown who they are. */
const KINDS = ACTOR_KINDS.filter((kind) => kind !== "anonymous");
const NAMED: ReadonlySet<string> = new Set(["account", "client"]);

/** The option `actor`: identifiers alone, so that no address of a person gets into the audit by mistake. */
export const actor: z.ZodType<Actor | undefined> = exactly({
  kind: z.enum(KINDS, { error: `must be one of ${KINDS.join(", ")}` }),
  id: ruled((id) =>
    /^[\w.~:-]{1,128}$/.test(id) ? undefined : "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ : -",
  ).exactOptional(),
})
  .superRefine(({ kind, id }, context) => {
    if (id !== undefined || !NAMED.has(kind)) return;
    context.addIssue({ code: "custom", path: ["id"], message: `is required for ${kind}` });
  })
  .optional();

const callOptions: z.ZodType<CallOptions> = exactly({ actor });

/** Who asks, as the options of a call say that has no others. @throws TypeError for wrong options. */
export function callerOf(options: CallOptions = {}): Caller {
  return named(checked("options", callOptions, options).actor);
}

/** Who asks, as an option says that is checked already. */
export function named(who: Actor | undefined): Caller {
  return who === undefined ? SYSTEM : { actor: who };
}
