/** Deleting the account, and signing out: the pages after which nobody is signed in. */
import { z } from "zod";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { planChange } from "../../accounts/account-write.ts";
import { shownEmail } from "../../accounts/names.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { seeOther } from "../answers.ts";
import type { AccountPage } from "../../provider/pages.ts";
import type { PersonPage, PersonServices } from "./person-pages.ts";
import { HOME, type PersonLocals, type PersonView, personView } from "./person-view.ts";

const DELETE_PATH = "/account/delete";
const SIGNED_OUT_PATH = "/account/signed-out";

/** `account-delete`: a form that deletes the account. */
interface DeleteLocals extends PersonLocals {
  readonly email: string;
  /** The names of the services and portals that are notified. */
  readonly notified: readonly string[];
}

export const deletionView: PersonView<DeleteLocals> = personView({
  name: "delete",
  view: "account-delete",
  takes: { submit: [] },
  members: {
    notified: z
      .array(z.string())
      .readonly()
      .describe("The names of the services and portals that are notified."),
  },
  content: (t, { email, notified }) => ({
    title: t("account.delete"),
    texts: [
      t("delete.text", { account: email }),
      ...(notified.length === 0 ? [] : [t("delete.told"), t("delete.copies")]),
    ],
    actions: [{ name: "submit", label: t("delete.submit"), look: "danger" }],
    members: { notified },
  }),
  locals: (_t, { notified }) => ({ notified }),
});

export const deletePage: PersonPage = {
  path: DELETE_PATH,
  navigation: "delete",
  needs: "recent sign-in",
  isUnlimited: true,
  views: [deletionView],
  async show({ locals, person, show }, { storage: { directory } }) {
    const { account } = person;
    const notified = await receiversOf(account, directory);
    return show(deletionView, { ...locals, email: shownEmail(account.email), notified });
  },
  async submit({ ctx, person, caller, leave }, _sent, { accounts, seals, forgetSession }) {
    await accounts.delete(person.account.sub, byCaller(caller));
    forgetSession(ctx);
    return leave(`${SIGNED_OUT_PATH}?done=${seals.sealDeleted()}`);
  },
};

/** The names of the services and portals that are notified when the account is deleted. */
async function receiversOf(
  account: AccountRecord,
  directory: Pick<DirectoryRecords, "findEntry" | "findEntries">,
): Promise<readonly string[]> {
  const plan = await planChange(directory, { before: account, after: undefined }, ["DELETE_ACCOUNT"], 0);
  const notified = plan.filter(({ reason }) => reason === "notified");
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

/** Handles the form of the first page, which signs out. */
export const signOut: NonNullable<PersonPage["submit"]> = async (
  { ctx, person, caller, leave },
  _sent,
  { sessions, forgetSession },
) => {
  await sessions.end(person.account.sub, person.session, { caller, reason: "signed_out" });
  forgetSession(ctx);
  return leave(SIGNED_OUT_PATH);
};

/** Open to everybody. It says what has happened only in the browser in which it happened. */
export function signedOutPage({
  pages,
  gate,
  seals,
}: Pick<PersonServices, "pages" | "gate" | "seals">): AccountPage {
  return {
    path: SIGNED_OUT_PATH,
    methods: {
      async GET(ctx, { query }) {
        if ((await gate.find(ctx)) !== undefined) return seeOther(ctx, ctx.exchange.deployment.url + HOME);
        return pages.loggedOut(ctx, {
          after: seals.isDeleted(query.get("done") ?? "") ? "deleted" : "signed out",
        });
      },
    },
  };
}
