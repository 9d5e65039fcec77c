/** A page of the account that only this test has: its row is all that a page, its JSON and the published document need. */
import { createSecretKey } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { z } from "zod";
import { openapiDocument } from "../../../build/openapi.ts";
import { createSigner } from "../../../core/sealing.ts";
import { PERSON_PAGES } from "../../../interactions/account/pages.ts";
import {
  createPersonPages,
  type PersonPage,
  type PersonServices,
} from "../../../interactions/account/person-pages.ts";
import {
  type AccountPageDescription,
  type PersonLocals,
  type PersonView,
  personView,
} from "../../../interactions/account/person-view.ts";
import { createAccountSeals } from "../../../interactions/account/seals.ts";
import type { ServiceContext } from "../../../provider/exchange.ts";
import type { AccountPage } from "../../../provider/pages.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { pagesWith } from "../every-page.ts";

const clock = new TestClock();

describe("a row of the table of pages", () => {
  interface Hobby extends PersonLocals {
    readonly value: string;
  }
  const view: PersonView<Hobby> = personView({
    name: "hobby",
    takes: { submit: ["hobby"] },
    members: { since: z.string() },
    content: (t, { value }) => ({
      title: t("account.profile"),
      fields: [
        { name: "hobby", type: "text", autocomplete: "off", required: true, label: t("field.name"), value },
      ],
      actions: [{ name: "submit", label: t("profile.save") }],
      members: { since: "1843" },
    }),
  });
  const hobbies: string[] = [];
  const row: PersonPage = {
    path: "/account/hobby",
    isUnlimited: true,
    views: [view],
    show: ({ locals, show }) => show(view, { ...locals, value: "Analysis" }),
    async submit({ done }, { values }) {
      hobbies.push(values.get("hobby") ?? "");
      return done("/account/hobby", "profile");
    },
  };

  const person = { session: "s", account: { sub: "1", email: "ada@example.com", sessions_generation: 0 } };
  const keys = [createSecretKey(Buffer.alloc(32, 7))];
  const seals = createAccountSeals({ signer: createSigner(keys), keys }, clock);
  const parts = {
    pages: pagesWith(),
    seals,
    gate: { enter: async () => person },
    secondFactors: {},
    people: {},
    configuration: { providers: [], operators: {} },
  } as unknown as PersonServices;
  const hobby = createPersonPages(parts, [...PERSON_PAGES, row]).find(({ path }) => path === row.path);

  /** The answer to one request. */
  async function answerTo(
    method: "GET" | "POST",
    accept: string,
    sent: Readonly<Record<string, string>> = {},
  ) {
    const type = accept === "application/json" ? accept : "application/x-www-form-urlencoded";
    const ctx = {
      method,
      querystring: "",
      query: {},
      status: 0,
      type: "",
      body: undefined as unknown,
      request: { type: method === "POST" ? type : "" },
      headers: {},
      req: { headers: {} },
      accepts: () => (accept === "application/json" ? "json" : "html"),
      acceptsLanguages: () => "en",
      get: (name: string) => (name === "Origin" && method === "POST" ? "https://login.example" : ""),
      set() {},
      append() {},
      cookies: { get: () => undefined, set() {} },
      redirect(this: { location: string }, location: string) {
        this.location = location;
      },
      location: "",
      exchange: {
        deployment: { url: "https://login.example", path: "", secure: true },
        address: "127.0.0.1",
        form: async () => new Map(Object.entries(sent)),
        json: async () => sent,
      },
    };
    const handler = hobby?.methods[method] as AccountPage["methods"][string];
    await handler(ctx as unknown as ServiceContext, { path: row.path, id: "", query: new Map() });
    return ctx;
  }

  it("is a page, JSON, and in the published document, without another change", async () => {
    const { body: html } = await answerTo("GET", "text/html");
    expect(html).toMatch(/<input type="text" value="Analysis" id="hobby" name="hobby"/);
    const { body } = await answerTo("GET", "application/json");
    const { csrf, fields, actions, ...rest } = body as AccountPageDescription;
    expect([rest.page, fields[0]?.value, actions[0]?.fields]).toEqual(["hobby", "Analysis", ["hobby"]]);
    for (const accept of ["text/html", "application/json"]) {
      const answer = await answerTo("POST", accept, { csrf, hobby: accept });
      expect(answer.status).toBe(accept === "text/html" ? 303 : 200);
    }
    expect(hobbies).toEqual(["text/html", "application/json"]);
    const document = JSON.parse(openapiDocument([...PERSON_PAGES, row])) as {
      readonly paths: Readonly<Record<string, object>>;
      readonly components: { readonly schemas: Readonly<Record<string, object>> };
    };
    expect(JSON.stringify(document.paths[row.path])).toContain('"hobby":{"type":"string"}');
    expect(JSON.stringify(document.components.schemas["HobbyPage"])).toContain('"since"');
  });
});
