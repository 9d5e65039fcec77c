/** The table of the pages under `{base}/account`. */
import type { ServiceContext } from "../../provider/exchange.ts";
import type { AccountHandler, AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { Configuration } from "../../config/configuration.ts";
import { allows, isOperator, type OperatorRole, roleOf, type RoleRule } from "../../config/operators.ts";
import { hasShownSecondFactor } from "../../provider/authentication.ts";
import type { SignedIn } from "../../provider/account.ts";
import { devicePage } from "./device.ts";
import { deletePage, signedOutPage } from "./delete.ts";
import { CALLBACK_PATH } from "./gate.ts";
import { emailPages } from "./email.ts";
import { identityPages } from "./identity-pages.ts";
import { linkPage } from "./link-identity.ts";
import { overviewPage } from "./overview.ts";
import { newFactorPages } from "./new-factor.ts";
import { passwordPage } from "./password.ts";
import { createPersonPages, type PersonPage, type PersonServices } from "./person-pages.ts";
import { seeOther } from "../answers.ts";
import { profilePage } from "./profile.ts";
import { servicesPage } from "./services.ts";
import { sessionsPage } from "./sessions.ts";
import { methodsPages } from "./sign-in-methods.ts";

/** A signed-in person who is an operator. */
export interface Operator extends SignedIn {
  readonly role: OperatorRole;
}

/** Handles a request of a person who is an operator. */
export type OperatorHandler = (
  ctx: ServiceContext,
  request: AccountRequest,
  operator: Operator,
) => Promise<void>;

/** A page for operators only. */
export interface OperatorPage {
  readonly path: string;
  /** Which operators it is for. */
  readonly needs: RoleRule;
  readonly methods: Readonly<Record<string, OperatorHandler>>;
}

/** The pages of the signed-in person, in the order of the navigation. To add one, add a row and a file. */
export const PERSON_PAGES: readonly PersonPage[] = [
  overviewPage,
  profilePage,
  ...emailPages,
  passwordPage,
  ...methodsPages,
  ...identityPages,
  linkPage,
  ...newFactorPages,
  sessionsPage,
  servicesPage,
  deletePage,
  devicePage,
];

/** @param operatorPages the account page links to the first one. Without operators they do not exist. */
export function createAccountPages(
  services: Omit<PersonServices, "console">,
  operatorPages: readonly OperatorPage[],
): readonly AccountPage[] {
  const { gate } = services;
  return [
    ...createPersonPages({ ...services, console: operatorPages[0]?.path }, PERSON_PAGES),
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
    signedOutPage(services),
    ...createOperatorPages(services, operatorPages),
  ];
}

/**
 * Admits operators with a role that the page is for; everybody else who is signed in gets a 403. With `profile: strict`, an operator shows a second factor
 * first, before a form that was sent is read.
 */
function createOperatorPages(
  {
    pages,
    gate,
    configuration,
  }: Pick<PersonServices, "pages" | "gate"> & {
    readonly configuration: Pick<Configuration, "admin" | "operators" | "profile">;
  },
  operatorPages: readonly OperatorPage[],
): readonly AccountPage[] {
  if (Object.keys(configuration.operators).length === 0) return [];
  const guarded =
    (handler: OperatorHandler, needs: RoleRule): AccountHandler =>
    async (ctx, request) => {
      const person = await gate.enter(ctx, request);
      if (person === undefined) return undefined;
      const { account, acr } = person;
      const role = roleOf(configuration, account.sub);
      if (role === undefined) return pages.error(ctx, { status: 403, error: "not_an_operator" });
      if (!allows(role, needs)) return pages.error(ctx, { status: 403, error: "role_required" });
      if (configuration.profile === "strict" && !hasShownSecondFactor(acr, account))
        return gate.demandSecondFactor(ctx, request);
      return handler(ctx, request, { ...person, role });
    };
  const { admin } = configuration;
  /** The console is elsewhere: operators are led there, and nobody else learns that there is one. */
  const elsewhere: AccountHandler = async (ctx) => {
    const person = await gate.find(ctx);
    if (admin === undefined || person === undefined || !isOperator(configuration, person.account.sub))
      return pages.error(ctx, { status: 404, error: "not_found" });
    return seeOther(ctx, admin.url);
  };
  return operatorPages.map(({ path, methods, needs }) => ({
    path,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [
        method,
        admin === undefined ? guarded(handler, needs) : elsewhere,
      ]),
    ),
  }));
}
