/** All kinds of records. To add a kind, add one line here. */
import { ARTIFACTS } from "./artifacts/artifact-kinds.ts";
import { OPERATOR_CONFIRMATION } from "./administration/operator-kinds.ts";
import { TOKEN } from "./administration/token-kinds.ts";
import { DELIVERY, LANE, PAYLOAD, RECEIVER } from "./deliveries/delivery-kinds.ts";
import { ACCOUNT_EVENTS } from "./audit/account-events.ts";
import { AUDIT } from "./audit/audit-kinds.ts";
import {
  ACCOUNT,
  API,
  CLIENT,
  CLIENT_LOGO,
  ENTRIES,
  REMOVAL,
  IDENTIFIER,
  REMOVED_CLIENT,
  SEEDED,
  SERVICE_KEY,
  SIGN_IN_NAME,
  USER_ID,
} from "./directory/directory-kinds.ts";
import { DOCUMENT, DOCUMENT_BLOCK } from "./directory/document-kinds.ts";
import { SEARCH_INDEX, SEARCH_WORDS } from "./directory/search-kinds.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  REMEMBERED_BROWSER,
  USED_CHALLENGE,
  USED_RP_ID,
} from "./factors/factor-kinds.ts";
import { IDENTITY } from "./people/identity-kinds.ts";
import { INVITATION } from "./people/invitation-kinds.ts";
import { CONFIRMATION } from "./people/confirmation-kinds.ts";
import { MAIL, REFUSED_MAIL } from "./people/mail-kinds.ts";
import { NOTICE_COUNT } from "./people/notices.ts";
import { FAILED_SIGN_INS, SIGNED_IN_BEFORE } from "./people/sign-ins.ts";
import { TRIP } from "./people/trip-kinds.ts";
import { SIGNING_KEY, SIGNING_KEY_SET } from "./signing-key-store.ts";
import { collectKinds, type Kinds } from "./kinds.ts";
import { SEALING_SECRETS } from "./secrets.ts";
import { STORAGE_FORMAT, UNFINISHED_COPY } from "./formats/format.ts";
import { PROCESS } from "./formats/processes.ts";
import { WRITE_PROBE } from "./observed-store.ts";
import { STORAGE_IDENTITY } from "./storage-identity.ts";
import { RATE_LIMIT } from "./rate-limits.ts";
import { IDEMPOTENCY } from "./administration/idempotency-kinds.ts";

export const KINDS: Kinds = collectKinds([
  ENTRIES.group,
  ENTRIES.service,
  ENTRIES.portal,
  CLIENT,
  API,
  CLIENT_LOGO,
  ACCOUNT,
  IDENTIFIER,
  SIGN_IN_NAME,
  USER_ID,
  SEARCH_WORDS,
  SEARCH_INDEX,
  REMOVED_CLIENT,
  SEEDED,
  REMOVAL,
  DOCUMENT,
  DOCUMENT_BLOCK,
  SERVICE_KEY,
  SEALING_SECRETS,
  SIGNING_KEY,
  SIGNING_KEY_SET,
  AUDIT,
  ACCOUNT_EVENTS,
  DELIVERY,
  PAYLOAD,
  LANE,
  RECEIVER,
  MAIL,
  REFUSED_MAIL,
  NOTICE_COUNT,
  FAILED_SIGN_INS,
  SIGNED_IN_BEFORE,
  CONFIRMATION,
  INVITATION,
  TRIP,
  IDEMPOTENCY,
  TOKEN,
  OPERATOR_CONFIRMATION,
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  IDENTITY,
  REMEMBERED_BROWSER,
  USED_CHALLENGE,
  USED_RP_ID,
  ...ARTIFACTS,
  RATE_LIMIT,
  STORAGE_FORMAT,
  PROCESS,
  STORAGE_IDENTITY,
  UNFINISHED_COPY,
  WRITE_PROBE,
]);
