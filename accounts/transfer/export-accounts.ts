/** Exports accounts as lines that an import reads. */
import type { AccountRecord } from "../../records/directory/directory.ts";
import {
  appContext,
  AUTHENTICATOR_APP,
  PASSKEY,
  type StoredApp,
  type StoredPasskey,
} from "../../records/factors/factor-kinds.ts";
import { IDENTITY, type StoredIdentity } from "../../records/people/identity-kinds.ts";
import { toAccount } from "../account.ts";
import type { AccountServices } from "../services.ts";
import type { AccountExport, WrittenLine } from "./account-line.ts";

const isEmpty = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;

export function createAccountExport({
  fields,
  sealer,
  storage,
}: Pick<AccountServices, "fields" | "sealer" | "storage">): AccountExport {
  function lineOf(record: AccountRecord): WrittenLine {
    const {
      created_at: _created,
      updated_at: _updated,
      disabled,
      attributes,
      ...shown
    } = toAccount(record, fields);
    const values = attributes && Object.entries(attributes).filter(([, value]) => value !== null);
    const said = Object.entries(shown).filter(([, value]) => value !== null && !isEmpty(value));
    return {
      ...(Object.fromEntries(said) as typeof shown),
      ...(disabled && { disabled }),
      ...(values && values.length > 0 && { attributes: Object.fromEntries(values) }),
    };
  }

  /** What the accounts sign in with, in one round trip. */
  async function credentialsOf(accounts: readonly AccountRecord[]): Promise<readonly Partial<WrittenLine>[]> {
    const refs = accounts.map(({ sub, ways: { app, passkey, provider } }) => [
      ...(app ? [AUTHENTICATOR_APP.ref(sub)] : []),
      ...(passkey?.ids ?? []).map((id) => PASSKEY.ref(id)),
      ...(provider?.links ?? []).map(({ id }) => IDENTITY.ref(id)),
    ]);
    const found = await storage.records.store.get(refs.flat());
    let from = 0;
    return accounts.map(({ sub, ways }, index) => {
      const own = found.slice(from, (from += refs[index]?.length ?? 0)).filter((each) => each !== undefined);
      const valuesOf = <T>({ name }: { readonly name: string }): T[] =>
        own.filter(({ kind }) => kind === name).map(({ value }) => value as unknown as T);
      const [app] = valuesOf<StoredApp>(AUTHENTICATOR_APP);
      const identities = valuesOf<StoredIdentity>(IDENTITY);
      const passkeys = valuesOf<StoredPasskey>(PASSKEY);
      const { hash = null } = ways.password ?? {};
      const user_handle = ways.passkey?.user_handle ?? "";
      return {
        ...(hash !== null && { password_hash: hash }),
        ...(app && { app: { secret: sealer.open(appContext(sub), app.sealed) } }),
        ...(identities.length > 0 && {
          identities: identities.map(({ provider, issuer, subject, linked_at }) => ({
            provider,
            issuer,
            subject,
            linked_at,
          })),
        }),
        ...(passkeys.length > 0 && {
          passkeys: passkeys.map(({ sub: _sub, ...passkey }) => Object.assign(passkey, { user_handle })),
        }),
      };
    });
  }

  return {
    async exportLines({ after, limit, credentials }) {
      const accounts = await storage.directory.listAccounts({ after, limit });
      const lines = accounts.map(lineOf);
      if (!credentials) return lines;
      const ways = await credentialsOf(accounts);
      return lines.map((line, index) => Object.assign(line, ways[index]));
    },
  };
}
