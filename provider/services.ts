/** The parts that this floor adds to those of the accounts. */
import type { Provider } from "oidc-provider";
import type { SecondFactors } from "../accounts/factors/factors.ts";
import type { Identities } from "../accounts/identities/identities.ts";
import type { NewBrowsers } from "../accounts/limits/new-browsers.ts";
import type { PasswordCheck } from "../accounts/limits/password-check.ts";
import type { Invitations, Invites } from "../accounts/operations/invitations.ts";
import type { OpenInvitations } from "../accounts/people/invitations.ts";
import type { People } from "../accounts/people/people.ts";
import type { AccountServices } from "../accounts/services.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Claims } from "./claims.ts";
import type { CurrentProvider } from "./current-provider.ts";
import type { ErrorPages, LogoutPages } from "./pages.ts";
import type { Proofs } from "./proofs/proofs.ts";
import type { BackchannelLogout } from "./sessions/backchannel-logout.ts";
import type { FindBrowser } from "./sessions/browser-cookie.ts";
import type { UnitsOfWork } from "./unit-of-work.ts";

export interface ProviderServices extends AccountServices {
  /** Registration, password resets and changes of address. */
  readonly people: People;
  readonly invitations: Invitations & Invites & OpenInvitations;
  readonly secondFactors: SecondFactors;
  /** The identities at other providers. */
  readonly identities: Identities;
  readonly passwordCheck: PasswordCheck;
  readonly newBrowsers: NewBrowsers;
  readonly claims: Claims;
  /** Signing in with other providers. */
  readonly upstream: Upstream;
  readonly units: UnitsOfWork;
  /** DPoP. */
  readonly proofs: Proofs;
  readonly backchannel: BackchannelLogout;
  readonly findBrowser: FindBrowser;
  readonly pages: ErrorPages & LogoutPages;
  readonly currentProvider: CurrentProvider;
  /** The state to store with a new sign-in. Missing without passkeys. */
  readonly firstState?: (() => object) | undefined;
  /** Called with each new instance of oidc-provider, before it serves. */
  readonly onProvider?: ((provider: Provider) => void) | undefined;
}
