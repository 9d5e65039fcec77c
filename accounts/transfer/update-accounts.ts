/** What `accounts import --update` changes of accounts that exist (decisions.md, Import). */
import { seconds } from "../../core/clock.ts";
import { AlreadyExists, NotApplicable } from "../../core/errors.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { appContext, AUTHENTICATOR_APP } from "../../records/factors/factor-kinds.ts";
import type { NewMail } from "../../records/people/mail-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { AccountWriter } from "../account-change.ts";
import { changedAddress, createNotices } from "../account-ownership.ts";
import { withoutSessions, withoutTokens, withPassword } from "../account-access.ts";
import { applied, CONFIRMED_ADDRESS, losesAddress } from "../account-records.ts";
import { appRecord, createFactorWriter } from "../factors/factor-writer.ts";
import { normaliseSecret } from "../factors/factor.ts";
import { PERSON_FIELD_NAMES } from "../profile-fields.ts";
import { usesEmailCodes } from "../ways/ways.ts";
import type { AccountServices } from "../services.ts";
import type { AccountLine, Updates } from "./account-line.ts";
import { type NewWays, readNewWays } from "./line-ways.ts";

/** What imports are built from. */
export type TransferServices = Omit<AccountServices, "accounts" | "clients" | "directory">;

/** An account that exists, as a line says that it is. */
export interface LineUpdate {
  readonly line: AccountLine;
  readonly sub: string;
  /** `null`: the line has none. */
  readonly hash: string | null;
  readonly updates: Exclude<Updates, "none">;
  /** Whether the receivers of the services concerned are told. */
  readonly notify: boolean;
}

/** Changes one account in the transaction. @returns whether anything changes. */
export type UpdateLine = (tx: Transaction, update: LineUpdate, caller: Caller) => Promise<boolean>;

const nothing = (): void => undefined;

export function createLineUpdates(writer: AccountWriter, services: TransferServices): UpdateLine {
  const { clock, fields, sealer } = services;
  const notices = createNotices(services);
  const factors = createFactorWriter(services);

  /** The secret of the app, if it is another one. */
  async function newSecret(tx: Transaction, { line: { app }, sub }: LineUpdate): Promise<string | undefined> {
    if (app === undefined) return undefined;
    const stored = await tx.get(AUTHENTICATOR_APP.ref(sub));
    const isSame = stored && sealer.open(appContext(sub), stored.sealed) === normaliseSecret(app.secret);
    return isSame ? undefined : app.secret;
  }

  /** The account with what the line says it signs in with, and what goes with it. */
  async function withCredentials(
    tx: Transaction,
    before: AccountRecord,
    profile: AccountRecord,
    update: LineUpdate,
  ) {
    const { line, sub, hash } = update;
    const changed: string[] = [];
    const mails: NewMail[] = [];
    let after = profile;
    if (hash !== null && hash !== before.ways.password?.hash) {
      after = withPassword(after, hash, seconds(clock));
      changed.push("password");
      mails.push(...notices.passwordChanged(after));
    }
    const secret = await newSecret(tx, update);
    const added: NewWays = await readNewWays(tx, services, { line, sub, has: before.ways });
    const ways = { ...after.ways, ...added.ways, ...(secret !== undefined && { app: true as const }) };
    const others = [...added.kinds, ...(secret === undefined ? [] : ["app"])];
    for (const kind of others) {
      const isIdentity = kind === "identity";
      const params = isIdentity ? { provider: added.providers.join(" ") } : { change: `${kind}-added` };
      mails.push(
        ...(await factors.notices(tx, before, params, isIdentity ? { kind: "identity-linked" } : {})),
      );
    }
    const addresses = changedAddress(before, after);
    mails.push(...notices.addressChanged(before, after));
    changed.push(...others);
    if (changed.length + addresses.length === 0) return { after, mails, changed, put: nothing };
    const isFactor = others.some((kind) => kind !== "identity");
    const record = {
      ...withoutTokens(withoutSessions(after)),
      ways: { ...ways, ...(isFactor && { generation: (before.ways.generation ?? 0) + 1 }) },
    };
    return {
      after: record,
      mails,
      changed,
      put() {
        added.put();
        if (secret !== undefined)
          tx.put(AUTHENTICATOR_APP.record(appRecord({ sealer, clock }, sub, secret, 0)));
      },
    };
  }

  return async (tx, update, caller) => {
    const { line, sub, updates, notify } = update;
    let put = nothing;
    const { changed } = await writer.change(
      sub,
      caller,
      async (before) => {
        if (before === undefined) return undefined;
        if (line.user_id !== undefined && line.user_id !== before.user_id)
          throw new AlreadyExists("this account, with another user_id, which never changes");
        const mayMove = updates === "credentials";
        if (line.email !== before.email && !mayMove)
          throw new NotApplicable(
            "the e-mail address is another one: it changes with --update-credentials only",
          );
        const profile = applied(before, profileOf(line, mayMove), fields);
        const { after, mails, ...other } = mayMove
          ? await withCredentials(tx, before, profile, update)
          : { after: profile, mails: [], changed: [], put: nothing };
        if (losesAddress(before, after, { emailCode: usesEmailCodes(services, sub) }))
          throw new NotApplicable(CONFIRMED_ADDRESS);
        const names = [...changedAddress(before, after), ...fields.changed(before, after), ...other.changed];
        if (names.length === 0) return undefined;
        put = other.put;
        return {
          action: "account.updated",
          record: after,
          detail: { fields: names.join(" ") },
          mails,
          isQuiet: !notify,
        };
      },
      { within: tx },
    );
    // Only now: nothing of a change that was refused may be written.
    if (changed) put();
    return changed;
  };
}

/** The fields that the line has. What it leaves out stays. */
function profileOf(line: AccountLine, mayMove: boolean) {
  const given = PERSON_FIELD_NAMES.flatMap((name) => (line[name] === undefined ? [] : [[name, line[name]]]));
  return {
    ...(Object.fromEntries(given) as Pick<AccountLine, (typeof PERSON_FIELD_NAMES)[number]>),
    ...(line.attributes !== undefined && { attributes: line.attributes }),
    ...(mayMove && {
      email: line.email,
      ...(line.email_verified !== undefined && { email_verified: line.email_verified }),
    }),
  };
}
