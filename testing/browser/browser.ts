/**
 * A browser without scripts and without a screen: follows redirects, keeps cookies, reads and submits forms.
 *
 * ```ts
 * const browser = new Browser({ stopAt: "https://client.example/callback" });
 * await browser.get(`${base}/oauth2/authorize?client_id=news&response_type=code`);
 * await browser.submit(browser.form("password"), { username: "ada", password: "…" });
 * browser.location?.searchParams.get("code");
 * ```
 */
import { CookieJar } from "./cookie-jar.ts";
import { type Form, readForms } from "./forms.ts";
import { SignInError } from "../../core/errors.ts";
import { tagsNamed, textOf } from "./html.ts";

/** Sends a request without following redirects. */
export type Send = (url: URL, init: RequestInit) => Promise<Response>;

/** Options of a browser. */
export interface BrowserOptions {
  /** Headers of every request, such as `accept-language`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Redirects to addresses with one of these beginnings are not followed; {@link Browser.location} has their target.
   */
  readonly stopAt?: string | readonly string[];
  /** Only redirects to addresses with one of these beginnings are followed. Default: all. */
  readonly stayAt?: readonly string[];
  /** Sends the requests. Default: the global fetch. */
  readonly send?: Send;
  /** Milliseconds since the epoch, for cookies. Default: the system's clock. */
  readonly now?: () => number;
}

/** One response. */
export interface Visit {
  readonly method: string;
  readonly url: URL;
  readonly status: number;
  readonly headers: Headers;
}

const MAX_REDIRECTS = 20;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** The service sent a response with which the test can't continue. The message says which. */
export class UnexpectedAnswer extends SignInError {
  constructor(message: string) {
    super("unexpected_answer", message);
  }
}

/** The browser of one person; see above. */
export class Browser {
  readonly jar: CookieJar;
  /** Every response of the last `get`, `submit` or `click`, redirects first. */
  visits: Visit[] = [];
  /** The body of the last response. */
  html = "";
  /** The target of the last response, if it is a redirect that was not followed. */
  location: URL | undefined;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #stopAt: readonly string[];
  readonly #stayAt: readonly string[];
  readonly #send: Send;

  constructor({ headers = {}, stopAt = [], stayAt = [""], send = fetch, now }: BrowserOptions = {}) {
    this.jar = new CookieJar(now);
    this.#headers = headers;
    this.#stopAt = typeof stopAt === "string" ? [stopAt] : stopAt;
    this.#stayAt = stayAt;
    this.#send = send;
  }

  /** The last response. */
  get last(): Visit {
    const last = this.visits.at(-1);
    if (last === undefined) throw new UnexpectedAnswer("this browser has not opened a page yet");
    return last;
  }

  /** Status of the last response. */
  get status(): number {
    return this.last.status;
  }

  /** Address of the last response. */
  get url(): URL {
    return this.last.url;
  }

  /** Headers of the last response. */
  get headers(): Headers {
    return this.last.headers;
  }

  /** The text of the h1; empty if there is none. */
  get title(): string {
    return textOf(this.html, "h1").trim();
  }

  /** Opens an address as if it were typed. Relative addresses are relative to the current page. */
  async get(address: string | URL): Promise<this> {
    const base = this.visits.at(-1)?.url;
    return this.#go(new URL(address, base), { method: "GET" });
  }

  /** Opens an address without following redirects. */
  async getOnly(address: string | URL): Promise<this> {
    const base = this.visits.at(-1)?.url;
    return this.#go(new URL(address, base), { method: "GET" }, 0);
  }

  /** Follows the redirect that was not followed. */
  async follow(): Promise<this> {
    if (this.location === undefined) throw new UnexpectedAnswer(`${this.url.pathname} does not redirect`);
    return this.#go(this.location, { method: "GET" });
  }

  /** Follows the link with this text. */
  async click(text: string): Promise<this> {
    const link = tagsNamed(this.html, "a").find((tag) => tag.text.trim() === text);
    const address = link?.attributes.get("href");
    if (address === undefined) throw new UnexpectedAnswer(`${this.url.pathname} has no link "${text}"`);
    return this.get(address);
  }

  /** The forms of the page, with hidden fields and values filled in. */
  forms(): Form[] {
    return readForms(this.html, this.url);
  }

  /** Whether the page has a form with a field or button of this name. */
  hasForm(field: string): boolean {
    return this.forms().some((form) => [...form.fields, ...form.buttons].some(([name]) => name === field));
  }

  /** The form that has a field or button of this name; without a name, the only form. */
  form(field?: string): Form {
    const forms = this.forms();
    const fits = forms.filter(({ fields, buttons }) => {
      return field === undefined || [...fields, ...buttons].some(([name]) => name === field);
    });
    if (fits.length === 1 && fits[0] !== undefined) return fits[0];
    const what = field === undefined ? "" : ` with "${field}"`;
    throw new UnexpectedAnswer(`${this.url.pathname} (${this.status}) has ${fits.length} forms${what}`);
  }

  /**
   * Submits a form with its values, which `fields` replaces or adds to. To press a button, add its name and value to
   * `fields`.
   */
  async submit(form: Form = this.form(), fields: Readonly<Record<string, string>> = {}): Promise<this> {
    const values = form.fields.map(([name, value]) => [name, fields[name] ?? value] as [string, string]);
    const own = new Set(values.map(([name]) => name));
    for (const [name, value] of Object.entries(fields)) if (!own.has(name)) values.push([name, value]);
    const body = new URLSearchParams(values);
    if (form.method === "GET") {
      const target = new URL(form.action);
      target.search = body.toString();
      return this.#go(target, { method: "GET" });
    }
    const headers = {
      origin: this.url.origin,
      "sec-fetch-site": form.action.origin === this.url.origin ? "same-origin" : "same-site",
      "content-type": "application/x-www-form-urlencoded",
    };
    return this.#go(form.action, { method: "POST", body: body.toString(), headers });
  }

  /**
   * Sends a request of the JSON interface, as the script of a page on the current address would. The browser stays at
   * that page.
   * @param body is posted. Default: a GET.
   * @returns the JSON of the answer, whatever its status.
   */
  async json(address: string | URL, body?: object): Promise<Readonly<Record<string, unknown>>> {
    const url = new URL(address, this.url);
    const post = {
      method: "POST",
      body: JSON.stringify(body),
      headers: { accept: "application/json", "content-type": "application/json", origin: this.url.origin },
    };
    const init = body === undefined ? { headers: { accept: "application/json" } } : post;
    const response = await this.#request(url, init);
    this.jar.take(url, response.headers.getSetCookie());
    return (await response.json()) as Readonly<Record<string, unknown>>;
  }

  async #go(url: URL, init: RequestInit, redirects = MAX_REDIRECTS): Promise<this> {
    this.visits = [];
    let target = url;
    let request = init;
    for (let left = redirects; ; left -= 1) {
      const response = await this.#request(target, request);
      const { status, headers } = response;
      this.visits.push({ method: request.method ?? "GET", url: target, status, headers });
      this.jar.take(target, headers.getSetCookie());
      this.html = await response.text();
      const to = REDIRECTS.has(status) ? headers.get("location") : null;
      this.location = to === null ? undefined : new URL(to, target);
      const { location } = this;
      if (location === undefined || !this.#follows(location)) return this;
      if (left === 0) {
        if (redirects === 0) return this;
        throw new UnexpectedAnswer(`more than ${redirects} redirects from ${url.pathname}`);
      }
      const keeps = status === 307 || status === 308;
      request = keeps ? request : { method: "GET" };
      target = location;
    }
  }

  #follows({ href }: URL): boolean {
    const isAt = (start: string): boolean => href.startsWith(start);
    return this.#stayAt.some(isAt) && !this.#stopAt.some(isAt);
  }

  #request(url: URL, init: RequestInit): Promise<Response> {
    const headers = new Headers({ accept: "text/html,*/*;q=0.8", ...this.#headers });
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    const cookies = this.jar.header(url);
    if (cookies !== "") headers.set("cookie", cookies);
    const plain = new URL(url);
    plain.hash = "";
    return this.#send(plain, { ...init, headers, redirect: "manual" });
  }
}
