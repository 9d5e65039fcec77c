/**
 * What a demo lets people do at its client beside what a client can do: it shows what the service tells receivers.
 * No real client has this.
 */
import type { Html } from "./html.ts";
import { html } from "./html.ts";

/** A button. */
export interface DemoControl {
  /** Lower-case letters; `POST /demo/NAME` presses it. */
  readonly name: string;
  readonly label: string;
  /** @param sub who presses it. @returns what came of it, as a sentence. */
  act(sub: string): Promise<string>;
}

export interface DemoControls {
  /** Address of the delivery console. */
  readonly console: string;
  /** They change the account of the person who is signed in. */
  readonly changes: readonly DemoControl[];
  /** They change what the receivers answer. */
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

/** The part of the page. @param isKnown whether it is known whose account could be changed. */
export function controlsSection({ console, changes, receivers }: DemoControls, isKnown: boolean): Html {
  return html`<section>
    <h2>Notifications</h2>
    <p class="muted">
      This is of the demo: it does what account pages or an administrator would do. Receivers are told of each
      change, and print it where you have started the demo.
      <a href="${console}">Every delivery with its attempts</a> is in the delivery console.
    </p>
    ${isKnown ? buttons("Change the account:", changes) : undefined} ${buttons("The receivers:", receivers)}
  </section>`;
}
