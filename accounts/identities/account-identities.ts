/**
 * Changes an account's identities at other providers. Whoever asks for it, each change is a single account change that
 * ends all other sessions and remembered browsers, mails the person and writes an audit record (decisions.md, Linking).
 */
import type { IdentityProvider } from "../../config/providers.ts";
import { isUuid } from "../../config/value-forms.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists, InvalidArgument, UnknownReference } from "../../core/errors.ts";
import type { AuditDetail, Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord, IdentityLink } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { IDENTITY, type StoredIdentity } from "../../records/people/identity-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { StorageServices } from "../../records/services.ts";
import { microsoftIssuer } from "../../upstream/presets.ts";
import { isDisabled } from "../account.ts";
import { noAccount, withoutSessions, withPassword } from "../account-access.ts";
import type { AccountWriter } from "../account-change.ts";
import { withReview } from "../factors/factor.ts";
import type { FactorWriter } from "../factors/factor-writer.ts";
import { onlyProvider } from "../providers.ts";
import type { accounts } from "../operations/accounts.ts";
import type { Identity } from "../operations/identities.ts";
import type { Handlers } from "../operations/operation.ts";
import { isIdentity, WAYS, withoutWays } from "../ways/ways.ts";
import { emailProblem } from "../names.ts";
import {
  identityAddition,
  type IdentityChanges,
  isLinkedLately,
  type NotLinked,
  type UndoableLink,
} from "./identity.ts";

type IdentityOperations = Pick<
  Handlers<typeof accounts.rows>,
  "identities" | "linkIdentity" | "unlinkIdentity"
>;

/** @param remove removes anything that an account has. @throws SignInError `last_sign_in_method`. */
export function createAccountIdentities(
  writer: AccountWriter,
  changes: FactorWriter,
  remove: (sub: string, id: string, caller: Caller) => Promise<boolean>,
  services: Pick<StorageServices, "configuration" | "storage" | "sealer" | "clock">,
): { readonly operations: IdentityOperations; readonly internals: IdentityChanges } {
  const { configuration, clock } = services;
  const { records } = services.storage;

  const internals: Omit<IdentityChanges, "storedIdentities"> = {
    async addIdentity(sub, identity, as, caller) {
      const { provider } = identity;
      const { changed, record, refused, result } = await writer.change<NotLinked["kind"], IdentityLink>(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined) return undefined;
          if (
            as !== undefined &&
            (isDisabled(before) || before.sessions_generation !== as.sessions_generation)
          )
            return { refused: "changed" };
          const links = before.ways.provider?.links ?? [];
          if (links.length >= WAYS.provider.max) return { refused: "full" };
          let addition: Awaited<ReturnType<typeof identityAddition>>;
          try {
            addition = await identityAddition(tx, before, identity, { ...services, registered: false });
          } catch (error) {
            if (error instanceof AlreadyExists) return { refused: "taken" };
            throw error;
          }
          if (links.some((link) => link.provider === provider)) return { refused: "full" };
          const isOnly = onlyProvider(configuration, before) !== undefined;
          const undo = await changes.undoLink(tx, before, {
            purpose: "identity-undo",
            subject: addition.link.id,
            extra: { sub, provider, ...(isOnly && { isOnly: true as const }) } satisfies UndoableLink,
          });
          const address = identity.email;
          const params = {
            provider,
            ...(isOnly && { only: "1" }),
            ...(address !== undefined && emailProblem(address) === undefined && { address }),
          };
          const mails = await changes.notices(tx, before, params, { kind: "identity-linked", undo });
          addition.put();
          if (undo !== undefined) tx.overwrite(undo.record);
          return {
            action: "account.identity_linked",
            record: { ...withoutSessions(before), ways: addition.ways },
            keepSession: as?.keepSession,
            mails,
            detail: { provider },
            result: addition.link,
          };
        },
      );
      if (!changed || record === undefined || result === undefined) return { kind: refused ?? "changed" };
      const { id, linked_at } = result;
      return { kind: "linked", id, linked_at, sessions_generation: record.sessions_generation };
    },

    async undoIdentity(within, sub, id, caller) {
      const { changed, record } = await writer.change(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined || isDisabled(before)) return undefined;
          const link = before.ways.provider?.links.find((each) => each.id === id);
          const left = link && withoutWays(before, (each, way) => isIdentity(way) && each === id);
          if (link === undefined || left === undefined) return undefined;
          for (const ref of left.records) tx.remove(ref);
          const detail = { provider: link.provider };
          return {
            action: "account.identity_undone",
            record: withReview(withPassword(left.account, null, seconds(clock))),
            mails: await changes.notices(tx, before, { change: "provider-removed", ...detail }),
            detail,
          };
        },
        { within },
      );
      return changed ? record : undefined;
    },
  };
  /** The identities of an account, oldest first. */
  async function identitiesOf(sub: string): Promise<readonly StoredIdentity[]> {
    const account = (await records.find(ACCOUNT.ref(sub)))?.value;
    const ids = account?.ways.provider?.links.map(({ id }) => id) ?? [];
    const found = await records.store.get(ids.map((id) => IDENTITY.ref(id)));
    return found.flatMap((each) => {
      const stored = each?.value as StoredIdentity | undefined;
      return stored?.sub === sub ? [stored] : [];
    });
  }

  const operations: IdentityOperations = {
    identities: async ({ target: [sub] }) => (await identitiesOf(sub)).map(shownIdentity),

    async linkIdentity({ target: [sub], input: { provider: key, subject }, caller }) {
      const provider = configuration.providers.find((each) => each.key === key);
      if (provider === undefined) throw new UnknownReference(`provider ${key}`);
      const identity = { provider: key, issuer: issuerOf(provider, subject), subject };
      const result = await internals.addIdentity(sub, identity, undefined, caller);
      if (result.kind === "taken") throw new AlreadyExists("this identity");
      if (result.kind === "full") throw new AlreadyExists("an identity of this provider");
      if (result.kind !== "linked") throw noAccount();
      const { linked_at } = result;
      return { ...identity, linked_at, last_used_at: null };
    },

    async unlinkIdentity({ target: [sub, key], caller }) {
      const account = (await records.find(ACCOUNT.ref(sub)))?.value;
      const link = account?.ways.provider?.links.find(({ provider }) => provider === key);
      return link !== undefined && remove(sub, link.id, caller);
    },
  };
  return { operations, internals: { ...internals, storedIdentities: identitiesOf } };
}

const shownIdentity = ({ provider, issuer, subject, linked_at, last_used_at }: StoredIdentity): Identity => ({
  provider,
  issuer,
  subject,
  linked_at,
  last_used_at,
});

/** The issuer of an identity. That of Microsoft is the tenant's, and the subject names it: `tid:oid`. */
export function issuerOf(provider: IdentityProvider, subject: string): string {
  if (provider.preset !== "microsoft") return provider.issuer;
  const [tenant = "", object] = subject.split(":");
  if (!isUuid(tenant) || object === undefined || !isUuid(object))
    throw new InvalidArgument({ path: "identity.subject", message: "must be `tid:oid`, two UUIDs" });
  return microsoftIssuer(provider, tenant);
}

/**
 * The account without the identities that were linked in the last seven days: whoever knew the old password may have linked
 * one (decisions.md, Linking).
 * @param keepsFirst whether the one stays that the account was registered with.
 * @returns the account, and what the audit says about it.
 */
export function withoutLateIdentities(
  tx: Transaction,
  account: AccountRecord,
  clock: Clock,
  { keepsFirst }: { readonly keepsFirst: boolean },
): { readonly left: AccountRecord; readonly detail?: AuditDetail } {
  const late = (account.ways.provider?.links ?? []).filter(
    (link) => isLinkedLately(link, clock) && !(keepsFirst && link.registered === true),
  );
  const ids = new Set(late.map(({ id }) => id));
  const left = withoutWays(account, (id, way) => isIdentity(way) && ids.has(id));
  for (const ref of left?.records ?? []) tx.remove(ref);
  return left === undefined ? { left: account } : { left: left.account, detail: { identities: ids.size } };
}
