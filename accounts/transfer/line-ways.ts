/** The identities and passkeys of a line, checked against those that exist. */
import type { Configuration } from "../../config/configuration.ts";
import { seconds } from "../../core/clock.ts";
import { AlreadyExists, InvalidArgument, UnknownReference } from "../../core/errors.ts";
import type { Ref } from "../../adapters/record-store.ts";
import type { AccountWays, IdentityLink } from "../../records/directory/directory.ts";
import { PASSKEY, USED_RP_ID } from "../../records/factors/factor-kinds.ts";
import { IDENTITY, identityId } from "../../records/people/identity-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import { issuerOf } from "../identities/account-identities.ts";
import type { AccountServices } from "../services.ts";
import type { AccountLine } from "./account-line.ts";

/** How long before an import its identities were linked, if nothing says when: what undoes new ones does not concern them. */
const LINKED_EARLIER_SECONDS = 7 * 86_400;

/** What an account gets that it does not have yet. */
export interface NewWays {
  /** The ways that change, as they are afterwards. */
  readonly ways: Pick<AccountWays, "provider" | "passkey">;
  readonly kinds: readonly ("identity" | "passkey")[];
  /** The keys of the providers of new identities. */
  readonly providers: readonly string[];
  /** Puts the records. Call it when the account is put. */
  put(): void;
}

type Services = Pick<AccountServices, "configuration" | "clock">;

/** The identities of a line, as this service would link them. @throws UnknownReference for one of an unknown provider or another issuer. */
function identitiesIn({ identities = [] }: AccountLine, { providers }: Pick<Configuration, "providers">) {
  const found = identities.map(({ provider: key, issuer, subject, linked_at }) => {
    const provider = providers.find((each) => each.key === key);
    if (provider === undefined) throw new UnknownReference("the provider of an identity");
    const ours = issuerOf(provider, subject);
    if (issuer !== undefined && issuer !== ours) throw new UnknownReference("the issuer of an identity");
    return { provider: key, issuer: ours, subject, linked_at };
  });
  if (new Set(found.map(({ provider }) => provider)).size !== found.length)
    throw new InvalidArgument({ path: "account.identities", message: "must have at most one of a provider" });
  return found;
}

/** The records that {@link readNewWays} reads. A line that it refuses has none. */
export function wayRefs(line: AccountLine, { configuration }: Services): Ref[] {
  try {
    return [
      ...identitiesIn(line, configuration).map((identity) => IDENTITY.ref(identityId(identity))),
      ...(line.passkeys ?? []).flatMap(({ id, rp_id }) => [PASSKEY.ref(id), USED_RP_ID.ref(rp_id)]),
    ];
  } catch {
    return [];
  }
}

/**
 * What the account lacks of what the line says. Nothing is put yet.
 * @param to.has the ways of the account.
 * @throws AlreadyExists when another account has an identity or passkey, or this one another identity of the provider.
 */
export async function readNewWays(
  tx: Transaction,
  { configuration, clock }: Services,
  { line, sub, has }: { readonly line: AccountLine; readonly sub: string; readonly has: AccountWays },
): Promise<NewWays> {
  const puts: (() => void)[] = [];
  const links: IdentityLink[] = [];
  const old = has.provider?.links ?? [];
  for (const { provider, issuer, subject, linked_at } of identitiesIn(line, configuration)) {
    const id = identityId({ issuer, subject });
    if (old.some((link) => link.id === id)) continue;
    if ((await tx.get(IDENTITY.ref(id))) !== undefined) throw new AlreadyExists("this identity");
    if (old.some((link) => link.provider === provider))
      throw new AlreadyExists("an identity of this provider");
    const since = linked_at ?? seconds(clock) - LINKED_EARLIER_SECONDS;
    links.push({ id, provider, linked_at: since });
    const stored = { id, issuer, subject, sub, provider, sealed: null, linked_at: since, last_used_at: null };
    puts.push(() => tx.put(IDENTITY.record(stored)));
  }
  const passkeys = (line.passkeys ?? []).filter(({ id }) => !has.passkey?.ids.includes(id));
  const { user_handle = passkeys[0]?.user_handle ?? "", ids = [] } = has.passkey ?? {};
  for (const { user_handle: handle, ...passkey } of passkeys) {
    // The authenticator sends it back, and it names the account.
    if (handle !== user_handle) throw new AlreadyExists("another user handle of this account");
    if ((await tx.get(PASSKEY.ref(passkey.id))) !== undefined) throw new AlreadyExists("this passkey");
    const domain = USED_RP_ID.ref(passkey.rp_id);
    const isNew = (await tx.get(domain)) === undefined;
    puts.push(() => {
      tx.put(PASSKEY.record({ ...passkey, sub }));
      if (isNew) tx.put(USED_RP_ID.record({ rp_id: passkey.rp_id }));
    });
  }
  return {
    ways: {
      ...(links.length > 0 && { provider: { links: [...old, ...links] } }),
      ...(passkeys.length > 0 && {
        passkey: { user_handle, ids: [...ids, ...passkeys.map(({ id }) => id)] },
      }),
    },
    kinds: [...(links.length > 0 ? (["identity"] as const) : []), ...passkeys.map(() => "passkey" as const)],
    providers: links.map(({ provider }) => provider),
    put: () => puts.forEach((each) => each()),
  };
}
