/** What the pages about people add to what their rows say: the search, the page of a person, and what is asked before something is done. */
import { factorKey } from "../../../accounts/factors/factor.ts";
import type { Account } from "../../../accounts/operations/accounts.ts";
import { type Factors, methodsOf, wayOf } from "../../../accounts/ways/ways.ts";
import { NotFound } from "../../../core/errors.ts";
import type { Look } from "../derived/pages.ts";
import { calledOf, createPersonPage, type PeopleParts } from "./person.ts";
import { createSearchList } from "./search.ts";

/** Support says how it has checked who is asking. */
const CHECKED = ["verified_by"] as const;

export const peopleLook = (parts: PeopleParts): Look => ({
  entry: "people",
  list: createSearchList(parts),
  record: createPersonPage(parts),
  called: (record) => calledOf(record as unknown as Account),
  acting: {
    removeFactors: async () => ({ required: CHECKED }),
    async removeFactor({ params, query, perform, t }, { name = "" }) {
      const [sub = ""] = params;
      const { result } = await perform("accounts", "factors", { target: [sub] });
      const key = query.get("factor");
      const method = methodsOf(result as Factors).find(({ id }) => factorKey(id) === key);
      if (method === undefined) throw new NotFound("this second factor");
      const what = method.name ?? t(wayOf(method).texts.name);
      return { target: [sub, method.id], name: `${name} · ${what}`, required: CHECKED };
    },
    async unlinkIdentity({ params, query }, { name = "" }) {
      const provider = query.get("provider") ?? "";
      return { target: [params[0] ?? "", provider], name: `${name} · ${provider}` };
    },
    delete: async (_request, { record }) => ({ typed: (record as unknown as Account).email }),
  },
});
