/**
 * Invitations: an administrator asks somebody to make an account. The link in the mail works once and in any browser; the account
 * exists when the person has chosen a password or a passkey (decisions.md, Invitations).
 */
import { randomUUID } from "node:crypto";
import { roleOf } from "../../config/operators.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import { AlreadyExists, NameTaken, NotApplicable, NotFound, UnknownReference } from "../../core/errors.ts";
import { hmac } from "../../core/sealing.ts";
import type { Actor, Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT, ENTRIES, isOpen } from "../../records/directory/directory-kinds.ts";
import { TOKEN } from "../../records/administration/token-kinds.ts";
import {
  BY_CREATION,
  INVITATION,
  invitationContext,
  type StoredInvitation,
} from "../../records/people/invitation-kinds.ts";
import { CONFIRMATION } from "../../records/people/confirmation-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import { type ConfirmedAccount, isDisabled } from "../account.ts";
import { passwordNames } from "../account-ownership.ts";
import type { NewInvitation } from "../account-schema.ts";
import { invalid } from "../arguments.ts";
import type { NewPasskey, NewPassword } from "../factors/factor.ts";
import { wideNetwork } from "../limits/networks.ts";
import { canonicalEmail, type NamedPerson, namesOf, normalName } from "../names.ts";
import {
  type Invitation,
  type Invitations,
  invitations as table,
  type Invites,
} from "../operations/invitations.ts";
import { facade } from "../operations/operation.ts";
import type { PasswordProblem } from "../passwords/password-rules.ts";
import { onlyProvider } from "../providers.ts";
import { requireRoles } from "../roles.ts";
import type { AccountServices } from "../services.ts";
import { INVITATION_LIFETIME_MS } from "./confirmations.ts";
import {
  type AskedAt,
  callerAs,
  type Limited,
  mailWith,
  type PeopleServices,
  refusalOf,
} from "./requests.ts";

/** How often an invitation can be sent after the first time. */
const SENDS_AGAIN = 3;

/** Whom, and what the account gets. */
type Invited = Omit<NewInvitation, "email"> & { readonly email: string };

/** What an invited person signs in with. */
type Chosen = { readonly kind: "password"; readonly password: string } | NewPasskey;

/** What became of an invitation that somebody has followed. */
export type InvitationAccepted =
  /** The recovery codes came with a passkey, to be shown once. */
  | { readonly kind: "created"; readonly record: AccountRecord; readonly recoveryCodes: readonly string[] }
  | { readonly kind: "refused-password"; readonly problem: PasswordProblem }
  /** The address got an account in another way: the person can sign in, and nothing of the invitation is applied. */
  | { readonly kind: "address-known" }
  /** It was used, withdrawn, or is void. */
  | { readonly kind: "gone" }
  /** The passkey belongs to an account. */
  | { readonly kind: "passkey-taken" }
  | Limited;

/** What the pages need. Each call rejects with `StorageUnavailable` when the storage fails. */
export interface OpenInvitations {
  /** The person of an invitation that can still be accepted. Spends nothing. @param id from the confirmation of its link. */
  findOpen(id: string): Promise<NamedPerson | undefined>;
  /** Makes the account. @param sub of a passkey: its account. */
  accept(id: string, sub: string, chosen: Chosen, at: AskedAt): Promise<InvitationAccepted>;
}

const GONE = { kind: "gone" } as const;

const noInvitation = (): NotFound => new NotFound("this invitation");

const WITHOUT_MAIL = "invitations need mail: set `mail` in the configuration";

const shownActor = ({ kind, id }: Actor): Invitation["invited_by"] => ({ kind, id: id ?? null });

const inSeconds = (ms: number): number => Math.floor(ms / 1_000);

/** The invitations of one storage. */
export function createInvitations(
  services: PeopleServices & Pick<AccountServices, "keys" | "sealer" | "mailDeployment" | "webhooks">,
): Invitations & Invites & OpenInvitations {
  const { configuration, storage, sealer, clock, keys, fields, accounts, confirmations, passwords } =
    services;
  const { mailDeployment, limits, webhooks } = services;
  const { records, directory } = storage;

  const digestOf = (email: string): string =>
    hmac(keys.confirmations, JSON.stringify(["invitation", normalName(email)]));

  function opened({ id, sealed }: StoredInvitation): Invited {
    return JSON.parse(sealer.open(invitationContext(id), sealed)) as Invited;
  }

  /** Whether this is an operator who is an administrator now. */
  async function isAdministrator({ kind, id = "" }: Actor): Promise<boolean> {
    if (kind !== "operator" || roleOf(configuration, id) !== "administrator") return false;
    const operator = (await records.find(ACCOUNT.ref(id)))?.value;
    return operator !== undefined && !isDisabled(operator);
  }

  /** Whether this is a token that somebody has ended. One that only ran out may have invited. */
  async function isEndedToken({ kind, id = "" }: Actor): Promise<boolean> {
    if (kind !== "token") return false;
    const token = (await records.find(TOKEN.ref(id)))?.value;
    return token !== undefined && token.ended_at !== null;
  }

  async function stateOf(invitation: StoredInvitation): Promise<Invitation["state"]> {
    const { state, expiresAt, invitedBy, byAdministrator } = invitation;
    if (state !== "waiting") return state;
    if (byAdministrator && !(await isAdministrator(invitedBy))) return "void";
    if (await isEndedToken(invitedBy)) return "void";
    return expiresAt <= clock.now() ? "expired" : "waiting";
  }

  async function shown(stored: StoredInvitation): Promise<Invitation> {
    const { email, services: assigned = [], roles = {} } = opened(stored);
    const { id, sendsLeft, sentAt, expiresAt, invitedBy, sub } = stored;
    return {
      id,
      email,
      services: assigned,
      roles,
      state: await stateOf(stored),
      sends_left: stored.state === "waiting" ? sendsLeft : 0,
      sent_at: inSeconds(sentAt),
      expires_at: inSeconds(expiresAt),
      invited_by: shownActor(invitedBy),
      sub,
    };
  }

  /** Stores the invitation with its mail. An earlier link of it stops working. */
  async function put(
    tx: Transaction,
    stored: StoredInvitation,
    { email, locale }: Invited,
    caller: Caller,
  ): Promise<void> {
    const { id, deployment, sentAt } = stored;
    const isAgain = stored.sendsLeft < SENDS_AGAIN;
    if (isAgain) tx.put(INVITATION.record(stored));
    else tx.create(INVITATION.record(stored));
    const mail = mailWith(services, {
      kind: "invitation",
      to: email,
      locale: locale ?? undefined,
      deployment,
      lifetimeMs: INVITATION_LIFETIME_MS,
      params: { until: String(sentAt + INVITATION_LIFETIME_MS) },
    });
    await confirmations.issueWithin(tx, { purpose: "invitation", subject: id, extra: {}, mail });
    tx.create(
      storage.audit.recordOf({
        ...caller,
        action: "invitation.sent",
        subject: id,
        ...(isAgain && { detail: { again: true } }),
      }),
    );
  }

  /** @throws UnknownReference when the account could not have it now. */
  async function requireReferences(
    tx: Transaction,
    { services: assigned = [], roles = {}, portal }: Invited,
  ): Promise<void> {
    const entries = await tx.getAll(assigned.map((key) => ENTRIES.service.ref(key)));
    for (const [index, key] of assigned.entries())
      if (!isOpen(entries[index], clock)) throw new UnknownReference(`service ${key}`);
    const assignments = { services: Object.fromEntries(assigned.map((key) => [key, null])) };
    for (const [service, names] of Object.entries(roles))
      await requireRoles(tx, assignments, { service, names, clock });
    if (typeof portal === "string" && !isOpen(await tx.get(ENTRIES.portal.ref(portal)), clock))
      throw new UnknownReference(`portal ${portal}`);
  }

  const isTaken = async (name: string): Promise<boolean> =>
    (await directory.findAccountByName(normalName(name))) !== undefined;

  /** Whether an invitation to the address can be accepted. Two that are made at once may both be: the first one that is accepted counts. */
  async function isInvited(tx: Transaction, email: string): Promise<boolean> {
    const query = { ...INVITATION.where("address", digestOf(email)), descending: true, limit: 1 } as const;
    const [[last] = []] = await tx.list<StoredInvitation>([query]);
    return last !== undefined && (await stateOf(last)) === "waiting";
  }

  /** What of the invitation can still be had: the directory and the configuration may have changed since. */
  async function stillThere(
    tx: Transaction,
    { services: assigned = [], roles = {}, email, portal, attributes, ...profile }: Invited,
  ): Promise<Omit<ConfirmedAccount, "sub" | "first" | "invitation">> {
    const entries = await tx.getAll(assigned.map((key) => ENTRIES.service.ref(key)));
    const open = assigned.flatMap((key, index) => {
      const entry = entries[index];
      if (!isOpen(entry, clock)) return [];
      const known = "roles" in entry ? (entry.roles ?? []) : [];
      return [[key, (ownValue(roles, key) ?? []).filter((name) => known.includes(name))] as const];
    });
    const isThere = typeof portal === "string" && isOpen(await tx.get(ENTRIES.portal.ref(portal)), clock);
    const wrong = new Set(fields.problems({ ...profile, attributes }, clock).map(({ path }) => path.at(-1)));
    const fitting = (values: object): object =>
      Object.fromEntries(Object.entries(values).filter(([name]) => !wrong.has(name)));
    const { username } = profile;
    const isFree = typeof username === "string" && !(await isTaken(username));
    return {
      email,
      ...fitting(profile),
      username: isFree ? username : null,
      ...(attributes !== undefined && { attributes: fitting(attributes) as Invited["attributes"] }),
      portal: isThere ? portal : null,
      services: Object.fromEntries(open.map(([key]) => [key, null])),
      roles: Object.fromEntries(open.filter(([, names]) => names.length > 0)),
    };
  }

  /** A hash of a password that breaks no rule. A point is taken before another service is asked about it. */
  async function hashed(
    id: string,
    password: string,
    invited: Invited,
    at: AskedAt,
  ): Promise<NewPassword | Extract<InvitationAccepted, { readonly kind: "refused-password" | "limited" }>> {
    const problem = passwords.problem(password, passwordNames(invited));
    if (problem !== undefined) return { kind: "refused-password", problem };
    const limited = refusalOf(services, at, await limits.newPassword(id), "account.registered");
    if (limited !== undefined) return limited;
    const party = wideNetwork(at.address);
    if (await passwords.isBreached(password, party)) return { kind: "refused-password", problem: "breached" };
    return { kind: "password", hash: await passwords.hash(password, party) };
  }

  const { create: invite, ...operations } = facade(table, {
    async list({ input: { email, state, limit, after } }) {
      const query = email === undefined ? BY_CREATION : INVITATION.where("address", digestOf(email));
      const [page] = await records.store.list([{ ...query, after, limit, descending: true }]);
      const all = await Promise.all(
        (page?.records ?? []).map(({ value }) => shown(value as unknown as StoredInvitation)),
      );
      const items = all.filter((each) => state === undefined || each.state === state);
      return { items, next: page?.next ?? null };
    },

    async find({ target: [id] }) {
      const found = await records.find(INVITATION.ref(id));
      return found && shown(found.value);
    },

    async create({ input, caller }) {
      const deployment = mailDeployment;
      if (deployment === undefined) throw new NotApplicable(WITHOUT_MAIL);
      const problems = fields.problems(input, clock);
      if (problems.length > 0) throw invalid("invitation", problems);
      if (onlyProvider(configuration, { sub: "", email: input.email, email_verified: true }) !== undefined)
        throw new NotApplicable("people with an address of this domain sign in at their provider only");
      const id = randomUUID();
      const { kind, id: by } = caller.actor;
      const actor = { kind, ...(by !== undefined && { id: by }) };
      const byAdministrator = await isAdministrator(actor);
      const stored = await records.transact(async (tx) => {
        for (const name of namesOf({ email: input.email, username: input.username ?? null }))
          if (await isTaken(name)) throw new NameTaken();
        if (await isInvited(tx, input.email)) throw new AlreadyExists("an invitation that waits");
        await requireReferences(tx, input);
        const now = Math.floor(clock.now());
        const made: StoredInvitation = {
          id,
          address: digestOf(input.email),
          sealed: sealer.seal(invitationContext(id), JSON.stringify(input)),
          state: "waiting",
          invitedBy: actor,
          byAdministrator,
          deployment,
          sendsLeft: SENDS_AGAIN,
          sub: null,
          createdAt: now,
          sentAt: now,
          expiresAt: now + INVITATION_LIFETIME_MS,
        };
        await put(tx, made, input, caller);
        await webhooks.invited(tx, {
          ...fields.shown(input),
          email: input.email,
          invitation: id,
          at: inSeconds(now),
        });
        return made;
      });
      return shown(stored);
    },

    async send({ target: [id], caller }) {
      if (mailDeployment === undefined) throw new NotApplicable(WITHOUT_MAIL);
      return shown(
        await records.transact(async (tx) => {
          const before = await tx.get(INVITATION.ref(id));
          if (before === undefined) throw noInvitation();
          const state = await stateOf(before);
          if (state !== "waiting" && state !== "expired")
            throw new NotApplicable(`the invitation is ${state}`);
          if (before.sendsLeft === 0)
            throw new NotApplicable(
              "the invitation was sent again three times: withdraw it, and make a new one",
            );
          const now = Math.floor(clock.now());
          const sent = {
            ...before,
            sendsLeft: before.sendsLeft - 1,
            sentAt: now,
            expiresAt: now + INVITATION_LIFETIME_MS,
          };
          await put(tx, sent, opened(before), caller);
          return sent;
        }),
      );
    },

    async withdraw({ target: [id], caller }) {
      return shown(
        await records.transact(async (tx) => {
          const before = await tx.get(INVITATION.ref(id));
          if (before === undefined) throw noInvitation();
          if (before.state === "accepted" || before.state === "withdrawn")
            throw new NotApplicable(`the invitation is ${before.state}`);
          const withdrawn = { ...before, state: "withdrawn" } as const;
          tx.put(INVITATION.record(withdrawn));
          tx.remove(CONFIRMATION.ref(["invitation", id]));
          tx.create(storage.audit.recordOf({ ...caller, action: "invitation.withdrawn", subject: id }));
          return withdrawn;
        }),
      );
    },
  });

  return {
    ...operations,
    invite,

    async findOpen(id) {
      const found = (await records.find(INVITATION.ref(id)))?.value;
      if (found === undefined || (await stateOf(found)) !== "waiting") return undefined;
      const invited = opened(found);
      return { email: canonicalEmail(invited.email), ...fields.shown(invited) };
    },

    async accept(id, sub, chosen, at) {
      const first = (await records.find(INVITATION.ref(id)))?.value;
      if (first === undefined) return GONE;
      const way = chosen.kind === "password" ? await hashed(id, chosen.password, opened(first), at) : chosen;
      if (way.kind === "refused-password" || way.kind === "limited") return way;
      const work = async (tx: Transaction): Promise<InvitationAccepted> => {
        const stored = await tx.get(INVITATION.ref(id));
        if (stored === undefined || (await stateOf(stored)) !== "waiting") return GONE;
        const invited = opened(stored);
        tx.remove(CONFIRMATION.ref(["invitation", id]));
        if (await isTaken(invited.email)) {
          tx.put(INVITATION.record({ ...stored, state: "void" }));
          return { kind: "address-known" };
        }
        const account = { ...(await stillThere(tx, invited)), sub, first: way, invitation: id };
        const registered = await accounts.register(tx, account, callerAs(sub, at));
        tx.put(INVITATION.record({ ...stored, state: "accepted", sub }));
        return { kind: "created", ...registered };
      };
      try {
        return await records.transact(work);
      } catch (error) {
        if (error instanceof AlreadyExists) return { kind: "passkey-taken" };
        throw error;
      }
    },
  };
}
