/** The JSON interface of a running sign-in: docs/reference/sign-in-steps.md. */
import { createPasskey, usePasskey } from "../../../interactions/browser.js";
import type { StepDescription } from "../../../interactions/index.ts";

/** What a request leads to: a step to show, an address to go to, or the end of the sign-in. */
export type Answer =
  | StepDescription
  | { readonly done: true; readonly location: string }
  | { readonly error: string; readonly error_description: string; readonly reason?: string };

/** Starts the authorization of a sign-in that has ended again. @returns `undefined` if that is not possible any more. */
export async function startAgain(
  href: string,
  sent: { readonly again: string; readonly username?: string },
): Promise<string | undefined> {
  const { location } = (await request({ method: "POST", href }, sent)) as { readonly location?: string };
  return location;
}

/** The path of a running sign-in, or of one of its steps, below the base URL of either deployment. */
const INTERACTION = /^(?:\/openid)?\/interaction\/[\w-]+(?:\/[a-z-]+)?$/;

/**
 * The address of the sign-in, which the service adds to the address of this page. Anyone can create a link to this
 * page, so only addresses of the service are accepted.
 */
export function interactionAddress(): string | undefined {
  const given = new URLSearchParams(location.search).get("interaction") ?? "";
  return INTERACTION.test(given) ? given : undefined;
}

/** Whether this device can create a passkey: if so, people are asked now and then to add one. */
export async function canAddPasskey(): Promise<boolean> {
  const { PublicKeyCredential: api } = window as Partial<typeof window>;
  return (await api?.isUserVerifyingPlatformAuthenticatorAvailable()) ?? false;
}

/** What a passkey answers, or a new one. Only the options for a new one have `rp`. */
export function askPasskey({ publicKey }: NonNullable<StepDescription["passkey"]>): Promise<object> {
  return "rp" in publicKey ? createPasskey({ publicKey }) : usePasskey({ publicKey });
}

/** Gets the step that an address shows, or posts what the person entered. */
export async function request(
  { method, href }: { readonly method: "GET" | "POST"; readonly href: string },
  body?: Record<string, unknown>,
): Promise<Answer> {
  const answer = await fetch(href, {
    method,
    headers: { accept: "application/json", ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return answer.json() as Promise<Answer>;
}
