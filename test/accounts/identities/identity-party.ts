/** An account over a real storage, and what a sign-in or the account pages do with its identities. */
import type { AccountInternals, ConfirmedAccount } from "../../../accounts/account.ts";
import type { LinkedAs, LinkingSession } from "../../../accounts/identities/identity.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { IDENTITY } from "../../../records/people/identity-kinds.ts";
import { AT, openPeople, PASSWORD, type PeopleStage } from "../people/stage.ts";

export const GOOGLE = "https://accounts.google.com";
export const DAY = 86_400;

export const ada: LinkedAs = { provider: "google", issuer: GOOGLE, subject: "1", email: "ada@gmail.com" };
export const other = (parts: Partial<LinkedAs>): LinkedAs => ({ ...ada, ...parts });
export const corp = other({ provider: "corp", issuer: "https://corp.example", subject: "7" });

export class IdentityParty {
  stage!: PeopleStage;
  /** The account of Ada, with a password. */
  sub = "";

  async open(): Promise<void> {
    this.stage = await openPeople();
    ({ sub: this.sub } = await this.stage.accounts.create({
      email: "ada@example.com",
      password: PASSWORD,
      email_verified: true,
    }));
  }

  async record(of = this.sub): Promise<AccountRecord> {
    const record = await this.stage.accounts.record(of);
    if (record === undefined) throw new Error("no account");
    return record;
  }

  /** The session in which the person is. */
  async session(of = this.sub): Promise<{ readonly keepSession: string; readonly generation: number }> {
    return { keepSession: "here", generation: (await this.record(of)).sessions_generation };
  }

  async link(identity = ada, of = this.sub) {
    return this.stage.identities.link(of, identity, await this.state(of), AT);
  }

  /** The id of an identity of an account. */
  async idOf(identity = ada, of = this.sub): Promise<string> {
    const all = await this.stage.identities.list(of);
    return all.find(({ subject }) => subject === identity.subject)?.id ?? "none";
  }

  async unlink(identity = ada, of = this.sub) {
    return this.stage.identities.unlink(of, await this.idOf(identity, of), await this.session(of), AT);
  }

  async ownerOf(identity: Pick<LinkedAs, "issuer" | "subject">): Promise<string | undefined> {
    return (await this.stage.identities.find(identity))?.sub;
  }

  /** How many identities are stored. */
  async stored(): Promise<number> {
    return (await this.stage.storage.records.all(IDENTITY.name)).length;
  }

  /** What linking needs to know of it. */
  async state(of = this.sub): Promise<LinkingSession> {
    const { generation: sessions_generation, keepSession } = await this.session(of);
    return { sessions_generation, keepSession };
  }

  /** Registers Grace, or somebody else, with an identity. */
  register(parts: Partial<ConfirmedAccount> = {}, identity = ada): ReturnType<AccountInternals["register"]> {
    const account = { sub: crypto.randomUUID(), email: "grace@example.com", ...parts };
    return this.stage.storage.records.transact((tx) =>
      this.stage.accounts.register(tx, { ...account, first: { kind: "identity", identity } }, AT.caller),
    );
  }
}
