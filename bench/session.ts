/** A sign-in by following redirects and submitting the form, on whichever server. */
import { CALLBACK, PERSON } from "./servers/people.ts";

export interface SignedIn {
  readonly code: string;
  /** The `Cookie` header of this browser. */
  readonly cookie: string;
}

function take(cookies: Map<string, string>, response: Response): void {
  for (const header of response.headers.getSetCookie()) {
    const [pair = ""] = header.split(";");
    const equals = pair.indexOf("=");
    const [name, value] = [pair.slice(0, equals), pair.slice(equals + 1)];
    if (value === "") cookies.delete(name);
    else cookies.set(name, value);
  }
}

function filledForm(html: string): string {
  const hidden = [...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  const fields = hidden.map(([, name = "", value = ""]) => [name, value]);
  const { username, password } = PERSON;
  return new URLSearchParams([...fields, ["username", username], ["password", password]]).toString();
}

/** Signs in; the requests are those of a browser, one after the other. */
export async function signIn(authorizeUrl: string): Promise<SignedIn> {
  const cookies = new Map<string, string>();
  let url = authorizeUrl;
  let form: string | undefined;
  for (let step = 0; step < 10; step += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const type = { "content-type": "application/x-www-form-urlencoded" };
    const response = await fetch(url, {
      redirect: "manual",
      headers: {
        accept: "text/html",
        ...(cookie === "" ? {} : { cookie }),
        ...(form === undefined ? {} : type),
      },
      ...(form === undefined ? {} : { method: "POST", body: form }),
    });
    take(cookies, response);
    const location = response.headers.get("location");
    const html = await response.text();
    if (location?.startsWith(CALLBACK)) {
      const code = new URL(location).searchParams.get("code");
      if (code === null) throw new Error(`no code: ${location}`);
      return { code, cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") };
    }
    form = location === null ? filledForm(html) : undefined;
    if (location === null && response.status !== 200) throw new Error(`${response.status} at ${url}`);
    if (location !== null) url = new URL(location, url).href;
  }
  throw new Error("the sign-in does not come to an end");
}
