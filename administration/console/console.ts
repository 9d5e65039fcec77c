/** The console: finds the page of a request, who asks, and what they may see; and answers in the frame. */
import { Readable } from "node:stream";
import { allows, type OperatorRole } from "../../config/operators.ts";
import { SignInError, StorageUnavailable } from "../../core/errors.ts";
import { packageVersion } from "../../core/package-version.ts";
import { createEncrypter, createSigner, deriveKey, hmac } from "../../core/sealing.ts";
import { securityHeaders } from "../../core/security-headers.ts";
import { EndpointError } from "../../compat/errors.ts";
import { createBodyReader, readFields, readForm } from "../../compat/request-body.ts";
import { environmentOf } from "../../config/admin.ts";
import { type Form, isFromHere } from "../../interactions/forms.ts";
import { isRecent } from "../../interactions/account/gate.ts";
import { moments } from "../../interactions/look/moments.ts";
import { chooseTimeZone, showsExactTimes } from "../../interactions/look/time-zone.ts";
import type { SendOptions } from "../../interactions/page.ts";
import type { PageServices } from "../../interactions/services.ts";
import { callerOf } from "../../provider/exchange.ts";
import { createSignInSessions } from "../../provider/sessions/sessions.ts";
import type { AdministrationExchange, Surface } from "../exchange.ts";
import { type Noun, TABLES } from "../tables.ts";
import { derivedPages, type Tables } from "./derived/pages.ts";
import type { HealthParts } from "./health.ts";
import { framedPage, isEnough, type Outside, outsidePage } from "./frame.ts";
import { keysTodo } from "./applications/keys.ts";
import { LOOKS, ownPages, supportLooks } from "./pages.ts";
import {
  ANY_ACTION,
  type ConsoleAnswer,
  type ConsoleContext,
  type ConsolePage,
  type ConsoleRequest,
  type ConsoleView,
  identifierOf,
  keepingList,
  type Notice,
  type Operator,
  RoleRequired,
} from "./request.ts";
import { refusedView, unavailableView } from "./refused.ts";
import { notificationTodo } from "./notifications/actions.ts";
import { createConsoleSessions } from "./session.ts";
import { CALLBACK_PATH, createConsoleSignIn, deploymentOf, type SignInParts } from "./sign-in.ts";
import type { HourlyLimits } from "../limits.ts";
import type { Perform } from "../perform.ts";

/** What the console is made of. */
export type ConsoleParts = Pick<
  PageServices,
  | "accounts"
  | "audit"
  | "claims"
  | "backchannel"
  | "clients"
  | "clock"
  | "configuration"
  | "events"
  | "fields"
  | "keys"
  | "onDefect"
  | "pages"
  | "secondFactors"
  | "storage"
  | "webhooks"
> & {
  readonly perform: Perform;
  readonly hourly: Pick<HourlyLimits, "left">;
  readonly tokensEnding: HealthParts["tokensEnding"];
  readonly health: ConsoleRequest["health"];
  readonly mayOpenConsole: SignInParts["mayOpenConsole"];
  /** Default: the tables of operations. */
  readonly tables?: Tables;
};

/** The consoles of a service, each made with the first request to its address. */
export function consoleSurface(parts: ConsoleParts): Surface {
  const { admin } = parts.configuration;
  const consoles = new Map<string, Surface>();
  return async (ctx) => {
    const { url } = ctx.administration;
    let found = consoles.get(url);
    if (found === undefined) {
      found = createConsole(parts, { url, environment: admin?.environment ?? environmentOf(url) });
      consoles.set(url, found);
    }
    await found(ctx);
  };
}

/** Parameters of an address that the frame reads. */
const FRAME_PARAMETERS = ["lang", "zone", "times", "result", "lost"];

const SIGN_OUT = "/sign-out";

export interface ConsoleOptions {
  /** The address of the console: an origin. */
  readonly url: string;
  /** `admin.environment`. */
  readonly environment: string;
}

export function createConsole(parts: ConsoleParts, { url, environment }: ConsoleOptions): Surface {
  const { configuration, clock, health, keys, onDefect, pages, perform } = parts;
  const { documents, ...registered } = TABLES;
  // Nobody looks for clients that can't ask.
  const isOff = configuration.clients.metadataDocuments === undefined;
  const { tables = isOff ? registered : { ...registered, documents } } = parts;
  const purpose = (name: string) =>
    keys.forms.map((key) => deriveKey(hmac(key, name), `sign-in-service ${name}`));
  const encrypter = createEncrypter(purpose("administration console"));
  const signer = createSigner(purpose("administration forms"));
  const sessions = createSignInSessions(parts);
  const consoles = createConsoleSessions({ configuration, clock, sessions, encrypter }, url);
  const signIn = createConsoleSignIn(
    { ...parts, artifacts: parts.storage.artifacts, sessions, encrypter },
    consoles,
    url,
  );
  const table = [...ownPages(parts), ...derivedPages(tables, { ...LOOKS, ...supportLooks(parts) })];
  const find = createFind(table);
  const secure = url.startsWith("https:");
  const readBody = createBodyReader();
  const deployment = deploymentOf(configuration);
  /** What every frame says of the service. */
  const service = {
    environment,
    account: `${deployment.url}/account`,
    host: new URL(deployment.url).host,
    version: packageVersion(),
  };

  function see(ctx: ConsoleContext, location: string): void {
    ctx.redirect(location);
    ctx.status = 303;
    securityHeaders(ctx, { secure });
  }

  /** Answers people who are not signed in: they sign in, and come back. What a form sent is lost. */
  async function demandSignIn(ctx: ConsoleContext): Promise<void> {
    see(ctx, await signIn.begin(ctx, addressIn(ctx, ctx.method === "POST" ? { lost: "1" } : {})));
  }

  function requestOf(ctx: ConsoleContext, operator: Operator, found: Found | undefined): ConsoleRequest {
    const visit = pages.visit(ctx, languageOf(operator));
    const t = pages.translator(visit.locale);
    const zone = chooseTimeZone(ctx);
    const now = clock.now();
    const { actor, ...origin } = callerOf(ctx, operator.who.actor);
    const query = new URLSearchParams(ctx.querystring);
    for (const name of FRAME_PARAMETERS) query.delete(name);
    const context = (name: string): string => JSON.stringify(["console", name, operator.id, actor.id]);
    const formOf = (to: string, action: string): string => context(JSON.stringify(["form", to, action]));
    return {
      ctx,
      path: ctx.path,
      here: addressIn(ctx),
      params: found?.params ?? [],
      query,
      operator,
      t,
      configuration,
      health,
      notice: noticeIn(ctx, (sealed) => encrypter.decrypt(context(`notice ${ctx.path}`), sealed)),
      now,
      zone,
      moments: moments({ locale: t.locale, now, zone }),
      isRecent: isRecent(operator, clock),
      token: (to, action = "") => signer.sign(formOf(to, action)),
      isToken: (presented, action = "") => signer.verify(formOf(addressIn(ctx), action), presented),
      seal: (name, text) => encrypter.encrypt(context(name), text),
      open: (name, sealed) => encrypter.decrypt(context(name), sealed),
      perform: (noun, verb, { target = [], input = {}, ...more } = {}) =>
        perform(operator.who, noun as Noun, verb, { target, input, ...more, origin }),
      opens: (entry) => openTo(operator.who.role).has(entry),
      require(row) {
        if (!allows(operator.who.role, row)) throw new RoleRequired(row.role);
      },
    };
  }

  /** The entries whose first page this operator can open. */
  function openTo(role: OperatorRole): ReadonlySet<string> {
    const open = table.flatMap(({ path, entry, role: needed }) =>
      entry !== undefined && path === `/${entry}` && isEnough(role, needed) ? [entry] : [],
    );
    return new Set(open);
  }

  /**
   * The frame without the person: the storage does not say who this is. What the role opens is known without it, and each page asks
   * again.
   */
  function showUnavailable(ctx: ConsoleContext, role: OperatorRole): void {
    const { locale } = pages.visit(ctx);
    const here = addressIn(ctx);
    const view = unavailableView({ ctx, here, t: pages.translator(locale) });
    const frame = {
      ...service,
      operator: undefined,
      tokens: { find: "", signOut: "" },
      open: openTo(role),
      entry: undefined,
      todo: new Map(),
      find: undefined,
      notice: undefined,
      kept: [],
      now: clock.now(),
      zone: chooseTimeZone(ctx),
      isExact: showsExactTimes(ctx),
    };
    pages.send(ctx, framedPage(view.view), { view, frame }, { status: 503, retryAfter: 60 });
  }

  /** What waits for somebody, by entry. A page is not refused because the numbers beside it can't be read. */
  async function todoFor(
    request: ConsoleRequest,
    open: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, number>> {
    try {
      const [notifications, ending] = await Promise.all([
        open.has("deliveries") ? notificationTodo(parts.storage) : [],
        open.has("keys") ? keysTodo(request) : undefined,
      ]);
      return new Map([...notifications, ...(ending === undefined ? [] : [ending])]);
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error;
      return new Map();
    }
  }

  async function show(
    request: ConsoleRequest,
    page: ConsolePage | undefined,
    view: ConsoleView,
  ): Promise<void> {
    const { ctx, operator, query, now, zone, token } = request;
    const open = openTo(operator.who.role);
    const { status, retryAfter } = view;
    const data = {
      view,
      frame: {
        operator,
        tokens: { find: token("/search"), signOut: token(SIGN_OUT) },
        ...service,
        open,
        entry: page?.entry,
        todo: await todoFor(request, open),
        find: find("/search") !== undefined && operator.who.role !== "deliveries" ? "" : undefined,
        notice: request.notice,
        now,
        zone,
        isExact: showsExactTimes(ctx),
        kept: [...query],
      },
    };
    pages.send(ctx, framedPage(view.view), data, {
      ...languageOf(operator),
      ...(status !== undefined && { status }),
      ...(retryAfter !== undefined && { retryAfter }),
      ...(view.script !== undefined && { script: view.script }),
    });
  }

  async function give(request: ConsoleRequest, page: ConsolePage, reply: ConsoleAnswer): Promise<void> {
    const { ctx, seal } = request;
    switch (reply.kind) {
      case "page":
        return show(request, page, reply);
      case "file":
        securityHeaders(ctx, { secure });
        ctx.type = reply.type;
        ctx.set("Content-Disposition", `attachment; filename="${reply.name}"`);
        // Koa breaks off the answer if reading fails: nobody takes a part for the whole.
        ctx.body = Readable.from(reply.body);
        return;
      case "recent":
        return see(ctx, await signIn.begin(ctx, addressIn(ctx, ctx.method === "POST" ? { lost: "1" } : {})));
      case "go": {
        const target = new URL(reply.to, url);
        // Back on the record, or on another page about it: the way to its list stays.
        if (target.pathname === request.path)
          for (const [name, value] of Object.entries(keepingList(request.query)))
            target.searchParams.set(name, value);
        if (reply.notice)
          target.searchParams.set("result", seal(`notice ${target.pathname}`, JSON.stringify(reply.notice)));
        return see(ctx, url + target.pathname + target.search + target.hash);
      }
    }
  }

  /** An error as a page of the console. */
  async function refuse(
    request: ConsoleRequest,
    page: ConsolePage | undefined,
    error: unknown,
  ): Promise<void> {
    await show(request, page, refusedView(request, page?.entry, error));
  }

  async function act(request: ConsoleRequest, found: Found | undefined): Promise<void> {
    const { ctx, operator, isToken } = request;
    const page = found?.page;
    try {
      if (page === undefined) throw new SignInError("not_found", "no page has this address");
      if (!isEnough(operator.who.role, page.role)) throw new RoleRequired(page.role);
      if (ctx.method !== "POST") return await give(request, page, await page.get(request));
      if (page.post === undefined) throw new EndpointError(405, "invalid_request", "this page has no form");
      if (!isFromHere(ctx))
        throw new EndpointError(403, "invalid_request", "another site has sent this form");
      const form = await ctx.exchange.form();
      const token = form.get("csrf") ?? "";
      if (!isToken(token, form.get("action")) && !isToken(token, ANY_ACTION))
        throw new EndpointError(403, "invalid_request", "the form is not of this sign-in");
      // A form can come long after its head, and the session may have ended meanwhile.
      if ((await sessions.signedIn(operator.account.sub, operator.session)) === undefined)
        return await demandSignIn(ctx);
      return await give(request, page, await page.post(request, form));
    } catch (error) {
      return refuse(request, page, error);
    }
  }

  async function callback(ctx: ConsoleContext): Promise<void> {
    const ended = await signIn.finish(ctx);
    // The address with the code must not stay in the browser.
    if (ended.kind === "in") return see(ctx, url + ended.to);
    outside(ctx, ended.why, 403);
  }

  /** A page for people who are not signed in to the console. */
  function outside(ctx: ConsoleContext, why: Outside, status: number): void {
    pages.send(ctx, outsidePage, { why, account: `${deployment.url}/account` }, { status });
  }

  /** Ends the session of the service, and with it every sign-in to the console that came from it. */
  async function signOut(ctx: ConsoleContext, operator: Operator): Promise<void> {
    const { isToken } = requestOf(ctx, operator, undefined);
    const form = isFromHere(ctx) ? await ctx.exchange.form() : undefined;
    if (!isToken(form?.get("csrf") ?? "")) return see(ctx, `${url}/`);
    const caller = callerOf(ctx, operator.who.actor);
    await sessions.end(operator.account.sub, operator.session, { caller, reason: "signed_out" });
    consoles.forget(ctx);
    outside(ctx, "signed-out", 200);
  }

  async function answer(ctx: ConsoleContext, exchange: AdministrationExchange): Promise<void> {
    const { path, method } = ctx;
    if (!["GET", "HEAD", "POST"].includes(method)) {
      ctx.status = 405;
      ctx.set("Allow", "GET, HEAD, POST");
      return securityHeaders(ctx, { secure });
    }
    if (path === "/pages.js") return script(ctx);
    if (path === CALLBACK_PATH && method !== "POST") return callback(ctx);
    const operator = await consoles.find(ctx);
    if (operator === undefined) return demandSignIn(ctx);
    exchange.actor = operator.who.actor;
    if (path === SIGN_OUT && method === "POST") return signOut(ctx, operator);
    const found = find(path);
    return act(requestOf(ctx, operator, found), found);
  }

  function script(ctx: ConsoleContext): void {
    ctx.type = "text/javascript; charset=utf-8";
    ctx.body = pages.script.text;
    securityHeaders(ctx, { secure });
    ctx.set("Cache-Control", "public, max-age=31536000, immutable");
  }

  return async (koa) => {
    const { requestId, address } = koa.administration;
    let form: Promise<Form> | undefined;
    const ctx = Object.assign(koa, {
      exchange: {
        requestId,
        address,
        isHead: koa.method === "HEAD",
        deployment: { url, path: "", secure },
        form: () => (form ??= readForm(readFields(koa, readBody))),
      },
    });
    try {
      await answer(ctx, koa.administration);
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) onDefect(error);
      const role = error instanceof StorageUnavailable ? consoles.roleIn(ctx) : undefined;
      if (role === undefined) outside(ctx, "unavailable", 503);
      else showUnavailable(ctx, role);
      ctx.set("Retry-After", "60");
    }
  };
}

function noticeIn(ctx: ConsoleContext, open: (sealed: string) => string | undefined): Notice | undefined {
  const all = new URLSearchParams(ctx.querystring);
  if (all.has("lost")) return { code: "lost", isBad: true };
  const sealed = all.get("result");
  const text = sealed === null ? undefined : open(sealed);
  return text === undefined ? undefined : (JSON.parse(text) as Notice);
}

/** The address of the request without what the frame reads, and with these parameters. */
function addressIn(
  { path, querystring }: ConsoleContext,
  more: Readonly<Record<string, string>> = {},
): string {
  const query = new URLSearchParams(querystring);
  for (const name of FRAME_PARAMETERS) query.delete(name);
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

const languageOf = ({ account }: Operator): SendOptions => ({ account: account.locale ?? undefined });

interface Found {
  readonly page: ConsolePage;
  readonly params: readonly string[];
}

/** Finds pages by path: one without identifiers before one with them. */
function createFind(table: readonly ConsolePage[]): (path: string) => Found | undefined {
  const exact = new Map<string, ConsolePage>();
  const patterns: { readonly page: ConsolePage; readonly segments: readonly string[] }[] = [];
  // The first row of a path wins: pages made by hand stand before those of the tables.
  for (const page of table) {
    const segments = page.path.split("/");
    if (segments.some((each) => each.startsWith(":"))) patterns.push({ page, segments });
    else if (!exact.has(page.path)) exact.set(page.path, page);
  }
  return (path) => {
    const page = exact.get(path);
    if (page !== undefined) return { page, params: [] };
    const given = path.split("/");
    for (const { page: one, segments } of patterns) {
      if (segments.length !== given.length) continue;
      const isSame = segments.every((each, i) => each.startsWith(":") || each === given[i]);
      if (!isSame) continue;
      const params = segments.flatMap((each, i) =>
        each.startsWith(":") ? [identifierOf(given[i] ?? "")] : [],
      );
      const known = params.filter((each) => each !== undefined);
      return known.length === params.length ? { page: one, params: known } : undefined;
    }
    return undefined;
  };
}
