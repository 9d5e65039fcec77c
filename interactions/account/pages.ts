/** The table of the pages under `{base}/account`. */
import type { ServiceContext } from "../../provider/exchange.ts";
import type { AccountHandler, AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { SignedIn } from "../../provider/account.ts";
import type { Page, Pages } from "../page.ts";
import type { Locals } from "../look/views.ts";
import { deletePage, type DeletePageParts, signedOutPage, signOut, type SignOutParts } from "./delete.ts";
import { type AccountGate, CALLBACK_PATH } from "./gate.ts";
import { type EmailPageParts, emailPages } from "./email.ts";
import { passwordPage, type PasswordPageParts } from "./password.ts";
import {
  createPersonPages,
  HOME,
  personLocals,
  type PersonLocals,
  type PersonPage,
  type PersonPagesParts,
} from "./person-pages.ts";
import { profilePage, type ProfilePageParts } from "./profile.ts";
import type { AccountSeals } from "./seals.ts";
import { servicesPage, type ServicesPageParts } from "./services.ts";
import { sessionsPage, type SessionsPageParts } from "./sessions.ts";

/** Handles a request of a person who is an operator. */
export type OperatorHandler = (
  ctx: ServiceContext,
  request: AccountRequest,
  operator: SignedIn,
) => Promise<void>;

/** A page for operators only. */
export interface OperatorPage {
  readonly path: string;
  readonly methods: Readonly<Record<string, OperatorHandler>>;
}

/** What operators and their pages are built from. */
export interface OperatorPagesParts {
  readonly pages: Pages;
  readonly gate: AccountGate;
  /** The `sub` of every operator. Without operators, their pages do not exist. */
  readonly operators: readonly string[];
  /** The account page links to the first one. */
  readonly operatorPages: readonly OperatorPage[];
}

/** What the account pages are built from. */
export type AccountPagesParts = OperatorPagesParts &
  PersonPagesParts &
  ProfilePageParts &
  EmailPageParts &
  PasswordPageParts &
  SessionsPageParts &
  ServicesPageParts &
  DeletePageParts &
  SignOutParts & { readonly seals: AccountSeals };

export function createAccountPages(parts: AccountPagesParts): readonly AccountPage[] {
  const { gate } = parts;
  return [
    ...createPersonPages(parts, [
      overviewPage(parts),
      profilePage(parts),
      ...emailPages(parts),
      passwordPage(parts),
      sessionsPage(parts),
      servicesPage(parts),
      deletePage(parts),
    ]),
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
    signedOutPage(parts),
    ...createOperatorPages(parts),
  ];
}

/** `account`: who is signed in, links to the other pages, and a form that signs out. */
interface AccountLocals extends PersonLocals {
  readonly email: string;
  /** Given name and family name. */
  readonly fullName: string;
  readonly sub: string;
  /** Whether the address can be changed. */
  readonly canChangeEmail: boolean;
  /** Path of the delivery console, for operators. */
  readonly deliveries?: string;
}

export const accountPage: Page<AccountLocals> = {
  view: "account",
  locals(t, locals) {
    const { base, email, fullName, sub, canChangeEmail, deliveries } = locals;
    const way = (page: string): Locals => ({
      href: `${base}/account/${page}`,
      label: t(`account.${page}`),
      hint: t(`account.${page}.hint`),
    });
    const console = { href: deliveries, label: t("account.deliveries"), hint: t("account.deliveries.hint") };
    const ways = [
      way("profile"),
      ...(canChangeEmail ? [way("email")] : []),
      way("password"),
      way("sessions"),
      way("services"),
      ...(deliveries === undefined ? [] : [console]),
      way("delete"),
    ];
    return {
      ...personLocals(t, locals, t("account.title")),
      // It is the first page.
      back: "",
      action: `${base}/account`,
      email,
      fullName,
      sub,
      ways,
    };
  },
};

/** Who is signed in, and the way to all other pages. Its form signs out. */
function overviewPage(
  parts: OperatorPagesParts & SignOutParts & Pick<EmailPageParts, "addressChanges">,
): PersonPage {
  const {
    operators,
    operatorPages: [first],
    addressChanges,
  } = parts;
  return {
    path: HOME,
    isUnlimited: true,
    show({ ctx, locals, person, send }) {
      const { email, name, surname, sub } = person.account;
      const { path } = ctx.exchange.deployment;
      send(accountPage, {
        ...locals,
        email,
        sub,
        canChangeEmail: addressChanges !== undefined,
        fullName: [name, surname].filter(Boolean).join(" "),
        ...(first !== undefined && operators.includes(sub) && { deliveries: path + first.path }),
      });
    },
    submit: signOut(parts),
  };
}

/** Admits operators; everybody else who is signed in gets a 403. */
export function createOperatorPages({
  pages,
  gate,
  operators,
  operatorPages,
}: OperatorPagesParts): readonly AccountPage[] {
  if (operators.length === 0) return [];
  const guarded =
    (handler: OperatorHandler): AccountHandler =>
    async (ctx, request) => {
      const person = await gate.enter(ctx, request);
      if (person === undefined) return undefined;
      if (operators.includes(person.account.sub)) return handler(ctx, request, person);
      return pages.error(ctx, { status: 403, error: "not_an_operator" });
    };
  return operatorPages.map(({ path, methods }) => ({
    path,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [method, guarded(handler)]),
    ),
  }));
}
