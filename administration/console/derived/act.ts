/** The page of an operation: the form for its input, or the confirmation that it needs, and what it answers once. */
import { randomBytes } from "node:crypto";
import { checked } from "../../../accounts/arguments.ts";
import { passwordLength } from "../../../accounts/passwords/password-rules.ts";
import { type AnyRow, membersOf, NONE } from "../../../accounts/operations/operation.ts";
import {
  InvalidArgument,
  InvalidPassword,
  NotFound,
  SignInError,
  StillReferenced,
  StorageUnavailable,
} from "../../../core/errors.ts";
import { type Form, type FormProblem, formLocals } from "../../../interactions/forms.ts";
import type { AuditExport } from "../../../records/audit/audit-export.ts";
import type { Locals } from "../../../interactions/look/views.ts";
import { within } from "../../../core/with-timeout.ts";
import type { ConsoleAnswer, ConsoleRequest, Crumb, Notice } from "../request.ts";
import { ANY_ACTION, recordAddress, segmentOf } from "../request.ts";
import { nameOf } from "../entries.ts";
import {
  type ConsoleField,
  type FieldLook,
  fieldsOf,
  inputFrom,
  problemsAt,
  UnreadableField,
} from "./fields.ts";
import { memberLabel } from "./values.ts";
import { consequences, oneOf, refusalText, verbLabel } from "./words.ts";

/** What the page of an operation is about. */
export interface Acting {
  readonly noun: string;
  /** The entry of its pages. */
  readonly entry: string;
  readonly verb: string;
  readonly row: AnyRow;
  /** What it is about: of one that makes something, nothing yet. */
  readonly target: readonly string[];
  /** The record as it is, and the tag of its version. */
  readonly record?: Readonly<Record<string, unknown>>;
  readonly tag?: string | undefined;
  /** What the record is called. */
  readonly name?: string;
  /** The view, if it has one of its own, and what that prints besides. */
  readonly view?: string;
  /** A script of the page, which works without it. */
  readonly script?: string;
  readonly locals?: Readonly<Record<string, unknown>>;
  /** What the view prints of the fields, if not all of them in one form. */
  readonly arrange?: (fields: readonly ConsoleField[], filled: Form | undefined) => Locals;
  /** Members that have to be filled in here, although the operation can do without. */
  readonly required?: readonly string[];
  /** The same, where it depends on what was sent. */
  readonly needs?: (form: Form) => readonly string[];
  /** Why it can't be done now: instead of a form. */
  readonly blocked?: string;
  /** What identifies the record to people, who type it before something large is done. Default: its identifier. */
  readonly typed?: string;
  /** What the next page says. Default: that it was done. */
  readonly said?: (result: unknown) => Notice;
  /** What the next page says of something that goes on for longer than people wait, and who hears of its failure. */
  readonly goesOn?: { readonly notice: Notice; readonly onDefect: (error: unknown) => void };
  /** Members that have no field. */
  readonly without?: readonly string[];
  /** Members that a form may not set. Default: none. */
  readonly leaves?: (form: Form) => readonly string[];
  readonly options?: FieldLook["options"];
  readonly kindsOf?: FieldLook["kindsOf"];
}

/** The member in which a person types what identifies the record. */
const TYPED = "typed";
/** The hidden field that names the request: sent again, it makes no second secret. */
const ONCE = "once";

/** Whether what is made is named by the person, as `key`. */
const isNamed = ({ effect, target, path }: AnyRow): boolean =>
  effect === "create" && target.length > 0 && path === undefined;

/** The address of the page of an operation, on a record or on a list. */
export const addressOf = (path: string, verb: string, more: Readonly<Record<string, string>> = {}): string =>
  `${path}?${new URLSearchParams({ do: verb, ...more })}`;

/** The fields of the form: the name of what is made, and the members of the input. */
function allFields(request: ConsoleRequest, acting: Acting, filled?: Form): ConsoleField[] {
  const { t } = request;
  const { noun, verb, row, record, without = [], required = [], options, kindsOf } = acting;
  const named = isNamed(row)
    ? row.target.map((name) => ({
        name,
        label: memberLabel(t, name),
        kind: "text" as const,
        required: true,
        hint: t.has(`admin.hint.${name}`) ? t(`admin.hint.${name}`) : "",
        group: "",
        value: filled?.get(name) ?? "",
      }))
    : [];
  const members = fieldsOf(t, row, `${noun}.${verb}`, {
    zone: request.zone,
    ...(filled && { filled }),
    ...(record && { record }),
    ...(options && { options }),
    ...(kindsOf && { kindsOf }),
  });
  const shown = members.filter(({ name }) => !without.includes(name));
  return [
    ...named,
    ...shown.map((field) =>
      Object.assign({}, field, { required: field.required || required.includes(field.name) }),
    ),
  ];
}

/** The fields that say something else than the record, each with what the record says: somebody has changed it in the meantime. */
const withWhatIsNow = (
  { t }: ConsoleRequest,
  entered: readonly ConsoleField[],
  stored: readonly ConsoleField[],
): ConsoleField[] =>
  entered.map((field, i) => {
    const value = stored[i]?.value ?? "";
    if (field.kind === "secret" || value === field.value.replaceAll("\r\n", "\n")) return field;
    return Object.assign({}, field, { hint: t("admin.stale.now", { value: value || t("admin.none") }) });
  });

/** What is wrong with what was sent. */
interface Refused {
  readonly filled: Form;
  readonly problems: readonly FormProblem[];
  readonly status: number;
}

/** The page before the operation. */
export function formAnswer(request: ConsoleRequest, acting: Acting, refused?: Refused): ConsoleAnswer {
  const { t, here: to } = request;
  const { noun, verb, row, name, tag } = acting;
  if (acting.blocked !== undefined) return blockedAnswer(request, acting, acting.blocked);
  const isStale = refused?.status === 412;
  const entered = allFields(request, acting, refused?.filled);
  const fields = isStale ? withWhatIsNow(request, entered, allFields(request, acting)) : entered;
  const problems = refused?.problems ?? [];
  const isTyped = row.confirm === "typed";
  const label = verbLabel(t, noun, verb);
  return {
    kind: "page",
    view: acting.view ?? "console-act",
    ...(acting.script !== undefined && { script: acting.script }),
    heading: label,
    ...(name !== undefined && { lead: name }),
    crumbs: crumbsOf(request, acting),
    ...(refused && { status: refused.status }),
    locals: {
      ...formLocals(t, [], problems),
      action: to,
      csrf: request.token(to, Object.hasOwn(membersOf(row), "action") ? ANY_ACTION : ""),
      // Whoever has seen what it is now may send it again.
      tag: (isStale ? undefined : refused?.filled.get("tag")) ?? tag ?? "",
      once:
        row.secret === undefined ? "" : (refused?.filled.get(ONCE) ?? randomBytes(16).toString("base64url")),
      fields,
      groups: [...Map.groupBy(fields, ({ group }) => group)].map(([legend, inner]) => ({
        legend,
        fields: inner,
      })),
      consequences: consequences(t, noun, verb),
      // Of a change, what is not touched stays: nothing has to be filled in.
      isChange: row.effect !== "create",
      isFinal: row.confirm === "final" || isTyped,
      typed: isTyped && {
        name: TYPED,
        kind: "text",
        required: true,
        options: undefined,
        hint: "",
        label: t("admin.typed.label", { name: typedName(acting) }),
        value: refused?.filled.get(TYPED) ?? "",
      },
      submit: label,
      cancel: recordAddress(request),
      isDanger: row.confirm === "final" || isTyped,
      what: oneOf(t, noun),
      ...acting.locals,
      ...acting.arrange?.(fields, refused?.filled),
    },
  };
}

/** Nothing is drawn that would only be refused. */
function blockedAnswer(request: ConsoleRequest, acting: Acting, why: string): ConsoleAnswer {
  const { t } = request;
  const { noun, verb, name } = acting;
  return {
    kind: "page",
    view: "console-text",
    heading: verbLabel(t, noun, verb),
    ...(name !== undefined && { lead: name }),
    crumbs: crumbsOf(request, acting),
    locals: {
      texts: [why],
      next: { href: recordAddress(request), label: t("admin.back", { name: name ?? "" }) },
    },
  };
}

function crumbsOf(request: ConsoleRequest, { entry, name, target }: Acting): readonly Crumb[] {
  const list = { label: nameOf(request.t, entry), href: `/${entry}` };
  if (target.length === 0 || name === undefined) return [list];
  return [list, { label: name, href: recordAddress(request) }];
}

/** What identifies the record, which the person types. */
const typedName = ({ target, typed }: Acting): string => typed ?? target.at(-1) ?? "";

/** Does what was sent: shows the form again, or goes to the record, or shows what is shown only once. */
export async function actAnswer(request: ConsoleRequest, acting: Acting, form: Form): Promise<ConsoleAnswer> {
  const { t, perform, path } = request;
  const { noun, entry, verb, row, target, record } = acting;
  const fields = allFields(request, acting, form);
  const refuse = (problems: readonly FormProblem[], status: number): ConsoleAnswer =>
    formAnswer(request, acting, { filled: form, problems, status });
  if (row.confirm === "typed" && form.get(TYPED)?.trim() !== typedName(acting))
    return refuse([{ fields: [TYPED], text: t("admin.typed.wrong", { what: oneOf(t, noun) }) }], 422);
  const missing = missingIn(t, acting, fields, form);
  if (missing.length > 0) {
    // Everything that is wrong is said at once.
    const problems = readableProblems(request, acting, fields, form);
    const others = problems.filter(({ fields: [name] }) => !missing.some((each) => each.fields[0] === name));
    return refuse([...missing, ...others], 422);
  }
  const about = isNamed(row) ? row.target.map((name) => form.get(name)?.trim() ?? "") : target;
  const tag = form.get("tag") ?? "";
  const once = row.secret === undefined ? "" : (form.get(ONCE) ?? "");
  try {
    const performed = perform(noun, verb, {
      target: about,
      input: inputFrom(row, form, { record, without: acting.leaves?.(form), clock: request }),
      ...(tag !== "" && { ifMatch: tag }),
      ...(once !== "" && { idempotencyKey: once }),
    });
    const { goesOn } = acting;
    const done = goesOn === undefined ? await performed : await briefly(performed, goesOn.onDefect);
    if (done === undefined) return { kind: "go", to: path, ...(goesOn && { notice: goesOn.notice }) };
    const { result } = done;
    if (isFile(result)) return { kind: "file", ...result };
    const isMissing = result === undefined && row.output !== NONE;
    if (isMissing || result === false) throw new NotFound(`the ${oneOf(t, noun)}`);
    const secret = shownOnce(row, result);
    const made = identityOf(row, result, about);
    const to =
      row.path !== undefined
        ? path
        : row.effect === "remove"
          ? `/${entry}`
          : row.effect === "create"
            ? `/${entry}/${segmentOf(made)}`
            : path;
    if (secret.length > 0) return secretAnswer(request, acting, secret, to, made);
    return {
      kind: "go",
      to,
      notice: acting.said?.(result) ?? {
        code: noticeOf(t, noun, verb),
        values: noticeValues(noun, verb, made, t),
      },
    };
  } catch (error) {
    if (error instanceof UnreadableField)
      return refuse([{ fields: [error.field], text: t(error.message) }], 422);
    if (error instanceof InvalidArgument) return refuse(problemsAt(t, fields, error.problems), 422);
    if (!(error instanceof SignInError) || isOfPage(error)) throw error;
    if (error.code === "secret_already_shown") return shownAnswer(request, acting);
    if (error instanceof InvalidPassword)
      return refuse([{ fields: ["password"], text: passwordText(request, error) }], 422);
    const taken =
      error.code === "already_exists" ? (fields.find(({ name }) => IDENTITIES.has(name))?.name ?? "") : "";
    const references = error instanceof StillReferenced ? error.references.join(", ") : "";
    const text = refusalText(t, error.code, { what: oneOf(t, noun), references });
    return refuse([{ fields: taken === "" ? [] : [taken], text }], error.code === "stale" ? 412 : 422);
  }
}

/** Which rule the password breaks, as the pages of people say it. */
function passwordText({ t, configuration }: ConsoleRequest, { problem }: InvalidPassword): string {
  const length = passwordLength(configuration.passwords, configuration.profile);
  return t(`problem.password.${problem}`, { ...length });
}

/** An operation can answer with a file instead of a record. */
const isFile = (result: unknown): result is AuditExport =>
  typeof result === "object" &&
  result !== null &&
  "body" in result &&
  Symbol.asyncIterator in Object(result.body);

/** How long a page waits for a long operation: less than a request may take. */
const WAIT_MS = 3_000;

/** The outcome; `undefined` when it goes on in the background, and the page does not wait any longer. */
export const briefly = <T>(work: Promise<T>, onDefect: (error: unknown) => void): Promise<T | undefined> =>
  within(WAIT_MS, work, () => void work.catch(onDefect));

/** Members that name what is made. */
const IDENTITIES: ReadonlySet<string> = new Set(["client_id", "key", "identifier"]);

/** The answer to a form with a secret that is sent again, as reloading its page does. */
function shownAnswer(request: ConsoleRequest, acting: Acting): ConsoleAnswer {
  const { t, path } = request;
  return {
    kind: "page",
    view: "console-text",
    heading: t("admin.secret.shown"),
    crumbs: crumbsOf(request, acting),
    status: 409,
    locals: {
      texts: [t("admin.problem.secret_already_shown")],
      next: { href: path, label: t("admin.secret.on") },
    },
  };
}

/** The members that have to be filled in here, and are not. */
function missingIn(
  t: Translator,
  { required = [], needs }: Acting,
  fields: readonly ConsoleField[],
  form: Form,
): readonly FormProblem[] {
  const needed = [...required, ...(needs?.(form) ?? [])];
  const empty = needed.filter((name) => (form.get(name) ?? "").trim() === "");
  return empty.map((name) => {
    const text = t("admin.problem.required");
    const label = fields.find((field) => field.name === name)?.label ?? name;
    return { fields: [name], text, label: `${label}: ${text}` };
  });
}

/** What the row says of the input, before anything is done. */
function readableProblems(
  request: ConsoleRequest,
  { row, record, leaves }: Acting,
  fields: readonly ConsoleField[],
  form: Form,
): readonly FormProblem[] {
  try {
    checked("input", row.input, inputFrom(row, form, { record, without: leaves?.(form), clock: request }));
    return [];
  } catch (error) {
    if (error instanceof InvalidArgument) return problemsAt(request.t, fields, error.problems);
    if (error instanceof UnreadableField) return [{ fields: [error.field], text: request.t(error.message) }];
    throw error;
  }
}

/** What the page as a whole answers, rather than its form. */
const PAGE_CODES: ReadonlySet<string> = new Set([
  "not_found",
  "role_required",
  "limit_reached",
  "operator_protected",
]);

const isOfPage = (error: SignInError): boolean =>
  error instanceof StorageUnavailable || PAGE_CODES.has(error.code);

/** The member of the answer that names what was made. */
function identityOf(row: AnyRow, result: unknown, target: readonly string[]): string {
  const made = Object(result) as Readonly<Record<string, unknown>>;
  const found = ["client_id", "id", "key", "identifier", "sub"].map((name) => made[name]);
  return target[0] ?? found.find((each) => typeof each === "string") ?? "";
}

function noticeOf(t: Translator, noun: string, verb: string): string {
  return t.has(`admin.notice.${noun}.${verb}`) ? `${noun}.${verb}` : "done";
}

function noticeValues(
  noun: string,
  verb: string,
  name: string,
  t: Translator,
): Readonly<Record<string, string>> {
  return t.has(`admin.notice.${noun}.${verb}`) ? { name } : { verb: verbLabel(t, noun, verb) };
}

type Translator = ConsoleRequest["t"];

/** The members of the answer that nobody can read again. */
function shownOnce(row: AnyRow, result: unknown): readonly (readonly [string, string])[] {
  const made = Object(result) as Readonly<Record<string, unknown>>;
  return (row.secret ?? []).flatMap((name) => {
    const value = made[name];
    return typeof value === "string" ? [[name, value] as const] : [];
  });
}

/** The answer to the form itself: no address shows it again. */
function secretAnswer(
  request: ConsoleRequest,
  { noun, entry, verb, locals }: Acting,
  secrets: readonly (readonly [string, string])[],
  to: string,
  name: string,
): ConsoleAnswer {
  const { t } = request;
  return {
    kind: "page",
    view: "console-secret",
    heading: t("admin.secret.title", { name }),
    crumbs: [
      { label: nameOf(t, entry), href: `/${entry}` },
      { label: name, href: to },
    ],
    locals: {
      verb: verbLabel(t, noun, verb),
      secrets: secrets.map(([member, value]) => ({ label: memberLabel(t, member), value })),
      settings: locals?.["settings"] ?? [],
      clientId: noun === "clients" ? name : "",
      next: to,
    },
  };
}
