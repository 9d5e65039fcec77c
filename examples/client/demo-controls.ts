/** Buttons of the demo that cause notifications. A real client has nothing like this. */
import type { Html } from "../../core/html.ts";
import { html } from "../../core/html.ts";

export interface DemoControl {
  /** In lower case. `POST /demo/NAME` runs it. */
  readonly name: string;
  readonly label: string;
  /** @param sub The signed-in user. @returns The result, as a sentence. */
  act(sub: string): Promise<string>;
}

export interface DemoControls {
  /** URL of the delivery console. */
  readonly console: string;
  /** Change the account of the signed-in user. */
  readonly changes: readonly DemoControl[];
  /** Change how the receivers respond. */
  readonly receivers: readonly DemoControl[];
}

function buttons(label: string, controls: readonly DemoControl[]): Html | undefined {
  if (controls.length === 0) return undefined;
  const forms = controls.map(
    (control) =>
      html`<form method="post" action="/demo/${control.name}">
        <button type="submit" name="${control.name}">${control.label}</button>
      </form> `,
  );
  return html`<p>${label}</p>
    <div class="actions">${forms}</div>`;
}

/** The section of the page with the buttons. @param isKnown Whether the user is known, so that the account can be changed. */
export function controlsSection({ console, changes, receivers }: DemoControls, isKnown: boolean): Html {
  return html`<section>
    <h2>Notifications</h2>
    <p class="muted">
      These buttons are part of the demo. They do what account pages or an administrator would do. Receivers
      get a notification about each change, and print it in the terminal of the demo. The
      <a href="${console}">delivery console</a> shows every delivery and its attempts.
    </p>
    ${isKnown ? buttons("Change the account:", changes) : undefined}
    ${buttons("Make the receivers fail:", receivers)}
  </section>`;
}
