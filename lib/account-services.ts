/** The composition root of the rules: accounts, clients, and what people do. It loads nothing of HTTP. */
import { AccessCleanup } from "../accounts/access-cleanup.ts";
import { createAccounts } from "../accounts/accounts.ts";
import { CLIENT_ROWS } from "../accounts/clients/client-settings.ts";
import { createClients } from "../accounts/clients/clients.ts";
import { createDirectory } from "../accounts/directory.ts";
import type { createDocuments as Create } from "../accounts/documents/kept-copies.ts";
import { createWebhooks } from "../accounts/events/webhooks.ts";
import { createSecondFactors } from "../accounts/factors/factors.ts";
import { createIdentities } from "../accounts/identities/identities.ts";
import { createAttemptLimits } from "../accounts/limits/attempt-limits.ts";
import { createNewBrowsers } from "../accounts/limits/new-browsers.ts";
import { createPasswordCheck } from "../accounts/limits/password-check.ts";
import { createBreachCheck } from "../accounts/passwords/breach-check.ts";
import { passwordLength } from "../accounts/passwords/password-rules.ts";
import { createPasswords, type PasswordContext } from "../accounts/passwords/passwords.ts";
import { createConfirmations } from "../accounts/people/confirmations.ts";
import { createInvitations } from "../accounts/people/invitations.ts";
import { createPeople } from "../accounts/people/people.ts";
import type { AccountServices } from "../accounts/services.ts";
import type { Configuration, DeploymentKind } from "../config/configuration.ts";
import { createPersonFields } from "../accounts/profile-fields.ts";
import { createClaims } from "../provider/claims.ts";
import type { ProviderServices } from "../provider/services.ts";
import { tellingRefusals } from "../records/rate-limits.ts";
import type { AuditEvent } from "../records/audit/audit-event.ts";
import type { StorageServices } from "../records/services.ts";

/** What the accounts are built from. */
type Given = StorageServices &
  Pick<AccountServices, "keys" | "onMail" | "onDeliveries"> &
  Pick<ProviderServices, "backchannel">;

/**
 * The rules of the accounts.
 * @param replaced parts that are not made here; `createDocuments` is loaded only where the configuration wants it.
 */
export function createAccountServices(
  given: Given,
  hashing: Pick<PasswordContext, "isCheap" | "onHashed">,
  {
    createDocuments,
    ...replaced
  }: Partial<Pick<AccountServices, "passwords" | "cleanup" | "clientRows">> & {
    readonly createDocuments?: typeof Create | undefined;
  } = {},
): AccountServices & Pick<ProviderServices, "claims"> {
  const { configuration, storage, events, keys, backchannel, onMail } = given;
  const fields = createPersonFields(configuration);
  const webhooks = createWebhooks({ ...given, fields });
  const audit = {
    ...given.audit,
    note(event: AuditEvent) {
      given.audit.note(event);
      webhooks.note(event);
    },
  };
  const claims = createClaims(fields);
  const passwords =
    replaced.passwords ?? createPasswords(configuration.passwords, { ...passwordContext(given), ...hashing });
  const confirmations = createConfirmations(given, keys.confirmations, onMail);
  const limits = createAttemptLimits(
    configuration.rateLimits,
    tellingRefusals(storage.rateLimits, (limit) => events.emit("limit.refused", { limit })),
    keys.rateLimits,
  );
  const cleanup =
    replaced.cleanup ??
    new AccessCleanup({ ...given, audit, webhooks }, (sub, sessions) =>
      backchannel.sessionsEnded(sub, sessions),
    );
  const below = {
    ...given,
    audit,
    fields,
    clientRows: replaced.clientRows ?? CLIENT_ROWS,
    claims,
    grantable: claims.grantable,
    mailDeployment: mailDeploymentOf(configuration),
    passwords,
    confirmations,
    limits,
    cleanup,
    webhooks,
  };
  const { metadataDocuments } = configuration.clients;
  const documents = metadataDocuments && createDocuments?.(below, metadataDocuments);
  const accounts = createAccounts({ ...below, documents });
  const clients = createClients({ ...below, accounts, documents });
  const directory = createDirectory(below);
  return { ...below, accounts, clients, documents, directory };
}

/** What people do with mail and with second factors, and the checks of a sign-in. */
export function createPeopleServices(
  services: AccountServices,
): Pick<
  ProviderServices,
  "people" | "invitations" | "secondFactors" | "identities" | "passwordCheck" | "newBrowsers"
> {
  const identities = createIdentities(services);
  return {
    people: createPeople(services, identities),
    invitations: createInvitations(services),
    secondFactors: createSecondFactors(services),
    identities,
    passwordCheck: createPasswordCheck(services),
    newBrowsers: createNewBrowsers(services),
  };
}

/** How passwords are checked. The names of the service and of its hosts are refused. */
function passwordContext({
  configuration,
  outages,
  telemetry,
}: Pick<StorageServices, "configuration" | "outages" | "telemetry">): PasswordContext {
  const { passwords, profile, interactions, deployments, fetch: ownFetch } = configuration;
  const hosts = [deployments.oauth2, deployments.openid].flatMap((each) =>
    each === undefined ? [] : [each.host, new URL(each.url).hostname],
  );
  const { breachCheck } = passwords;
  return {
    length: passwordLength(passwords, profile),
    service: [interactions.theme.name ?? "", ...hosts],
    breaches:
      breachCheck &&
      createBreachCheck({
        url: breachCheck.url,
        timeoutMs: breachCheck.timeout * 1000,
        fetch(target, init) {
          const send = async (): Promise<Response> => (ownFetch ?? fetch)(target, init);
          return (
            telemetry?.sent({ whom: "breach list", method: "GET", url: breachCheck.url }, send) ?? send()
          );
        },
        outage: outages("asking whether a new password is known from a breach"),
      }),
  };
}

/** The deployment that mail leads to; `undefined` if no mail is sent. */
export function mailDeploymentOf({
  deployments,
  mail,
  mailer,
}: Pick<Configuration, "deployments" | "mail" | "mailer">): DeploymentKind | undefined {
  if (mailer === undefined && mail === undefined) return undefined;
  return deployments.openid === undefined ? "oauth2" : "openid";
}
