/** Notices about security: how many an account gets, so that nobody fills its mailbox by causing them. */
import type { Sealer } from "../../core/sealing.ts";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";
import type { Transaction } from "../records.ts";
import { MAIL, type MailKind, type NewMail, sealMail } from "./mail-kinds.ts";

/** Notices of one kind to one account in an hour. */
const MAX_NOTICES = 10;
const WINDOW_MS = 3_600_000;

/** The notices of one kind that an account has got since the first of them. Times are in milliseconds since the epoch. */
interface NoticeCount {
  readonly sub: string;
  readonly kind: MailKind;
  readonly count: number;
  readonly endsAt: number;
}

export const NOTICE_COUNT: Kind<NoticeCount> = defineKind<NoticeCount>({
  name: "notice-count",
  holds: "how many notices about one kind of event an account has got within an hour",
  key: "the `sub` and the kind of mail",
  keyOf: ({ sub, kind }) => [sub, kind],
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  expires: "an hour after the first notice",
  expiresAt: ({ endsAt }) => endsAt,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

/**
 * Stores a notice to an account, unless it had ten of this kind within an hour. The tenth says that more may follow
 * unsent. A notice with a link that undoes a change is always stored.
 * @param more.now milliseconds since the epoch. @param more.id replaces a notice with this id, which the transaction has read. Default: a new one.
 * @returns whether it was stored.
 */
export async function putNotice(
  tx: Transaction,
  sub: string,
  notice: NewMail,
  { sealer, now, id }: { readonly sealer: Sealer; readonly now: number; readonly id?: string },
): Promise<boolean> {
  function put(mail: NewMail): void {
    const record = MAIL.record(sealMail(sealer, mail, now, id));
    if (id === undefined) tx.create(record);
    else tx.put(record);
  }
  if (notice.params["link"] !== undefined) {
    put(notice);
    return true;
  }
  const { kind } = notice;
  const before = await tx.get(NOTICE_COUNT.ref([sub, kind]));
  const isOpen = before !== undefined && before.endsAt > now;
  const count = (isOpen ? before.count : 0) + 1;
  if (count > MAX_NOTICES) return false;
  const endsAt = isOpen ? before.endsAt : Math.floor(now) + WINDOW_MS;
  tx.put(NOTICE_COUNT.record({ sub, kind, count, endsAt }));
  put(count < MAX_NOTICES ? notice : { ...notice, params: { ...notice.params, last: "1" } });
  return true;
}
