/** Administration tokens: making, listing and ending them, and who a request with one comes from. */
import { hash, randomBytes } from "node:crypto";
import { facade, pageOf } from "../accounts/operations/operation.ts";
import { type ShownToken, type Tokens, tokens } from "../accounts/operations/tokens.ts";
import { StorageUnavailable, UnknownReference } from "../core/errors.ts";
import { isEqual } from "../core/sealing.ts";
import type { AuditEvent } from "../records/audit/audit-event.ts";
import { TOKEN, type TokenRecord } from "../records/administration/token-kinds.ts";
import { ENTRIES, isOpen } from "../records/directory/directory-kinds.ts";
import type { StorageServices } from "../records/services.ts";
import type { Administrator } from "./administrator.ts";

const PREFIX = "sis_";
const SECRET_BYTES = 32;
/** `sis_` and the base64url of 256 bits. */
const FORM = /^sis_[\w-]{43}$/u;
/** Of the hash: enough that no two tokens have one, too little to find the token. */
const ID_LENGTH = 16;
/** How exactly the last use is known. */
const LAST_USE_SECONDS = 60;

export interface AdministrationTokens {
  readonly calls: Tokens;
  /** Who a token belongs to; `undefined` for one that is unknown, has ended or has run out, or whose service is gone. */
  find(token: string): Promise<Administrator | undefined>;
  /** How many tokens that are valid run out within a time. */
  endingWithin(seconds: number): Promise<number>;
}

const hashOf = (token: string): string => hash("sha256", token, "base64url");
/** A token is found by its id, which is a part of its hash. */
const idOf = (hashed: string): string => `tok_${hashed.slice(0, ID_LENGTH)}`;

export function createTokens({
  storage: { records, audit },
  clock,
}: Pick<StorageServices, "storage" | "clock">): AdministrationTokens {
  const seconds = (): number => Math.floor(clock.now() / 1000);
  const isValid = ({ ended_at, expires_at }: TokenRecord): boolean =>
    ended_at === null && expires_at > seconds();

  /** There are few of them. */
  const all = async (): Promise<readonly TokenRecord[]> =>
    (await records.all<TokenRecord>(TOKEN.name)).toSorted(
      (one, other) => one.created_at - other.created_at || (one.id < other.id ? -1 : 1),
    );

  /** Notes the use. A token that is ended meanwhile stays ended, and a fault of the storage stops no request. */
  async function noteUse({ id }: TokenRecord): Promise<void> {
    try {
      await records.transact(
        async (tx) => {
          const record = await tx.get(TOKEN.ref(id));
          if (record !== undefined && isValid(record))
            tx.put(TOKEN.record({ ...record, last_used_at: seconds() }));
        },
        { relaxed: true },
      );
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error;
    }
  }

  return {
    calls: facade(tokens, {
      async create({ input: { role, expires, service = null }, caller }) {
        // Drawn before the transaction, which may run twice.
        const token = PREFIX + randomBytes(SECRET_BYTES).toString("base64url");
        const hashed = hashOf(token);
        const id = idOf(hashed);
        return records.transact(async (tx) => {
          if (service !== null && !isOpen(await tx.get(ENTRIES.service.ref(service)), clock))
            throw new UnknownReference("service");
          const created_at = seconds();
          const expires_at = created_at + expires;
          const record = { id, hash: hashed, role, service, created_at, expires_at };
          tx.create(TOKEN.record({ ...record, last_used_at: null, ended_at: null }));
          const detail = { role, service, expires_at };
          const event: AuditEvent = { ...caller, action: "token.created", subject: id, detail };
          tx.create(audit.recordOf(event));
          return { id, token, role, expires_at };
        });
      },
      list: async ({ input }) => pageOf((await all()).map(shown), ({ id }) => id, input),
      end: ({ target: [id], caller }) =>
        records.transact(async (tx) => {
          const record = await tx.get(TOKEN.ref(id));
          if (record === undefined || record.ended_at !== null) return false;
          tx.put(TOKEN.record({ ...record, ended_at: seconds() }));
          const { role, service } = record;
          const event: AuditEvent = {
            ...caller,
            action: "token.ended",
            subject: id,
            detail: { role, service },
          };
          tx.create(audit.recordOf(event));
          return true;
        }),
    }),
    async find(token) {
      if (!FORM.test(token)) return undefined;
      const hashed = hashOf(token);
      const found = await records.find(TOKEN.ref(idOf(hashed)));
      // What is found by a part of the hash says nothing about the rest.
      if (found === undefined || !isEqual(found.value.hash, hashed) || !isValid(found.value))
        return undefined;
      const { id, role, service, last_used_at } = found.value;
      if (service !== null && (await records.find(ENTRIES.service.ref(service))) === undefined)
        return undefined;
      if (last_used_at === null || last_used_at + LAST_USE_SECONDS <= seconds()) await noteUse(found.value);
      return { actor: { kind: "token", id }, role, ...(service !== null && { service }) };
    },
    async endingWithin(time) {
      const soon = seconds() + time;
      return (await all()).filter((each) => isValid(each) && each.expires_at <= soon).length;
    },
  };

  function shown(record: TokenRecord): ShownToken {
    const { hash: _hash, ...rest } = record;
    return { ...rest, state: record.ended_at !== null ? "ended" : isValid(record) ? "valid" : "expired" };
  }
}
