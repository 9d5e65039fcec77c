/** APIs with everything that their tokens depend on: their service, whether it assigns, and the kind of their tokens. */
import type { ApiSettings } from "../../accounts/operations/apis.ts";
import type { RunningService } from "./running-service.ts";

/** Its tokens are opaque. */
export const ARTICLES = "https://articles.example/";
/** Its tokens are JWTs, and have a shorter lifetime. */
export const VIDEOS = "https://videos.example/";
/** Of a service that nobody is assigned to. */
export const CLOSED = "https://closed.example/";
/** Of the same service, but it assigns. */
export const OPEN = "https://open.example/";

/** May introspect the tokens of each. */
export const READER = { client_id: "reader", client_secret: "the secret of a machine, of 32 and more" };

export const RIGHTS: readonly string[] = ["articles:read", "articles:write"];
export const SCOPE: string = RIGHTS.join(" ");

export const API: ApiSettings = {
  name: "Articles",
  service: "1",
  scopes: { "articles:read": "Read your articles", "articles:write": "Write", "articles:publish": "Publish" },
  lifetime: 1200,
  introspection: [READER.client_id],
};

/** The rights of a client in each API. */
export const GRANTED: Readonly<Record<string, readonly string[]>> = {
  [ARTICLES]: RIGHTS,
  [VIDEOS]: RIGHTS,
  [CLOSED]: RIGHTS,
  [OPEN]: RIGHTS,
};

/** Registers {@link READER}. */
export async function registerReader({ service: { clients } }: RunningService): Promise<void> {
  await clients.register({ ...READER, kind: "machine", name: "Articles", service: "1" });
}

/** Puts the APIs, the rights of these clients, and Ada's assignments back to where they were. */
export async function resetApis(
  { service: { clients, directory, accounts }, ada }: RunningService,
  granted: readonly { readonly client_id: string }[],
): Promise<void> {
  await directory.apis.put(ARTICLES, API);
  await directory.apis.put(VIDEOS, { ...API, name: "Videos", tokens: "jwt", lifetime: 300 });
  await directory.apis.put(CLOSED, { ...API, service: "2" });
  await directory.apis.put(OPEN, { ...API, service: "2", assign: true });
  for (const { client_id } of granted) await clients.update(client_id, { apis: GRANTED });
  await accounts.unassign(ada.sub, ["2"]);
  await accounts.assign(ada.sub, "1");
}
