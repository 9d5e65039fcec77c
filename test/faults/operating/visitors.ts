/** A light, steady stream of sign-ins by people whose data is known, so that it can be looked for in the log. */
import { setTimeout as pause } from "node:timers/promises";
import { Browser } from "../../../testing/browser/browser.ts";
import { authorizeUrl, exchange, refresh, type Tokens, withToken } from "../person.ts";

export const CALLBACK = "http://127.0.0.1:9/callback";

/** Each of a service of its own, whose receiver has the same name. */
export const CLIENTS: readonly { readonly client_id: string; readonly client_secret: string }[] = [
  "news",
  "shop",
].map((name) => ({
  client_id: name,
  client_secret: `the secret of the client ${name}`,
}));

type Client = (typeof CLIENTS)[number];

/** Names that are in no log by chance; addresses of networks that nobody has. */
export const PEOPLE = [
  {
    email: "wilhelmina.quackenbush@post.example",
    username: "wquackenbush77",
    password: "seventeen purple ducklings",
    name: "Wilhelmina",
    surname: "Quackenbush",
    address: "203.0.113.77",
  },
  {
    email: "zebediah.featherstonehaugh@post.example",
    username: "zfeatherstone88",
    password: "eighteen yellow ostriches",
    name: "Zebediah",
    surname: "Featherstonehaugh",
    address: "198.51.100.88",
  },
] as const;

/** Later addresses of the first of them. */
export const MOVED: readonly [string, string] = [
  "moved.quackenbush@post.example",
  "quackenbush.again@post.example",
];

/** Milliseconds between two sign-ins of one person. */
const BETWEEN = 600;
const ANSWER_TIMEOUT_MS = 10_000;

/** Sends a request from this address. */
function sender(address: string, onStatus: (status: number) => void) {
  return async function send(url: URL | string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("x-forwarded-for", address);
    headers.set("x-forwarded-host", new URL(url).host);
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const response = await fetch(url, { redirect: "manual", ...init, headers, signal });
    onStatus(response.status);
    return response;
  };
}

/** The people of one deployment. */
export class Visitors {
  /** Answers by their status; 0 counts requests without an answer. */
  readonly statuses: Map<number, number> = new Map();
  /** What no log may hold: names, addresses, passwords, codes, tokens and cookies. */
  readonly secrets: Set<string> = new Set();
  /** Complete sign-ins. */
  signIns = 0;
  /** Refresh tokens of before that were refused. */
  refused = 0;
  readonly #url: string;
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;

  constructor(url: string) {
    this.#url = url;
    for (const { email, username, password, name, surname, address } of PEOPLE)
      for (const each of [email, username, password, name, surname, address]) this.secrets.add(each);
    for (const email of MOVED) this.secrets.add(email);
    for (const { client_secret } of CLIENTS) this.secrets.add(client_secret);
    this.#running = Promise.all(PEOPLE.map((person) => this.#visit(person)));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #count(status: number): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
  }

  async #visit(person: (typeof PEOPLE)[number]): Promise<void> {
    const { signal } = this.#stop;
    const send = sender(person.address, (status) => this.#count(status));
    let kept: { readonly token: string; readonly client: Client } | undefined;
    for (let round = 1; !signal.aborted; round += 1) {
      const client = CLIENTS[round % CLIENTS.length]!;
      try {
        // Once, so that the log has it and no rule about guessing fires.
        if (round === 1) await this.#signIn(person, `${person.password} mistyped`, client, send);
        const tokens = await this.#signIn(person, person.password, client, send);
        if (kept !== undefined && !(await this.#refreshes(kept.client, kept.token, send))) this.refused += 1;
        kept = tokens && { token: tokens.refresh_token, client };
        if (tokens !== undefined) this.signIns += 1;
      } catch {
        // No answer, or not the one of a sign-in: the next round begins anew.
        this.#count(0);
      }
      await pause(BETWEEN, undefined, { signal }).catch(() => undefined);
    }
  }

  async #signIn(
    { username }: (typeof PEOPLE)[number],
    password: string,
    client: Client,
    send: ReturnType<typeof sender>,
  ): Promise<Tokens | undefined> {
    const browser = new Browser({ stopAt: CALLBACK, send });
    this.secrets.add(password);
    await browser.get(authorizeUrl(this.#url, client));
    await browser.submit(browser.form("password"), { username, password });
    const code = browser.location?.searchParams.get("code");
    if (code === null || code === undefined) return undefined;
    this.secrets.add(code);
    const { url, ...wire } = exchange(this.#url, client, code);
    const answer = await send(url, wire);
    if (answer.status !== 200) return undefined;
    const tokens = (await answer.json()) as Tokens;
    for (const token of [tokens.access_token, tokens.refresh_token]) this.secrets.add(token);
    const read = withToken("GET", `${this.#url}/resources/userinfo`, client, tokens.access_token);
    await (await send(read.url, { method: read.method, headers: read.headers })).body?.cancel();
    return tokens;
  }

  /** Whether a refresh token is good. A service that can't answer now does not say that it is not. */
  async #refreshes(client: Client, token: string, send: ReturnType<typeof sender>): Promise<boolean> {
    const { url, ...wire } = refresh(this.#url, client, token);
    const answer = await send(url, wire);
    await answer.body?.cancel();
    return answer.status !== 400;
  }
}

/** Forms in which a text may hide in a log: as it is, percent-encoded, and in Base64 at each position. */
export function formsOf(text: string): string[] {
  const encoded = [0, 1, 2].map((shift) => {
    const bytes = Buffer.from(`${" ".repeat(shift)}${text}`);
    // Without the characters that depend on what stands before and after.
    return bytes
      .toString("base64")
      .replace(/=+$/u, "")
      .slice(shift === 0 ? 0 : shift + 1, -2);
  });
  const safe = encoded.map((each) => each.replaceAll("+", "-").replaceAll("/", "_"));
  return [...new Set([text, encodeURIComponent(text), ...encoded, ...safe])];
}
