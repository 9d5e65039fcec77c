/**
 * Arguments of the public calls, checked with zod. A wrong argument is an {@link InvalidArgument} that names the option and
 * never repeats its value.
 */
import { z } from "zod";
import { nearestKey } from "../config/nearest-key.ts";
import { formatPath } from "../config/problems.ts";
import { InvalidArgument } from "../core/errors.ts";
import { isObject } from "../core/untrusted-json.ts";
import { type Actor, ACTOR_KINDS, type Caller, SYSTEM } from "../records/audit/audit-event.ts";

/**
 * The names in a path that messages may repeat: options and valid keys. Anything else may be a secret in the wrong
 * place.
 */
const REPEATABLE = /^[A-Za-z0-9_-]{1,64}$/u;

/** The place of a value inside an argument, such as `client.redirect_uris[0]`. */
export function pathIn(what: string, path: readonly PropertyKey[]): string {
  return formatPath(path, what, REPEATABLE);
}

/**
 * The checked value.
 * @param what the name of the argument in messages, such as `account`.
 * @throws InvalidArgument with one part for each problem, such as `client.redirect_uris[0]: must be a string`.
 */
export function checked<T>(what: string, schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid(what, result.error.issues);
}

/** The error for problems inside an argument. */
export function invalid(
  what: string,
  problems: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[],
): InvalidArgument {
  return new InvalidArgument(...problems.map(({ path, message }) => ({ path: pathIn(what, path), message })));
}

/** Makes a schema of a rule. The rule returns what is wrong, or `undefined`. */
export function ruled(rule: (text: string) => string | undefined): z.ZodString {
  return z.string({ error: textExpected }).superRefine((text, context) => {
    const problem = rule(text);
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
  });
}

function textExpected({ input }: { readonly input?: unknown }): string {
  return input === undefined ? "is required" : "must be a string";
}

/** An object with exactly these keys. Inherited keys don't count. Unlike that of zod's own, its type keeps their comments. */
export function exactly<S extends z.ZodRawShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys.map((key) => unknownKey(key, known)).join(", ")
        : objectProblem(issue.input),
  });
}

/** An object with these keys, and possibly others, which are dropped. */
export function atLeast<S extends z.ZodRawShape>(shape: S, error: string): z.ZodObject<S> {
  return z.object(shape, { error });
}

/**
 * Runs a rule that spans several keys even if other keys have problems, so that all are reported at once. It does not
 * run when one of the keys that it reads is wrong.
 */
export function whenValid(...keys: readonly string[]): z.core.$ZodSuperRefineParams {
  const isInTheWay = ({ code, path: [key] = [] }: z.core.$ZodRawIssue): boolean =>
    key === undefined ? code !== "unrecognized_keys" : keys.includes(String(key));
  return { when: ({ issues }) => !issues.some(isInTheWay) };
}

function objectProblem(input: unknown): string {
  return input === undefined ? "is required" : "must be an object";
}

/** An invalid name is not repeated: it may be a secret in the wrong field. */
function unknownKey(key: string, known: readonly string[]): string {
  if (!/^[A-Za-z_]\w{0,39}$/u.test(key)) return "unknown key";
  const nearest = nearestKey(key, known, []);
  return nearest?.close === true
    ? `unknown key ${key}; did you mean ${nearest.path}?`
    : `unknown key ${key}; the keys are ${known.join(", ")}`;
}

/** A map from keys to values. zod's own record type drops the key `__proto__`, which is valid here. Its `values` are in its metadata. */
export function mapOf<V extends z.ZodType>(
  key: z.ZodType<string>,
  value: V,
): z.ZodType<Readonly<Record<string, z.output<V>>>, Readonly<Record<string, z.input<V>>>> {
  return z
    .custom<Readonly<Record<string, z.input<V>>>>(isObject, { error: "must be an object" })
    .transform((map, context) => {
      const entries = Object.entries(map).map(([name, item]): [string, z.output<V> | undefined] => {
        const results = [key.safeParse(name), value.safeParse(item)];
        for (const { error } of results) {
          for (const issue of error?.issues ?? []) {
            context.addIssue({ code: "custom", path: [name, ...issue.path], message: issue.message });
          }
        }
        return [name, results[1]?.data as z.output<V> | undefined];
      });
      return Object.fromEntries(entries) as Record<string, z.output<V>>;
    })
    .meta({ values: value });
}

/** An integer from `least` to `most`. */
export function integer(least: number, most: number = Number.MAX_SAFE_INTEGER): z.ZodInt {
  const error = `must be an integer from ${least} to ${most}`;
  return z.int({ error, abort: true }).min(least, { error }).max(most, { error });
}

/** `true` or `false`. */
export function flag(): z.ZodBoolean {
  return z.boolean({ error: "must be true or false" }).meta({ form: "`true` or `false`" });
}

/** One of these texts. */
export function choice<const C extends readonly string[]>(choices: C): z.ZodEnum<{ [K in C[number]]: K }> {
  const [form, list] =
    choices.length === 2 ? ["` or `", choices.join(" or ")] : ["`, `", `one of ${choices.join(", ")}`];
  return z.enum(choices, { error: `must be ${list}` }).meta({ form: `\`${choices.join(form)}\`` });
}

/** An identifier to look up: any string, because an unknown one is not an error. */
export const anyString = z.string({ error: "must be a string" });

/** A change always has an authenticated actor. */
const KINDS = ACTOR_KINDS.filter((kind) => kind !== "anonymous");
const NEEDS_ID: ReadonlySet<string> = new Set(["account", "client", "token"]);

/** The option `actor`: only identifiers, so that no e-mail address gets into the audit by mistake. */
export const actor: z.ZodOptional<z.ZodType<Actor, Actor>> = exactly({
  kind: z.enum(KINDS, { error: `must be one of ${KINDS.join(", ")}` }),
  id: ruled((id) =>
    /^[\w.~:-]{1,128}$/.test(id) ? undefined : "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ : -",
  ).exactOptional(),
})
  .superRefine(
    ({ kind, id }, context) => {
      if (id !== undefined || !NEEDS_ID.has(kind)) return;
      context.addIssue({ code: "custom", path: ["id"], message: `is required for ${kind}` });
    },
    whenValid("kind", "id"),
  )
  .optional();

const callOptions = exactly({
  /** Who requests the change, for the audit. Default: `{ kind: "system" }`. */
  actor,
});

/** The options of every call that changes something. */
export interface CallOptions extends Readonly<z.input<typeof callOptions>> {}

/** The actor of a call that one of our own pages makes: the audit records where its request came from, too. */
class RequestActor implements Actor {
  readonly kind: Actor["kind"];
  declare readonly id?: string;
  readonly #caller: Caller;

  constructor(caller: Caller) {
    Object.assign(this, caller.actor);
    this.kind = caller.actor.kind;
    this.#caller = caller;
  }

  get caller(): Caller {
    return this.#caller;
  }
}

/** Options for a call that one of our own pages makes. */
export function byCaller(caller: Caller): CallOptions {
  return { actor: new RequestActor(caller) };
}

/** The caller that the options of a call name. @throws InvalidArgument for wrong options. */
export function callerIn(options: CallOptions = {}): Caller {
  const { actor: named } = checked("options", callOptions, options);
  return options.actor instanceof RequestActor ? options.actor.caller : callerFor(named);
}

/** The caller for an actor that has been checked. */
export function callerFor(who: Actor | undefined): Caller {
  return who === undefined ? SYSTEM : { actor: who };
}
