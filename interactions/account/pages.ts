/** The table of the pages under `{base}/account`. */
import type { SignedIn } from "../../lib/provider/account.ts";
import { createAnswers, sendPage } from "../answers.ts";
import type { Pages } from "../pages.ts";
import { type AccountContext, type AccountGate, type AccountRequest, CALLBACK_PATH } from "./gate.ts";

type Handler = (ctx: AccountContext, request: AccountRequest) => Promise<void>;

/** A page; its path answers 405 to other methods. */
export interface AccountPage {
  /** Below the base URL; `:uid` at the end stands for one segment. */
  readonly path: string;
  readonly methods: Readonly<Record<string, Handler>>;
}

/** Handles a request of a person who is an operator. */
export type OperatorHandler = (
  ctx: AccountContext,
  request: AccountRequest,
  operator: SignedIn,
) => Promise<void>;

/** A page for operators only. */
export interface OperatorPage {
  readonly path: string;
  readonly methods: Readonly<Record<string, OperatorHandler>>;
}

/** What the account pages are built from. */
export interface AccountPagesParts {
  readonly pages: Pages;
  readonly gate: AccountGate;
  /** The `sub` of every operator. Without operators, their pages do not exist. */
  readonly operators: readonly string[];
  /** The account page links to the first one. */
  readonly operatorPages: readonly OperatorPage[];
}

export function createAccountPages(parts: AccountPagesParts): readonly AccountPage[] {
  const { gate, operators } = parts;
  const personal: readonly AccountPage[] = [
    { path: "/account", methods: { GET: accountPage(parts) } },
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
  ];
  if (operators.length === 0) return personal;
  const guarded = guard(parts);
  const forOperators = parts.operatorPages.map(({ path, methods }) => ({
    path,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [method, guarded(handler)]),
    ),
  }));
  return [...personal, ...forOperators];
}

function accountPage({ pages, gate, operators, operatorPages: [first] }: AccountPagesParts): Handler {
  return async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return;
    const { kind, path } = ctx.state.deployment;
    const { email, sub } = person.account;
    const html = await pages.account({
      ...pages.visit(ctx),
      account: email,
      sub,
      ...(first !== undefined && operators.includes(sub) && { deliveries: path + first.path }),
      ...(kind === "openid" && { signOut: `${path}/oauth2/logout` }),
    });
    sendPage(ctx, pages, { status: 200, html });
  };
}

/** Admits operators; everybody else who is signed in gets a 403. */
function guard({ pages, gate, operators }: AccountPagesParts): (handler: OperatorHandler) => Handler {
  const answers = createAnswers(pages);
  return (handler) => async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return undefined;
    if (operators.includes(person.account.sub)) return handler(ctx, request, person);
    return answers.error(ctx, { status: 403, error: "not_an_operator" });
  };
}
