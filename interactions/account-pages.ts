/** Pages under `{base}/account`, each with its path and what answers each method. */
import type { SignedIn } from "../lib/provider/account.ts";
import { CALLBACK_PATH, type AccountContext, type AccountGate, type AccountRequest } from "./account-gate.ts";
import { createAnswers, sendPage } from "./answers.ts";
import type { Pages } from "./pages.ts";

type Answer = (ctx: AccountContext, request: AccountRequest) => Promise<void>;

/** A page: other methods than its own are wrong for its path. */
export interface AccountPage {
  /** Below the base URL; `:uid` at the end stands for one segment. */
  readonly path: string;
  readonly methods: Readonly<Record<string, Answer>>;
}

/** Answers somebody of whom it is known that they are an operator. */
export type OperatorAnswer = (
  ctx: AccountContext,
  request: AccountRequest,
  operator: SignedIn,
) => Promise<void>;

/** A page for operators alone. */
export interface OperatorPage {
  readonly path: string;
  readonly methods: Readonly<Record<string, OperatorAnswer>>;
}

/** What the pages work with. */
export interface AccountPagesParts {
  readonly pages: Pages;
  readonly gate: AccountGate;
  /** `sub` of everybody who may see the operators' pages. Nobody: those pages are not there. */
  readonly operators: readonly string[];
  /** The first of them is the one that the account page leads to. */
  readonly operatorPages: readonly OperatorPage[];
}

/** Every page that there is. */
export function createAccountPages(parts: AccountPagesParts): readonly AccountPage[] {
  const { gate, operators } = parts;
  const own: readonly AccountPage[] = [
    { path: "/account", methods: { GET: home(parts) } },
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
  ];
  if (operators.length === 0) return own;
  const guarded = guard(parts);
  const theirs = parts.operatorPages.map(({ path, methods }) => ({
    path,
    methods: Object.fromEntries(Object.entries(methods).map(([method, answer]) => [method, guarded(answer)])),
  }));
  return [...own, ...theirs];
}

function home({ pages, gate, operators, operatorPages: [first] }: AccountPagesParts): Answer {
  return async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return;
    const { kind, path } = ctx.state.deployment;
    const { email, sub } = person.account;
    const html = await pages.account({
      locale: pages.localeOf(ctx),
      account: email,
      sub,
      ...(first !== undefined && operators.includes(sub) && { deliveries: path + first.path }),
      ...(kind === "openid" && { signOut: `${path}/oauth2/logout` }),
    });
    sendPage(ctx, pages, { status: 200, html });
  };
}

/** Lets operators in; everybody else is told that this is not for them, whatever they asked for. */
function guard({ pages, gate, operators }: AccountPagesParts): (answer: OperatorAnswer) => Answer {
  const answers = createAnswers(pages);
  return (answer) => async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return undefined;
    if (operators.includes(person.account.sub)) return answer(ctx, request, person);
    return answers.error(ctx, { status: 403, error: "not_an_operator" });
  };
}
