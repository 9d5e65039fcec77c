/** What a page of the console is given, and what it answers. */
import type { ParameterizedContext } from "koa";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import type { Role, RoleRule } from "../../config/operators.ts";
import type { AuditExport } from "../../records/audit/audit-export.ts";
import { SignInError } from "../../core/errors.ts";
import type { Health } from "../../records/health.ts";
import type { Translator } from "../../core/texts.ts";
import type { Form } from "../../interactions/forms.ts";
import type { Moments } from "../../interactions/look/moments.ts";
import type { Locals } from "../../interactions/look/views.ts";
import type { SignedIn } from "../../provider/account.ts";
import type { Exchange } from "../../provider/exchange.ts";
import type { Administrator } from "../administrator.ts";
import type { Perform } from "../perform.ts";

/** The parts of an exchange that a request to the console has. Its deployment is the listener. */
export type ConsoleContext = ParameterizedContext & {
  readonly exchange: Pick<Exchange, "requestId" | "address" | "isHead" | "form"> & {
    readonly deployment: Pick<Deployment, "url" | "path" | "secure">;
  };
};

/** An operator who is signed in to the console. */
export interface Operator extends SignedIn {
  readonly who: Administrator;
  /** Names this sign-in to the console: forms and sealed addresses belong to it. */
  readonly id: string;
  /** When it ends however much it is used, in milliseconds since the epoch. */
  readonly until: number;
}

/** A sentence for the next page: a text `admin.notice.<code>`, or else `console.result.<code>`, and its values. */
export interface Notice {
  readonly code: string;
  readonly values?: Readonly<Record<string, string | number>>;
  /** Something was refused. */
  readonly isBad?: true;
}

/** What the console shows: all that a view prints inside the frame. */
export interface ConsoleView {
  /** The name of the view, without `.ejs`. */
  readonly view: string;
  readonly heading: string;
  /** The title of the tab, where the heading names a person. Default: the heading. */
  readonly tabTitle?: string;
  /** The way here, without the page itself: section, list, record. */
  readonly crumbs?: readonly Crumb[];
  /** Under the heading. */
  readonly lead?: string;
  /** Beside the heading: how it stands. */
  readonly badge?: Badge;
  /** At the end of the head: links and forms of what the page recommends. */
  readonly actions?: readonly HeadAction[];
  /** A script of the page itself, which works without it. */
  readonly script?: string;
  /** Everything else that the view prints. */
  readonly locals?: Locals;
  /** Default: 200. */
  readonly status?: number;
  /** Seconds, for `Retry-After`. */
  readonly retryAfter?: number;
}

export interface Crumb {
  readonly label: string;
  readonly href: string;
}

/** A state in words, with its tone. */
export interface Badge {
  readonly text: string;
  readonly tone: "good" | "bad" | "warning" | "busy" | "";
}

/** A link, or a form with one button, in the head of a page. */
export interface HeadAction {
  readonly label: string;
  /** Where the link leads, or where the form goes. */
  readonly href: string;
  /** A form: its token, and what it does. */
  readonly form?: { readonly csrf: string; readonly action: string };
  readonly isPrimary?: boolean;
}

export type ConsoleAnswer =
  | ({ readonly kind: "page" } & ConsoleView)
  /** A file to keep. */
  | ({ readonly kind: "file" } & Pick<AuditExport, "type" | "name" | "body">)
  /** 303 to an address of the console. */
  | { readonly kind: "go"; readonly to: string; readonly notice?: Notice }
  /** The operator signs in again first, and comes back to this address. What was entered is lost. */
  | { readonly kind: "recent" };

/** A page or an operation needs another role. */
export class RoleRequired extends SignInError {
  /** The least role that has it. */
  readonly needed: ConsoleRole;

  constructor(needed: ConsoleRole) {
    super("role_required", `this needs the role ${needed}`);
    this.needed = needed;
  }
}

/** Of the token of a form where `action` is something that people fill in. */
export const ANY_ACTION = "*";

export interface ConsoleRequest {
  readonly ctx: ConsoleContext;
  /** The path of the page, as links have it. */
  readonly path: string;
  /** The address of the page, for its forms: the path with its query, without what the frame reads. */
  readonly here: string;
  /** The identifiers in the path. */
  readonly params: readonly string[];
  /** Without what the frame reads: `lang`, `zone`, `times` and `result`. */
  readonly query: URLSearchParams;
  readonly operator: Operator;
  readonly t: Translator;
  readonly configuration: Configuration;
  /** How the parts of the service are. */
  readonly health: () => Promise<Health>;
  /** What the page before has done. */
  readonly notice: Notice | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The time zone of this browser. */
  readonly zone: string;
  readonly moments: Moments;
  /** Whether the operator has signed in within the last five minutes. */
  readonly isRecent: boolean;
  /**
   * The hidden field `csrf` of a form, valid for one action at one address in this sign-in.
   * @param action the field `action` of the form, or `ANY_ACTION`. Default: it has none.
   */
  readonly token: (to: string, action?: string) => string;
  /** Whether a form of this address, which was sent now, has its token. */
  readonly isToken: (presented: string, action?: string) => boolean;
  /** Seals a text for an address, which only this operator can open here. */
  readonly seal: (purpose: string, text: string) => string;
  /** `undefined` unless it was sealed for this purpose in this sign-in. */
  readonly open: (purpose: string, sealed: string) => string | undefined;
  /** An operation in the name of the operator, by all its rules. @throws SignInError with a code of `ERRORS`. */
  readonly perform: (
    noun: string,
    verb: string,
    request?: Partial<Omit<Parameters<Perform>[3], "origin">>,
  ) => ReturnType<Perform>;
  /** Whether the operator can open the pages of an entry of the sidebar. */
  readonly opens: (entry: string) => boolean;
  /** @throws RoleRequired unless the operator may do what this row says. */
  readonly require: (row: RoleRule) => void;
}

/** Who may open a page: those with a role, or also those who only deal with deliveries. */
export type ConsoleRole = Role | "deliveries";

export type ConsoleHandler = (request: ConsoleRequest) => Promise<ConsoleAnswer>;

/** A page of the console. */
export interface ConsolePage {
  /** Below the address of the console: `/people/:sub`. A segment that begins with a colon is an identifier. */
  readonly path: string;
  /** The entry of the sidebar under which it is. Default: none. */
  readonly entry?: string;
  /** The least role. `deliveries`: everybody. */
  readonly role: ConsoleRole;
  readonly get: ConsoleHandler;
  /** A form of the page, whose token and origin are checked. */
  readonly post?: (request: ConsoleRequest, form: Form) => Promise<ConsoleAnswer>;
}

/** The parameter of a record's address with the filters of the list that led there: the way back keeps them. */
const LIST = "list";
const MAX_LIST = 2_000;

/** The address of a record, on a row of a list. */
export const fromList = ({ query }: Pick<ConsoleRequest, "query">, href: string): string =>
  query.size === 0 ? href : `${href}?${new URLSearchParams({ [LIST]: String(query) })}`;

/** The filters of the list that led to this page, for another page about the same record. */
export function keepingList(query: URLSearchParams): Readonly<Record<string, string>> {
  const list = query.get(LIST) ?? "";
  return list === "" || list.length > MAX_LIST ? {} : { [LIST]: list };
}

/** The address of the record that this page is about. */
export function recordAddress({ path, query }: Pick<ConsoleRequest, "path" | "query">): string {
  const kept = new URLSearchParams(keepingList(query));
  return kept.size === 0 ? path : `${path}?${kept}`;
}

/** The address of the list that led to this page, with its filters. @param list without them. */
export function listAddress(query: URLSearchParams, list: string): string {
  const filters = new URLSearchParams(keepingList(query)[LIST] ?? "");
  // What does something is no filter.
  for (const name of ["do", LIST, "result", "lost"]) filters.delete(name);
  return filters.size === 0 ? list : `${list}?${filters}`;
}

/** An identifier as a segment of a path: itself, or Base64url where a proxy could read it as something else. */
export function segmentOf(identifier: string): string {
  if (/^[\w~:-][\w.~:-]*$/.test(identifier) && !identifier.startsWith(ENCODED)) return identifier;
  return ENCODED + Buffer.from(identifier).toString("base64url");
}

const ENCODED = "b64:";

/** The identifier of a segment; `undefined` if it is none. */
export function identifierOf(segment: string): string | undefined {
  if (segment.startsWith(ENCODED)) {
    const bytes = Buffer.from(segment.slice(ENCODED.length), "base64url");
    const text = bytes.toString();
    return segment === ENCODED + bytes.toString("base64url") && isIdentifier(text) ? text : undefined;
  }
  try {
    const text = decodeURIComponent(segment);
    return isIdentifier(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

const isIdentifier = (text: string): boolean =>
  text !== "" && text !== "." && text !== ".." && !text.includes("\0") && !text.includes("\u{FFFD}");
