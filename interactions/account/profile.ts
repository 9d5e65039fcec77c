/** The profile: the fields of a person that people change themselves, in one form. */
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import { byCaller } from "../../accounts/arguments.ts";
import {
  type FieldRow,
  PERSON_FIELD_NAMES,
  PERSON_FIELDS,
  type PersonFields,
} from "../../accounts/profile-fields.ts";
import { NameTaken } from "../../core/errors.ts";
import { keepLanguage } from "../look/language.ts";
import {
  attributesOf,
  type Entered,
  fieldsIn,
  inWords,
  sectionsIn,
  type ShownAttribute,
  storedTexts,
  typedChanges,
  typedProblems,
  typedTexts,
} from "../look/person-fields.ts";
import type { Reply } from "../reply.ts";
import type { Problem } from "../steps/step.ts";
import type { PersonPage, PersonVisit } from "./person-pages.ts";
import { type PersonLocals, type PersonView, personView } from "./person-view.ts";

const PATH = "/account/profile";

/** `account-profile`: a form with the fields of the profile, and what operators have set. */
interface ProfileLocals extends PersonLocals {
  readonly rows: readonly FieldRow[];
  readonly values: Entered;
  /** What the account has. Default: the same. */
  readonly before?: Entered;
  readonly set: readonly ShownAttribute[];
}

export const profileView: PersonView<ProfileLocals> = personView({
  name: "profile",
  view: "account-profile",
  takes: { submit: PERSON_FIELD_NAMES.filter((name) => PERSON_FIELDS[name].edit === "person") },
  members: {
    set: z
      .array(section({ name: z.string(), label: z.string(), value: z.string() }))
      .readonly()
      .describe("What operators have set and the person sees, in words."),
  },
  content: (t, data) => {
    const fields = fieldsIn(t, data.rows, data.values);
    return {
      title: t("account.profile"),
      texts: [t("profile.told")],
      fields,
      actions: [{ name: "submit", label: t("profile.save"), fields: fields.map(({ name }) => name) }],
      members: { set: data.set.map((each) => inWords(t, each)) },
    };
  },
  locals: (t, { rows, values, before = values, set }) => ({
    sections: sectionsIn(fieldsIn(t, rows, values), before),
    set: set.map((each) => inWords(t, each)),
  }),
});

export const profilePage: PersonPage = {
  path: PATH,
  navigation: "profile",
  views: [profileView],
  show: (visit, { fields }) => shown(visit, fields, storedTexts(fields.own, visit.person.account)),
  async submit(visit, { values: sent }, { accounts, limits, fields, clock }) {
    const { own } = fields;
    const { account } = visit.person;
    const before = storedTexts(own, account);
    const values = typedTexts(own, sent, before);
    const problems = typedProblems(own, values, before, clock);
    if (problems.length > 0) return shown(visit, fields, values, problems);
    const changes = typedChanges(own, values, before);
    if (fields.isTooLarge(fields.stored(account, changes)))
      return shown(visit, fields, values, [{ code: "too-much", fields: [] }]);
    // The point is taken before the answer is known: neither a refusal nor its absence may reveal whether a username
    // is taken.
    const isRenamed = values["username"] !== "" && values["username"] !== before["username"];
    const attempt = isRenamed ? await limits.usernameTaken(account.sub) : undefined;
    if (attempt?.allowed === false) return visit.limited(attempt.retryAfter);
    let isTaken = false;
    try {
      await accounts.update(account.sub, changes, byCaller(visit.caller));
    } catch (error) {
      isTaken = error instanceof NameTaken;
      if (!isTaken) throw error;
      return shown(visit, fields, values, [{ code: "taken", fields: ["username"] }]);
    } finally {
      if (!isTaken) await attempt?.withdraw();
    }
    // The language in the cookie wins over that of the account, so it changes too.
    const { locale } = values;
    if (locale !== before["locale"]) keepLanguage(visit.ctx, locale || undefined);
    return visit.done(PATH, "profile");
  },
};

function shown(
  { locals, person, show }: PersonVisit,
  fields: PersonFields,
  values: Entered,
  problems: readonly Problem[] = [],
): Reply {
  const { own, rows } = fields;
  const set = attributesOf(
    rows.filter((row) => !row.isHidden && !own.includes(row)),
    person.account,
  );
  return show(profileView, {
    ...locals,
    rows: own,
    values,
    before: storedTexts(own, person.account),
    set,
    problems,
  });
}
