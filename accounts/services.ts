/** The parts that this floor adds to those of the records. */
import type { DeploymentKind } from "../config/configuration.ts";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import type { Consent } from "../records/directory/directory.ts";
import type { StorageServices } from "../records/services.ts";
import type { AccessCleanup } from "./access-cleanup.ts";
import type { AccountInternals } from "./account.ts";
import type { Accounts } from "./operations/accounts.ts";
import type { ClientRows } from "./clients/client-settings.ts";
import type { ClientInternals } from "./clients/client.ts";
import type { Clients } from "./operations/clients.ts";
import type { Directory, DirectoryInternals } from "./directory.ts";
import type { Documents } from "./documents/documents.ts";
import type { Webhooks } from "./events/webhooks.ts";
import type { ServiceKeys } from "./keys/service-keys.ts";
import type { AttemptLimits } from "./limits/attempt-limits.ts";
import type { Passwords } from "./passwords/passwords.ts";
import type { Confirmations } from "./people/confirmations.ts";
import type { PersonFields } from "./profile-fields.ts";

export interface AccountServices extends StorageServices {
  readonly keys: ServiceKeys;
  readonly fields: PersonFields;
  /** The kinds and settings of clients. */
  readonly clientRows: ClientRows;
  readonly passwords: Passwords;
  readonly confirmations: Confirmations;
  readonly limits: AttemptLimits;
  readonly cleanup: AccessCleanup;
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  /** Clients that nobody has registered. Missing while `clients.metadataDocuments` is. */
  readonly documents?: Documents | undefined;
  /** The calls. `storage.directory` has what is stored. */
  readonly directory: Directory & DirectoryInternals;
  /** The deployment that mail leads to; `undefined` if no mail is sent. */
  readonly mailDeployment: DeploymentKind | undefined;
  /** Every scope and claim that exists; consents store no others. */
  readonly grantable: Consent;
  /** Account events for systems of one's own. */
  readonly webhooks: Webhooks;
  /** Called after a commit that stored mail. */
  readonly onMail: () => void;
  /** Called after a commit that stored deliveries. */
  readonly onDeliveries: (deliveries: readonly NewDelivery[]) => void;
}
