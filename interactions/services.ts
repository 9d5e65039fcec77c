/** The parts that this floor adds to those of oidc-provider. */
import type { ProviderServices } from "../provider/services.ts";
import type { EndedSignIns } from "./ended.ts";
import type { SignInFlow } from "./flow.ts";
import type { Pages } from "./page.ts";

export interface PageServices extends ProviderServices {
  readonly pages: Pages;
  readonly flow: SignInFlow;
  readonly ended: EndedSignIns;
}
