/** The table of the pages under `{base}/account`. */
import type { ServiceContext } from "../../provider/exchange.ts";
import type { AccountHandler, AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { Configuration } from "../../config/configuration.ts";
import { hasShownSecondFactor } from "../../provider/authentication.ts";
import type { SignedIn } from "../../provider/account.ts";
import type { Pages } from "../page.ts";
import { devicePage, type DevicePageParts } from "./device.ts";
import { deletePage, type DeletePageParts, signedOutPage, type SignOutParts } from "./delete.ts";
import { type AccountGate, CALLBACK_PATH } from "./gate.ts";
import { type EmailPageParts, emailPages } from "./email.ts";
import { overviewPage } from "./overview.ts";
import { newFactorPages, type NewFactorPageParts } from "./new-factor.ts";
import { passwordPage, type PasswordPageParts } from "./password.ts";
import { createPersonPages, type PersonPagesParts } from "./person-pages.ts";
import { profilePage, type ProfilePageParts } from "./profile.ts";
import type { AccountSeals } from "./seals.ts";
import { servicesPage, type ServicesPageParts } from "./services.ts";
import { methodsPages, type MethodsPageParts } from "./sign-in-methods.ts";
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
  readonly profile: Configuration["profile"];
  /** The account page links to the first one. */
  readonly operatorPages: readonly OperatorPage[];
}

/** What the account pages are built from. */
export type AccountPagesParts = OperatorPagesParts &
  PersonPagesParts &
  ProfilePageParts &
  EmailPageParts &
  PasswordPageParts &
  MethodsPageParts &
  NewFactorPageParts &
  SessionsPageParts &
  ServicesPageParts &
  DevicePageParts &
  DeletePageParts &
  SignOutParts & { readonly seals: AccountSeals };

export function createAccountPages(parts: AccountPagesParts): readonly AccountPage[] {
  const {
    gate,
    operators,
    operatorPages: [first],
  } = parts;
  const console = first === undefined ? undefined : { path: first.path, operators };
  return [
    ...createPersonPages(parts, [
      overviewPage(parts, console),
      profilePage(parts),
      ...emailPages(parts),
      passwordPage(parts),
      ...methodsPages(parts),
      ...newFactorPages(parts),
      sessionsPage(parts),
      servicesPage(parts),
      deletePage(parts),
      devicePage(parts),
    ]),
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
    signedOutPage(parts),
    ...createOperatorPages(parts),
  ];
}

/**
 * Admits operators; everybody else who is signed in gets a 403. With `profile: strict`, an operator shows a second factor
 * first, before a form that was sent is read.
 */
export function createOperatorPages({
  pages,
  gate,
  operators,
  profile,
  operatorPages,
}: OperatorPagesParts): readonly AccountPage[] {
  if (operators.length === 0) return [];
  const guarded =
    (handler: OperatorHandler): AccountHandler =>
    async (ctx, request) => {
      const person = await gate.enter(ctx, request);
      if (person === undefined) return undefined;
      const { account, acr } = person;
      if (!operators.includes(account.sub))
        return pages.error(ctx, { status: 403, error: "not_an_operator" });
      if (profile === "strict" && !hasShownSecondFactor(acr, account))
        return gate.demandSecondFactor(ctx, request);
      return handler(ctx, request, person);
    };
  return operatorPages.map(({ path, methods }) => ({
    path,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [method, guarded(handler)]),
    ),
  }));
}
