/** The handlers and answers in a bare Koa application, over a flow in memory. */
import Koa from "koa";
import request, { type Response, type Test } from "supertest";
import type { Deployment } from "../../config/configuration.ts";
import { createAnswers } from "../../interactions/answers.ts";
import type {
  Credentials,
  InteractionContext,
  InteractionFlow,
  RunningInteraction,
  SignInOutcome,
} from "../../interactions/flow.ts";
import { createInteractionHandlers } from "../../interactions/handlers.ts";
import { pagesWith } from "./every-page.ts";
import { tagsNamed } from "../../lib/testing/browser/html.ts";

/** Host of the deployment. */
export const HOST = "login.example";
/** The hidden field of both interactions. */
export const TOKEN = "k7Jw-token";

const LOGIN: RunningInteraction = {
  uid: "login1",
  prompt: "login",
  client: { client_id: "news", name: "News" },
  csrf: TOKEN,
  action: "/prefix/interaction/login1",
  fields: [],
};
const CONSENT: RunningInteraction = {
  ...LOGIN,
  uid: "consent1",
  prompt: "consent",
  action: "/prefix/interaction/consent1",
  account: "ada@example.com",
  fields: ["sub", "email"],
};

/** What was asked of the flow. */
export type Asked = ["signIn", Credentials] | ["allow"] | ["deny"];

/**
 * Stands for the protocol side: two interactions in memory that answer as they are told.
 * Whole ways through the real one are in test/flows.
 */
function memoryFlow(
  outcome: () => SignInOutcome,
  changes: Partial<RunningInteraction> = {},
): { flow: InteractionFlow; asked: Asked[] } {
  const asked: Asked[] = [];
  const flow: InteractionFlow = {
    async find(_ctx, uid) {
      const found = [LOGIN, CONSENT].find((running) => running.uid === uid);
      return found && { ...found, ...changes };
    },
    isOwnForm: ({ csrf }, presented) => presented === csrf,
    async signIn(_ctx, _running, credentials) {
      asked.push(["signIn", credentials]);
      return outcome();
    },
    async allow() {
      asked.push(["allow"]);
      return "https://login.example/go/allowed";
    },
    async deny() {
      asked.push(["deny"]);
      return "https://login.example/go/denied";
    },
  };
  return { flow, asked };
}

const BAD_BODY = Object.assign(new Error("bad body"), { status: 400 });

async function readForm(ctx: InteractionContext): Promise<ReadonlyMap<string, string>> {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk);
  const pairs = [...new URLSearchParams(Buffer.concat(chunks).toString("utf8"))];
  const form = new Map(pairs);
  if (form.size !== pairs.length) throw BAD_BODY;
  return form;
}

/** How the site differs from the usual one. */
export interface Setting {
  readonly outcome?: () => SignInOutcome;
  readonly changes?: Partial<RunningInteraction>;
  readonly secure?: boolean;
}

/** A site to send requests to. */
export interface Site {
  readonly agent: ReturnType<typeof request>;
  readonly asked: readonly Asked[];
  readonly post: (
    fields: Record<string, string> | string,
    headers?: Record<string, string>,
    uid?: string,
  ) => Test;
}

/** Every password is wrong unless `outcome` says something else. */
export function site({ outcome = () => ({ kind: "wrong" }), changes, secure = true }: Setting = {}): Site {
  const { flow, asked } = memoryFlow(outcome, changes);
  const pages = pagesWith();
  const handlers = createInteractionHandlers({ flow, pages, readForm });
  const answers = createAnswers(pages);
  const url = `${secure ? "https" : "http"}://${HOST}/prefix`;
  const deployment: Deployment = { kind: "oauth2", url, path: "/prefix", host: HOST, secure, post: false };
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx) => {
    const { 1: kind = "", 2: uid = "" } = ctx.path.split("/");
    const state = Object.assign(ctx, { state: { deployment, interactionUid: uid } });
    if (kind === "interaction") return ctx.method === "POST" ? handlers.submit(state) : handlers.show(state);
    if (kind === "logout") return answers.confirmLogout(state, { action: "/confirm", xsrf: "x" });
    if (kind === "logged-out") return answers.loggedOut(state);
    if (kind === "unavailable") return answers.unavailable(state, 4.2);
    return answers.error(state, { status: 429, error: "rate_limited", retryAfter: 600, uiLocales: "pl" });
  });
  const agent = request(app.callback());
  const post = (
    fields: Record<string, string> | string,
    headers: Record<string, string> = {},
    uid = "login1",
  ) => agent.post(`/interaction/${uid}`).set(headers).type("form").send(fields);
  return { agent, asked, post };
}

/** What our own login form sends. */
export const RIGHT: Readonly<Record<"csrf" | "username" | "password", string>> = {
  csrf: TOKEN,
  username: "ada",
  password: "correct horse",
};

/** The words of the one h1. */
export function title(response: Response): string {
  return tagsNamed(response.text, "h1")[0]?.text ?? "";
}

/** The links of the error summary, or other links. */
export function problems(response: Response): string[] {
  return tagsNamed(response.text, "a").map(({ text }) => text);
}
