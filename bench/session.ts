/** Signs in on any server by following redirects and submitting the form. */
import type { TestAuthenticator } from "../testing/index.ts";
import { CALLBACK, PERSON } from "./servers/people.ts";
import { openWire, type Wire } from "./wire.ts";

export interface SignedIn {
  readonly code: string;
  /** The `Cookie` header of this browser. */
  readonly cookie: string;
}

const FORM = { "content-type": "application/x-www-form-urlencoded" };

function take(cookies: Map<string, string>, head: string): void {
  for (const [, name = "", value = ""] of head.matchAll(/^set-cookie: *([^=]+)=([^;\r]*)/gim)) {
    if (value === "") cookies.delete(name);
    else cookies.set(name, value);
  }
}

/** Fills in the form of the first page. @returns the body to post. */
type Fill = (html: string) => string;

/** Types a name and a password. */
export function filledForm(
  html: string,
  { username, password }: Readonly<Record<"username" | "password", string>> = PERSON,
): string {
  const hidden = [...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  const fields = hidden.map(([, name = "", value = ""]) => [name, value]);
  return new URLSearchParams([...fields, ["username", username], ["password", password]]).toString();
}

/** Answers the first page with a passkey, as its script does. */
function withPasskey(phone: TestAuthenticator): Fill {
  return (html) => {
    const [form = "", asked = ""] = /<form[^>]* data-passkey="([^"]+)".*?<\/form>/s.exec(html) ?? [];
    const csrf = /name="csrf" value="([^"]*)"/.exec(form)?.[1];
    if (csrf === undefined) throw new Error("the page does not ask for a passkey");
    const request = JSON.parse(asked.replaceAll("&#34;", '"')) as Parameters<typeof phone.get>[0];
    const credential = JSON.stringify(phone.get(request));
    return new URLSearchParams({ csrf, action: "passkey", credential }).toString();
  };
}

function cookieHeader(cookies: ReadonlyMap<string, string>): string {
  return [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
}

/**
 * Signs in over this connection.
 * @param fill default: with the password.
 * @param known the `Cookie` header of the browser; default: a new browser.
 */
export async function signInOver(
  wire: Wire,
  authorizeUrl: string,
  fill: Fill = (html) => filledForm(html),
  known = "",
): Promise<SignedIn> {
  const cookies = new Map<string, string>();
  for (const [, name = "", value = ""] of known.matchAll(/([^=; ]+)=([^;]*)/g)) cookies.set(name, value);
  let url = new URL(authorizeUrl);
  let form: string | undefined;
  for (let step = 0; step < 10; step += 1) {
    const cookie = cookieHeader(cookies);
    const answer = await wire.ask({
      method: form === undefined ? "GET" : "POST",
      target: url.pathname + url.search,
      headers: {
        accept: "text/html",
        ...(cookie === "" ? {} : { cookie }),
        ...(form === undefined ? {} : FORM),
      },
      ...(form === undefined ? {} : { body: form }),
    });
    const end = answer.indexOf("\r\n\r\n");
    const head = answer.slice(0, end + 2);
    take(cookies, head);
    const location = /^location: *([^\r]+)/im.exec(head)?.[1];
    if (location?.startsWith(CALLBACK)) {
      const code = new URL(location).searchParams.get("code");
      if (code === null) throw new Error(`no code: ${location}`);
      return { code, cookie: cookieHeader(cookies) };
    }
    if (location === undefined && !head.startsWith("HTTP/1.1 200")) {
      throw new Error(`${head.slice(9, 12)} at ${url.href}`);
    }
    form = location === undefined ? fill(answer.slice(end)) : undefined;
    if (location !== undefined) url = new URL(location, url);
  }
  throw new Error("the sign-in does not end");
}

/** The same over a new connection. */
export async function signIn(authorizeUrl: string): Promise<SignedIn> {
  const wire = await openWire(Number(new URL(authorizeUrl).port));
  try {
    return await signInOver(wire, authorizeUrl);
  } finally {
    wire.close();
  }
}

/** Sign-ins of many browsers in parallel. */
export interface ManySignIns {
  /** The authorization request. */
  readonly url: string;
  /** The servers. Each request goes to a random one. */
  readonly bases: readonly string[];
  readonly browsers: number;
  readonly count: number;
  /** The passkeys to sign in with, one for each browser. Default: with the password. */
  readonly phones?: readonly TestAuthenticator[];
}

/**
 * The connections of a browser. Each request uses a random one; with round robin, the same server would always get the
 * form.
 */
async function openWires(bases: readonly string[]): Promise<Wire> {
  const wires = await Promise.all(bases.map((base) => openWire(Number(new URL(base).port))));
  return {
    ask: (request) => wires[Math.floor(Math.random() * wires.length)]!.ask(request),
    close() {
      for (const wire of wires) wire.close();
    },
  };
}

/** @returns sign-ins per second. */
export async function signInMany({ url, bases, browsers, count, phones = [] }: ManySignIns): Promise<number> {
  let left = count;
  const began = performance.now();
  const browser = async (_each: unknown, index: number): Promise<void> => {
    const phone = phones[index];
    const wire = await openWires(bases);
    while (left > 0) {
      left -= 1;
      await signInOver(wire, url, phone && withPasskey(phone));
    }
    wire.close();
  };
  await Promise.all(Array.from({ length: browsers }).map(browser));
  return count / ((performance.now() - began) / 1000);
}
