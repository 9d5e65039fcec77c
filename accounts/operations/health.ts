/** The operation on the health of the service. Library and command line have it in a form of their own: `health()` and `doctor`. */
import { z } from "zod";
import type { Health } from "../../records/health.ts";
import { exactly } from "../arguments.ts";
import { NONE, operation, operations } from "./operation.ts";

const shown = exactly({
  /** Whether the process that answered can do its work: all required parts are `ok`. */
  ok: z.boolean(),
  parts: z
    .array(
      exactly({
        /** What it is: `storage`, `artifacts`, `queue`, `deliveries`, `mail` and so on. */
        name: z.string(),
        ok: z.boolean(),
        /** Whether the process can't do its work without it. */
        required: z.boolean(),
        latency_ms: z.number(),
        /** What is wrong, or a short status; may be empty. */
        detail: z.string(),
      }).readonly(),
    )
    .readonly(),
}).meta({ id: "Health" });

export const health = operations("health", {
  /** Shows whether the process that answers can do its work, and the state of each part. */
  check: operation({
    effect: "read",
    target: [],
    input: NONE,
    output: shown,
    role: "viewer",
    limited: false,
    confirm: "none",
    audit: [],
    errors: [],
    columns: [],
    surfaces: ["rest"],
    example: { target: [], input: {} },
  }),
});

/** The health of a service, as it travels. */
export function shownHealth({ ok, parts }: Health): z.output<typeof shown> {
  return {
    ok,
    parts: Object.entries(parts).map(([name, { ok: isUp, required, latency, detail }]) => ({
      name,
      ok: isUp,
      required,
      latency_ms: latency,
      detail,
    })),
  };
}
