/** What a page or a program has sent: where it must come from, and what is in it. */
import type { ServiceContext } from "../provider/exchange.ts";
import { type Form, isFromHere, readable } from "./forms.ts";
import { CAN_ADD_PASSKEY } from "./steps/step.ts";

const JSON_TYPE = "application/json";

/** Whether the request is for the JSON interface: it sends JSON, or it accepts JSON and does not prefer HTML. */
export function wantsJson(ctx: Pick<ServiceContext, "method" | "accepts" | "request">): boolean {
  if (ctx.method === "POST" && ctx.request.type === JSON_TYPE) return true;
  return ctx.accepts("html", "json") === "json";
}

/** Why a request can't come from a page of this host; `undefined` if it can. */
export function originProblem(ctx: ServiceContext): string | undefined {
  if (!wantsJson(ctx)) return isFromHere(ctx) ? undefined : "another site has sent this form";
  // A browser sends the true origin with a POST of JSON, which no form can send.
  const { origin } = new URL(ctx.exchange.deployment.url);
  if (ctx.get("Origin") !== origin) return `Origin must be ${origin}`;
  return ctx.request.type === JSON_TYPE ? undefined : `Content-Type must be ${JSON_TYPE}`;
}

/** A form, or a body of JSON. */
export interface Sent {
  /** `submit` for the fields, or the name of another action. */
  readonly action: string;
  readonly values: Form;
}

/** What to say about something that {@link readSent} can't read. */
export const UNREADABLE = {
  json: "the body must be an object of strings",
  form: "the form was incomplete, repeated a field or was too large",
} as const;

/** @returns `undefined` if it can't be read. */
export async function readSent(ctx: ServiceContext): Promise<Sent | undefined> {
  const isJson = wantsJson(ctx);
  const values = isJson
    ? membersOf(await readable(() => ctx.exchange.json()))
    : await readable(() => ctx.exchange.form());
  if (values === undefined) return undefined;
  const named = isJson
    ? new URLSearchParams(ctx.querystring).get("action")
    : (values.get("decision") ?? values.get("action"));
  return { action: named || "submit", values };
}

/**
 * The members of a body, which are strings as in a form; `credential` is an object, and becomes its JSON; `kept` may be
 * `true`, and `can_add_passkey` a boolean.
 */
function membersOf(body: unknown): Form | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const values = new Map<string, string>();
  for (const [name, value] of Object.entries(body)) {
    const isJson =
      (name === "credential" && typeof value === "object" && value !== null) ||
      (name === "kept" && value === true) ||
      (name === CAN_ADD_PASSKEY && typeof value === "boolean");
    const text = isJson ? JSON.stringify(value) : value;
    if (typeof text !== "string" || text.includes("\0")) return undefined;
    values.set(name, text);
  }
  return values;
}
