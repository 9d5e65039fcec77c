/** The JSON interface of a running sign-in: docs/pages.md, "A UI of your own". */

export interface Problem {
  code: string;
  text: string;
  fields: string[];
}

export interface Field {
  name: string;
  label: string;
  hint?: string;
  type: string;
  autocomplete: string;
  required: boolean;
  value: string;
  options?: { value: string; label: string }[];
  problems: Problem[];
}

export interface Action {
  name: string;
  method: "GET" | "POST";
  href: string;
}

export interface Step {
  step: string;
  client: { name: string; logo?: string };
  notice?: { text: string };
  terms?: { url: string };
  fields: Field[];
  problems: Problem[];
  shares?: { name: string; label: string }[];
  actions: Action[];
  csrf: string;
}

/** What a request leads to: a step to show, an address to go to, or the end of the sign-in. */
export type Answer = Step | { done: true; location: string } | { error: string };

/** The address of the sign-in, which the service adds to the address of this page. Addresses on other hosts don't count. */
export function interactionAddress(): string | undefined {
  const given = new URLSearchParams(location.search).get("interaction");
  if (given === null) return undefined;
  const address = new URL(given, location.href);
  return address.origin === location.origin ? address.href : undefined;
}

/** Gets the step that an address shows, or posts what the person entered. */
export async function request(
  { method, href }: Omit<Action, "name">,
  body?: Record<string, FormDataEntryValue>,
): Promise<Answer> {
  const answer = await fetch(href, {
    method,
    headers: { accept: "application/json", ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return answer.json() as Promise<Answer>;
}
