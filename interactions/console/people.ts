/**
 * The console's pages about people: a form that finds one account by its exact name, the page of that account, and the removal of
 * second factors for somebody who has lost them (decisions.md, Lost factors).
 */
import { isOperator } from "../../config/operators.ts";
import { callerIn, type CallOptions } from "../../accounts/arguments.ts";
import { factorKey } from "../../accounts/factors/factor.ts";
import { type Factors, methodsOf } from "../../accounts/ways/ways.ts";
import { readName } from "../../accounts/names.ts";
import { subProblem } from "../../accounts/text-rules.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { OperatorHandler, OperatorPage } from "../account/pages.ts";
import { METHODS_PATH } from "../account/sign-in-methods.ts";
import { seeOther } from "../answers.ts";
import type { Form } from "../forms.ts";
import { attributesOf } from "../look/person-fields.ts";
import {
  callerAt,
  commonLocals,
  type ConsoleAction,
  consoleResult,
  languageOf,
  type OperatorServices,
  PEOPLE_NEEDS,
  receivedForm,
  resultAddress,
  submit,
} from "./console-pages.ts";
import { PEOPLE_PATH } from "./console-views.ts";
import { ALL, hasFactor, peoplePage, type PersonLocals, personPage, removalPage } from "./people-views.ts";

/** What the token of the form that finds a person is valid for. */
const FIND = ["findPerson"];

export function createPeoplePages(services: OperatorServices): readonly OperatorPage[] {
  const needs = PEOPLE_NEEDS;
  const onPerson = submit(services, (form, sub, operator) => removal(services, sub, form, operator));
  return [
    { path: PEOPLE_PATH, needs, methods: { GET: people(services), POST: find(services) } },
    {
      path: `${PEOPLE_PATH}/:uid`,
      needs,
      methods: { GET: person(services), POST: withRecentSignIn(services, onPerson) },
    },
  ];
}

/** Asks for a recent sign-in first. A form that was sent is lost. */
function withRecentSignIn({ gate }: OperatorServices, handler: OperatorHandler): OperatorHandler {
  return async (ctx, request, { role }) => {
    const operator = await gate.enterRecently(ctx, request);
    if (operator !== undefined) await handler(ctx, request, { ...operator, role });
  };
}

function people(services: OperatorServices): OperatorHandler {
  const { pages, seals } = services;
  return async (ctx, request, operator) => {
    const all = await commonLocals(services, ctx, request, operator);
    const data = { ...all, csrf: seals.token(operator, FIND) };
    pages.send(ctx, peoplePage, data, languageOf(operator));
  };
}

/** What is typed is personal data: it comes in the body, and the address of the answer has the `sub`. */
function find(services: OperatorServices): OperatorHandler {
  const { pages, seals, accounts } = services;

  /** A `sub` comes first, because a username may look like one. */
  async function accountNamed(typed: string): Promise<AccountRecord | undefined> {
    const name = readName(typed);
    const found =
      name !== undefined && subProblem(name) === undefined ? await accounts.record(name) : undefined;
    return found ?? accounts.recordByName(name);
  }

  return async (ctx, request, operator) => {
    const form = await receivedForm(services, ctx);
    if (form === undefined) return undefined;
    if (!seals.isToken(operator, FIND, form.get("csrf") ?? ""))
      return pages.error(ctx, { status: 403, error: "stale_form" });
    const typed = form.get("name") ?? "";
    const found = await accountNamed(typed);
    if (found !== undefined)
      return seeOther(ctx, `${ctx.exchange.deployment.url}${PEOPLE_PATH}/${found.sub}`);
    const all = await commonLocals(services, ctx, request, operator);
    const data = { ...all, csrf: seals.token(operator, FIND), unknown: typed };
    return pages.send(ctx, peoplePage, data, { ...languageOf(operator), status: 400 });
  };
}

/** The page of an account; with `remove`, the page that asks before a factor is removed. */
function person(services: OperatorServices): OperatorHandler {
  const { accounts, fields, storage, pages, seals, mailDeployment } = services;
  const { configuration } = services;
  const { providers } = configuration;

  const show: OperatorHandler = async (ctx, request, operator) => {
    const { id: sub, query } = request;
    // The record comes first: a form with its generation is outdated if the factors change before they are read.
    const account = subProblem(sub) === undefined ? await accounts.record(sub) : undefined;
    const owned = account && (await accounts.ownedWays(sub));
    if (account === undefined || owned === undefined)
      return pages.error(ctx, { status: 404, error: "no_person" });
    // Nobody removes an identity here.
    const { identities = [], ...factors } = owned;
    const key = query.get("remove");
    const isProtected = isOperator(configuration, sub);
    if (key !== undefined && (isProtected || !hasFactor(factors, key))) {
      const refusal = consoleResult(isProtected ? "operatorKept" : "factorGone");
      const page = `${PEOPLE_PATH}/${sub}`;
      return seeOther(ctx, resultAddress(ctx, { page }, seals, operator, refusal));
    }
    // Nobody looks at an account without a record of it.
    await storage.audit.append({ ...callerAt(ctx, operator), action: "account.viewed", subject: sub });
    const shown = { ...(await commonLocals(services, ctx, request, operator)), person: account, factors };
    if (key === undefined) {
      const protection = sub === operator.account.sub ? "own" : "operator";
      const protectedAs: PersonLocals["protectedAs"] = isProtected ? protection : undefined;
      const methods = ctx.exchange.deployment.path + METHODS_PATH;
      const attributes = attributesOf(fields.rows, account);
      const data = { ...shown, methods, protectedAs, attributes, identities, providers };
      return pages.send(ctx, personPage, data, languageOf(operator));
    }
    const generation = String(account.sessions_generation);
    const csrf = seals.token(operator, removalOf(sub, key, generation));
    const data = { ...shown, factor: key, generation, csrf, isMailed: mailDeployment !== undefined };
    return pages.send(ctx, removalPage, data, languageOf(operator));
  };

  const ask = withRecentSignIn(services, show);
  return (ctx, request, operator) => (request.query.has("remove") ? ask : show)(ctx, request, operator);
}

/** The removal, for the token of its form: of one factor, of the account as the page has shown it. */
function removalOf(sub: string, factor: string, generation: string): readonly string[] {
  return ["removeFactor", sub, factor, generation];
}

/** A form sends `action` = `remove`, with the `factor` and the `generation` of the account. */
function removal(
  { accounts, configuration }: OperatorServices,
  sub: string,
  form: Form,
  operator: CallOptions,
): ConsoleAction | undefined {
  const factor = form.get("factor") ?? "";
  const generation = form.get("generation") ?? "";
  if (form.get("action") !== "remove") return undefined;

  async function remove(): Promise<string> {
    // Since the form was shown, the configuration may have made an operator of the person.
    if (isOperator(configuration, sub)) return "operatorKept";
    const factors = await accounts.factors(sub);
    if (factors === undefined || !hasFactor(factors, factor)) return "factorGone";
    const which = factor === ALL ? undefined : idOf(factors, factor);
    const { kind } = await accounts.removeFactorsOf(sub, which, Number(generation), callerIn(operator));
    if (kind === "changed") return factor === ALL ? "factorsRemoved" : "factorRemoved";
    if (kind === "last_sign_in_method") return "lastMethod";
    return kind === "stale" ? "personChanged" : "factorGone";
  }

  return {
    needs: PEOPLE_NEEDS,
    proof: removalOf(sub, factor, generation),
    page: `${PEOPLE_PATH}/${sub}`,
    act: async () => consoleResult(await remove()),
  };
}

/** The id of the factor with this key. */
function idOf(factors: Factors, key: string): string {
  return methodsOf(factors).find(({ id }) => factorKey(id) === key)?.id ?? "";
}
