/** Valid requests to every page under `{base}/account`, including the console. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { DeploymentKind } from "../../config/configuration.ts";
import { endpointsOf } from "../../config/deployments.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Form } from "../../testing/browser/forms.ts";
import { signedIn } from "../flows/clients.ts";
import { OPERATOR, type RunningService } from "../flows/running-service.ts";
import { formOf } from "../interactions/console-visitor.ts";

type Fields = Readonly<Record<string, string>>;

/** A request to one of the pages. */
export interface AccountParts {
  /** Below the base URL. */
  readonly path: string;
  readonly method: "GET" | "POST";
  readonly query?: Fields;
  readonly form?: Fields;
  readonly headers: Fields;
}

/** Enables the console. Failures are parked immediately. */
export const WITH_CONSOLE: Pick<SignInServiceConfig, "operators" | "notifications" | "providers"> = {
  operators: { [OPERATOR.sub]: "administrator" },
  notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] },
  // Nobody answers there.
  providers: { corp: { issuer: "http://localhost:1", client_id: "c", client_secret: "s", name: "Corp ID" } },
};

/** Every page with its methods, below the base URL. `:uid` is one segment. */
export const ACCOUNT_PAGES: readonly { readonly path: string; readonly methods: readonly string[] }[] = [
  { path: "/account", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/profile", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/password", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/sign-in-methods", methods: ["GET", "HEAD"] },
  { path: "/account/sign-in-methods/change", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/sign-in-methods/recovery-codes", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/sessions", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/services", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/delete", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/callback", methods: ["GET", "HEAD"] },
  { path: "/account/signed-out", methods: ["GET", "HEAD"] },
  { path: "/account/deliveries", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/deliveries/receivers", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/deliveries/:uid", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/people", methods: ["GET", "HEAD", "POST"] },
  { path: "/account/people/:uid", methods: ["GET", "HEAD", "POST"] },
];

/** All endpoints of both deployments, with every account page, and a path that matches each. */
export const targetsOf = (running: Readonly<Record<DeploymentKind, string>>) =>
  (["oauth2", "openid"] as const).flatMap((kind) => {
    const rows = endpointsOf({ kind, post: false }).filter(({ name }) => name !== "account");
    return [...rows, ...ACCOUNT_PAGES].map(({ path, methods }) => {
      const step = path.startsWith("/clients/")
        ? "logo"
        : path.startsWith("/providers/")
          ? "callback"
          : "login";
      const address = running[kind] + path.replace(":uid", "some-id").replace(":step", step);
      return { kind, path, methods, target: new URL(address).pathname };
    });
  });

/** An unused port. */
async function nobodysPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}

/** Creates an operator and two parked deliveries, about accounts with an app. @returns the ids of the deliveries. */
export async function fillConsole({ service }: RunningService): Promise<readonly string[]> {
  const { accounts, directory, events } = service;
  await accounts.import(OPERATOR);
  const url = `http://127.0.0.1:${await nobodysPort()}/notify`;
  const receiver = { url, client_id: "r", client_secret: "the secret of it" };
  await directory.services.put("9", {
    name: "Notified",
    receiver: { ...receiver, types: ["PROFILE_CHANGED"] },
  });
  const ids: string[] = [];
  for (const email of ["grace@example.com", "jean@example.com"]) {
    const { sub } = await accounts.create({ email });
    await accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
    await accounts.assign(sub, "9");
    const parked = new Promise<string>((resolve) => {
      events.once("delivery.parked", ({ id }) => resolve(id));
    });
    await accounts.update(sub, { name: "Changed" });
    ids.push(await parked);
  }
  return ids;
}

const fieldsOf = ({ fields }: Form): Fields => Object.fromEntries(fields);

/** A request for every page and every form of one deployment. @param ids deliveries that are parked. */
export async function accountParts(
  running: RunningService,
  base: string,
  [first = "", second = ""]: readonly string[],
): Promise<AccountParts[]> {
  const list = "/account/deliveries";
  const browser = await signedIn(base, OPERATOR);
  const headers = { cookie: browser.jar.header(new URL(`${base}/account`)) };
  const get = (path: string, query: Fields): AccountParts => ({ path, method: "GET", query, headers });
  const post = async (path: string, action: string, search = ""): Promise<AccountParts> => {
    await browser.get(`${base}${path}${search}`);
    return { path, method: "POST", form: fieldsOf(formOf(browser, action)), headers };
  };
  const { sub = "" } = (await running.service.notifications.find(first)) ?? {};
  await browser.get(`${base}/account/people`);
  const find = { ...fieldsOf(browser.form("name")), name: sub };
  const filter = { state: "parked", receiver: "service:9", type: "PROFILE_CHANGED", sub };
  return [
    get("/account", { tab: "1" }),
    ...["profile", "sessions", "services"].map((page) => get(`/account/${page}`, { done: "x.y" })),
    get("/device", { user_code: "BCDF-GHJK" }),
    get("/account/callback", { code: "c", state: "s", iss: base }),
    get(list, { ...filter, after: second, result: "x.y" }),
    get(`${list}/receivers`, { result: "x.y" }),
    get(`${list}/${first}`, { result: "x.y" }),
    await post(list, "redriveAll", `?${new URLSearchParams(filter)}`),
    await post(`${list}/receivers`, "test"),
    await post(`${list}/receivers`, "pause"),
    await post(`${list}/receivers`, "redriveAll"),
    await post(`${list}/${first}`, "redrive"),
    await post(`${list}/${second}`, "discard"),
    get("/account/people", {}),
    { path: "/account/people", method: "POST", form: find, headers },
    get(`/account/people/${sub}`, { result: "x.y" }),
    await post(`/account/people/${sub}`, "remove", "?remove=app"),
  ];
}
