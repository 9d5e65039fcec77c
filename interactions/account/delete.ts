/** Deleting the account, and signing out: the pages after which nobody is signed in. */
import type { ServiceContext } from "../../provider/exchange.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { readPlannedDirectory } from "../../accounts/account-write.ts";
import type { Accounts } from "../../accounts/account.ts";
import { shownEmail } from "../../accounts/names.ts";
import { byCaller } from "../../accounts/arguments.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import { explainDeliveries } from "../../accounts/plan.ts";
import { seeOther } from "../answers.ts";
import type { Page, Pages } from "../page.ts";
import type { AccountPage } from "../../provider/pages.ts";
import type { AccountGate } from "./gate.ts";
import { personLocals, type PersonLocals, type PersonPage } from "./person-pages.ts";
import type { AccountSeals } from "./seals.ts";

const DELETE_PATH = "/account/delete";
const SIGNED_OUT_PATH = "/account/signed-out";

/** `account-delete`: a form that deletes the account. */
interface DeleteLocals extends PersonLocals {
  readonly email: string;
  /** The names of the services and portals that are notified. */
  readonly notified: readonly string[];
}

export const deletionView: Page<DeleteLocals> = {
  view: "account-delete",
  locals(t, locals) {
    const { email, notified } = locals;
    return { ...personLocals(t, locals, t("account.delete")), email, notified };
  },
};

export interface DeletePageParts {
  readonly accounts: Pick<Accounts, "delete">;
  readonly directory: Pick<DirectoryRecords, "findEntry" | "findEntries">;
  readonly seals: Pick<AccountSeals, "sealDeleted">;
  /** Removes the session cookie from the browser. */
  readonly forgetSession: (ctx: ServiceContext) => void;
}

export function deletePage({ accounts, directory, seals, forgetSession }: DeletePageParts): PersonPage {
  return {
    path: DELETE_PATH,
    place: "delete",
    needs: "recent sign-in",
    isUnlimited: true,
    async show({ locals, person, send }) {
      const { account } = person;
      const notified = await receiversOf(account, directory);
      send(deletionView, { ...locals, email: shownEmail(account.email), notified });
    },
    async submit({ ctx, person, caller }) {
      await accounts.delete(person.account.sub, byCaller(caller));
      forgetSession(ctx);
      seeOther(ctx, `${ctx.exchange.deployment.url}${SIGNED_OUT_PATH}?done=${seals.sealDeleted()}`);
    },
  };
}

/** The names of the services and portals that are notified when the account is deleted. */
async function receiversOf(
  account: AccountRecord,
  directory: Pick<DirectoryRecords, "findEntry" | "findEntries">,
): Promise<readonly string[]> {
  const planned = await readPlannedDirectory(directory, [account]);
  const action = { type: "DELETE_ACCOUNT", at: 0 } as const;
  const notified = explainDeliveries(action, account, undefined, planned).filter(
    ({ reason }) => reason === "notified",
  );
  const names = await Promise.all(
    notified.flatMap(({ receiver, services }) =>
      receiver.startsWith("portal:")
        ? [directory.findEntry("portal", receiver.slice("portal:".length))]
        : services.map((key) => directory.findEntry("service", key)),
    ),
  );
  const known = names.flatMap((entry) => (entry === undefined ? [] : [entry.name]));
  return [...new Set(known)].toSorted((one, other) => one.localeCompare(other));
}

export interface SignOutParts {
  readonly sessions: Pick<SignInSessions, "end">;
  readonly forgetSession: (ctx: ServiceContext) => void;
}

/** Handles the form of the first page, which signs out. */
export function signOut({ sessions, forgetSession }: SignOutParts): NonNullable<PersonPage["submit"]> {
  return async ({ ctx, person, caller }) => {
    await sessions.end(person.account.sub, person.session, { caller, reason: "signed_out" });
    forgetSession(ctx);
    seeOther(ctx, ctx.exchange.deployment.url + SIGNED_OUT_PATH);
  };
}

export interface SignedOutPageParts {
  readonly pages: Pages;
  readonly gate: Pick<AccountGate, "find">;
  readonly seals: Pick<AccountSeals, "isDeleted">;
}

/** Open to everybody. It says what has happened only in the browser in which it happened. */
export function signedOutPage({ pages, gate, seals }: SignedOutPageParts): AccountPage {
  return {
    path: SIGNED_OUT_PATH,
    methods: {
      async GET(ctx, { query }) {
        if ((await gate.find(ctx)) !== undefined)
          return seeOther(ctx, `${ctx.exchange.deployment.url}/account`);
        return pages.loggedOut(ctx, {
          after: seals.isDeleted(query.get("done") ?? "") ? "deleted" : "signed out",
        });
      },
    },
  };
}
