/** The pages of the demo client. */
import { createHash } from "node:crypto";
import type { Call, Fields } from "./documented-calls.ts";
import { Html, html } from "../../core/html.ts";
import type { SignedIn } from "./sessions.ts";
import { STYLE } from "./style.ts";

/** The only source that the Content-Security-Policy allows. */
export const STYLE_SOURCE: string = `'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`;

/** Must match the hash in the Content-Security-Policy exactly, so it is not escaped. */
const STYLE_TAG = new Html(`<style>${STYLE}</style>`);

const NAMES: Readonly<Record<SignedIn["deployment"], string>> = {
  oauth2: "OAuth 2.0",
  openid: "OpenID Connect",
};

function page(title: string, content: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · News</title>
        <link rel="icon" href="data:," />
        ${STYLE_TAG}
      </head>
      <body>
        <header><a href="/">News</a> <span>a demo client of the sign-in service</span></header>
        <main>
          <h1>${title}</h1>
          ${content}
        </main>
      </body>
    </html> `.text;
}

/** For users who are not signed in. */
export function homePage(): string {
  return page(
    "Welcome",
    html`<p>You are not signed in.</p>
      <div class="actions">
        <a class="button" href="/sign-in/oauth2">Sign in with OAuth 2.0</a>
        <a class="button" href="/sign-in/openid">Sign in with OpenID Connect</a>
      </div>
      <p class="muted">
        Both use the same account. People who are already signed in with one of them skip the form for the
        other.
      </p>`,
  );
}

function table(caption: string, fields: Readonly<Record<string, string | number | null>>): Html {
  const rows = Object.entries(fields).map(
    ([name, value]) =>
      html`<tr>
        <th scope="row">${name}</th>
        <td>${value === null ? html`<i>no value</i>` : value}</td>
      </tr> `,
  );
  return html`<table>
    <caption>
      ${caption}
    </caption>
    ${rows}
  </table> `;
}

function action(name: string, label: string): Html {
  return html`<form method="post" action="/${name}">
    <button type="submit" name="${name}">${label}</button>
  </form> `;
}

function callList(calls: readonly Call[]): Html {
  const items = calls.map(
    ({ method, url, status }) => html`<li><code>${method} ${url}</code> <b>${status}</b></li> `,
  );
  return html`<details>
    <summary>Calls of this step</summary>
    <ol>
      ${items}
    </ol>
  </details>`;
}

/** For signed-in users. @param more An additional section, for the demo. */
export function accountPage({ deployment, person, claims, calls, notice }: SignedIn, more?: Html): string {
  const title = person === undefined ? "Signed in, without a token" : `Hello, ${greeting(person.extended)}`;
  return page(
    title,
    html`<p role="status">${notice}</p>
      ${person && [table("Basic user information", person.basic), table("Extended user information", person.extended)]}
      ${claims && table("ID token", claims)}
      <div class="actions">
        ${action("refresh", "Refresh the token")}${person && action("revoke", "Revoke the token")}${action("sign_out", "Sign out")}
      </div>
      <p class="muted">Signed in with ${NAMES[deployment]}.</p>
      ${callList(calls)} ${more}`,
  );
}

function greeting({ name, email }: Fields): string {
  return name ?? email ?? "";
}

/** For problems after which the user can try again. */
export function problemPage(title: string, text: string): string {
  return page(
    title,
    html`<p>${text}</p>
      <p><a class="button" href="/">Back to the home page</a></p>`,
  );
}
