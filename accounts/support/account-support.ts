/** What support asks about an account, and the reset by mail that it sends. */
import { hostOf } from "../clients/consents.ts";
import { seconds } from "../../core/clock.ts";
import { NotApplicable } from "../../core/errors.ts";
import type { StoredArtifact } from "../../records/artifacts/artifact.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { type AccountState, isDisabled, stateOf } from "../account.ts";
import { noAccount } from "../account-access.ts";
import type { AccountWriter } from "../account-change.ts";
import type { FactorChanges } from "../factors/factor.ts";
import type { accounts } from "../operations/accounts.ts";
import type { Handlers } from "../operations/operation.ts";
import { CONFIRMATION_LIFETIME_MS } from "../people/confirmations.ts";
import { mailWith } from "../people/requests.ts";
import { onlyProvider } from "../providers.ts";
import type { AccountServices } from "../services.ts";
import { validSession } from "../sign-in-sessions.ts";
import { diagnosisOf } from "./diagnosis.ts";

/** Consents that are looked for in the audit. */
const LOOKED_AT = 200;

export function createAccountSupport(
  writer: AccountWriter,
  { ownedWays }: Pick<FactorChanges, "ownedWays">,
  services: Omit<AccountServices, "accounts" | "clients" | "directory">,
): Pick<Handlers<typeof accounts.rows>, "diagnose" | "sessions" | "consents" | "sendReset"> {
  const { audit, clock, configuration, confirmations, mailDeployment, storage } = services;
  const { artifacts, directory } = storage;

  async function sessionsOf(account: AccountRecord): Promise<readonly StoredArtifact[]> {
    const query = { model: "Session", account: account.sub } as const;
    const all: StoredArtifact[] = [];
    let after: string | undefined;
    do {
      const page = await artifacts.page(query, { after });
      all.push(...page.artifacts);
      after = page.next;
    } while (after !== undefined);
    return all;
  }

  /** When each client was last allowed something, in seconds since the epoch. */
  async function allowedAt(sub: string): Promise<ReadonlyMap<string | null, number>> {
    await audit.flush();
    const given = { account: sub, action: "account.consented", limit: LOOKED_AT };
    const { items } = await storage.audit.list(given);
    // The newest comes first, and has to win.
    return new Map(items.toReversed().map(({ client, at }) => [client, at]));
  }

  async function lastUse(account: string, client: string): Promise<number | null> {
    const query = { model: "Grant", holder: { account, client } } as const;
    const [grant] = (await artifacts.page(query, { limit: 1 })).artifacts;
    return grant?.usedAt === undefined ? null : Math.floor(grant.usedAt / 1000);
  }

  return {
    async diagnose({ target: [sub] }) {
      const account = await directory.findAccount(sub);
      const owned = account && (await ownedWays(sub));
      return owned && diagnosisOf(services, account, owned);
    },

    async sessions({ target: [sub] }) {
      const account = await directory.findAccount(sub);
      if (account === undefined) return [];
      return (await sessionsOf(account)).flatMap((artifact) => {
        const valid = validSession(account, artifact, configuration);
        if (valid === undefined) return [];
        const { firstUse, lastUse: last, address = null, browser = null, system = null } = valid.session;
        return [
          {
            first_used_at: Math.floor(firstUse),
            last_used_at: Math.floor(last),
            address,
            browser,
            system,
            amr: valid.amr,
          },
        ];
      });
    },

    async consents({ target: [sub] }) {
      const account = await directory.findAccount(sub);
      const given = Object.entries(account?.consents ?? {}).filter(
        ([, { document }]) => document === undefined || document.until > seconds(clock),
      );
      if (given.length === 0) return [];
      const [clients, allowed] = await Promise.all([directory.listClients(), allowedAt(sub)]);
      return Promise.all(
        given.map(async ([client, { scopes, claims, attributes = [], apis = {}, document }]) => ({
          client: document?.url ?? client,
          name: document
            ? hostOf(document)
            : (clients.find(({ client_id }) => client_id === client)?.name ?? null),
          scopes,
          claims,
          attributes,
          apis,
          allowed_at: allowed.get(client) ?? null,
          last_used_at: await lastUse(sub, client),
        })),
      );
    },

    async sendReset({ target: [sub], caller }) {
      if (mailDeployment === undefined) throw new NotApplicable("no mail is configured");
      const expires_at = seconds(clock) + CONFIRMATION_LIFETIME_MS / 1000;
      const { changed } = await writer.change(sub, caller, async (before, tx) => {
        if (before === undefined) return undefined;
        if (isDisabled(before)) throw new NotApplicable("the account is disabled");
        if (onlyProvider(configuration, before) !== undefined)
          throw new NotApplicable("the account signs in with its provider only");
        await confirmations.issueWithin<AccountState>(tx, {
          purpose: "password-reset",
          subject: sub,
          extra: stateOf(before),
          mail: mailWith(services, {
            kind: "reset-password",
            to: before.email,
            locale: before.locale ?? undefined,
            deployment: mailDeployment,
            params: { by: "operator" },
          }),
        });
        return { action: "account.reset_sent", record: before };
      });
      if (!changed) throw noAccount();
      return { sent_at: seconds(clock), expires_at };
    },
  };
}
