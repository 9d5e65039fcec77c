/** The parts that this floor adds to those of oidc-provider. */
import type { ProviderServices } from "../provider/services.ts";
import type { DeviceCookies } from "./device-cookie.ts";
import type { EndedSignIns } from "./ended.ts";
import type { SignInFlow } from "./flow.ts";
import type { LinkCookie } from "./link-cookie.ts";
import type { Pages } from "./page.ts";
import type { Trips } from "./trips.ts";

export interface PageServices extends ProviderServices {
  readonly pages: Pages;
  /** The link in mail that a browser has followed. */
  readonly links: LinkCookie;
  readonly devices: DeviceCookies;
  /** The trips to providers, from a sign-in and from the account pages. */
  readonly trips: Trips;
  readonly flow: SignInFlow;
  readonly ended: EndedSignIns;
}
