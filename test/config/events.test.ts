/** `events`: a message for each wrong key of a receiver that says what it must be, and the variables. */
import { describe, expect, it } from "@jest/globals";
import { EVENT_TYPES, INCLUDABLE } from "../../config/events.ts";
import { nodesOf } from "../../config/documented-schema.ts";
import { readConfiguration } from "../../config/read.ts";
import { configurationSchema } from "../../config/schema.ts";
import { readVariables, withVariables } from "../../config/variables.ts";
import { PERSON_FIELD_NAMES } from "../../accounts/profile-fields.ts";
import { PRODUCTION, problemsIn, problemsWith, SMALLEST } from "./refusals.ts";

const SECRET = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(64, 2).toString("base64")}`;
const CRM = { url: "https://crm.example/events", signing_secret: SECRET, types: ["account.created"] };

/** The problems of receivers, without the path to them. */
const problemsOf = (receivers: unknown): readonly string[] =>
  problemsWith({ events: { receivers } }).map((line) => line.replace(/^config\.events\.receivers\.?/u, ""));

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`a${n}`, CRM]));

/** As `JSON.parse` gives it. */
const withProto = JSON.parse(`{ "__proto__": ${JSON.stringify(CRM)} }`) as unknown;

const valuesOf = (variables: Record<string, string>) =>
  readVariables(nodesOf(configurationSchema), new Map(Object.entries(variables)));

describe("the receivers of events of the configuration", () => {
  it("are none without the key, and include nothing by default [D-EVENT-8]", () => {
    expect(readConfiguration(SMALLEST).events).toEqual({ receivers: {} });
    const receivers = { crm: CRM, "my-erp": { ...CRM, signing_secret: `${OTHER} ${SECRET}` } };
    expect(readConfiguration({ ...SMALLEST, events: { receivers } }).events.receivers).toEqual({
      crm: { ...CRM, include: [] },
      "my-erp": { ...CRM, signing_secret: `${OTHER} ${SECRET}`, include: [] },
    });
  });

  it("can include every field of a person, and the attributes [D-EVENT-8]", () => {
    expect(INCLUDABLE.toSorted()).toEqual(["email", "email_verified", ...PERSON_FIELD_NAMES].toSorted());
    const department = { type: "text", label: "Department" };
    const included = (include: readonly string[]) =>
      problemsWith({
        accounts: { attributes: { department, nickname: true } },
        events: { receivers: { crm: { ...CRM, include } } },
      });
    expect(included([...INCLUDABLE, "department", "nickname"])).toEqual([]);
    const problem = `must be ${INCLUDABLE.join(", ")}, or a key of config.accounts.attributes`;
    expect(included(["email", "shoe_size", "password", "sub"])).toEqual(
      [1, 2, 3].map((index) => `config.events.receivers.crm.include[${index}]: ${problem}`),
    );
  });

  it.each<[unknown, readonly string[]]>([
    [{ crm: {} }, ["crm.url: is required", "crm.signing_secret: is required", "crm.types: is required"]],
    [{ crm: [] }, ["crm: must be an object that describes a receiver, not a list"]],
    [{ CRM }, ["CRM: is not a key for a receiver: it has 1 to 32 of a-z 0-9 -, a letter first"]],
    [{ constructor: CRM }, ["constructor: must not have a name that every object has"]],
    [withProto, ["__proto__: is not a key of the configuration"]],
    [many(30), []],
    [many(31), [": must have at most 30 receivers"]],
    ...(
      [
        [{ url: "crm.example" }, "url: must be an absolute http or https URL without user"],
        [{ url: "https://a:s3cret@crm.example/" }, "url: must be an absolute http or https URL without user"],
        [{ url: "https://crm.example/#a" }, "url: must be an absolute http or https URL without user"],
        [{ url: "https://0x7f.1/" }, "url: must be an absolute http or https URL without user"],
        [{ url: "http://crm.example/" }, "url: must be https, or config.notifications.allowedReceivers must"],
        [{ signing_secret: "s3cret" }, "signing_secret: must be `whsec_` and the Base64 of 24 to 64 bytes"],
        [{ signing_secret: `${SECRET} ${OTHER} ${SECRET}` }, "signing_secret: must be `whsec_`"],
        [{ signing_secret: "whsec_c2hvcnQ=" }, "signing_secret: must be `whsec_`"],
        [{ signing_secret: null }, "signing_secret: must be `whsec_`"],
        [{ types: [] }, "types: must be a list of different entries, each one of `account.registered`"],
        [{ types: ["account.craeted"] }, "types[0]: must be one of `account.registered`"],
        [{ types: ["DELETE_ACCOUNT"] }, "types[0]: must be one of `account.registered`"],
        [{ types: ["account.created", "account.created"] }, "types: must be a list of different entries"],
        [{ include: "email" }, "include: must be a list of different entries, each one of `email`"],
        [{ include: ["__proto__"] }, "include[0]: must be"],
        [{ client_secret: "s3cret" }, 'client_secret: unknown key; the nearest known key is "config.'],
        [{ incldue: [] }, 'incldue: unknown key; did you mean "config.events.receivers.crm.include"?'],
      ] as const
    ).map(([settings, problem]): [unknown, readonly string[]] => [
      { crm: { ...CRM, ...settings } },
      [`crm.${problem}`],
    ]),
  ])("explain %j [D-EVENT-8]", (receivers, problems) => {
    const found = problemsOf(receivers);
    expect(found).toEqual(problems.map((each): unknown => expect.stringContaining(each)));
    expect(found.join()).not.toContain("s3cret");
  });

  it("may use http where an address is allowed [D-EVENT-8]", () => {
    const url = "http://10.0.0.7/events";
    const notifications = { allowedReceivers: ["10.0.0.0/8"] };
    const events = { receivers: { crm: { ...CRM, url } } };
    expect(problemsIn({ ...PRODUCTION, notifications, events })).toEqual([]);
  });

  it("suggest the key that was meant", () => {
    expect(problemsWith({ events: { recievers: {} } })).toEqual([
      'config.events.recievers: unknown key; did you mean "config.events.receivers"?',
    ]);
    expect(problemsWith({ event: {} })).toEqual(['config.event: unknown key; did you mean "config.events"?']);
  });
});

describe("the variables of receivers of events", () => {
  it("are one for each key of each receiver [D-EVENT-8]", async () => {
    const values = await valuesOf({
      SIGN_IN_EVENTS_RECEIVERS_MY_ERP_URL: CRM.url,
      SIGN_IN_EVENTS_RECEIVERS_MY_ERP_SIGNING_SECRET: SECRET,
      SIGN_IN_EVENTS_RECEIVERS_MY_ERP_TYPES: EVENT_TYPES.join(", "),
      SIGN_IN_EVENTS_RECEIVERS_MY_ERP_INCLUDE: "email",
    });
    expect(readConfiguration(withVariables(SMALLEST, values)).events.receivers).toEqual({
      "my-erp": { ...CRM, types: EVENT_TYPES, include: ["email"] },
    });
  });

  it.each([
    ["SIGN_IN_EVENTS_RECEIVERS_CRM_SIGNING_SECRETT", "SIGN_IN_EVENTS_RECEIVERS_CRM_SIGNING_SECRET"],
    ["SIGN_IN_EVENTS_RECEIVERS_CRM_URI", "SIGN_IN_EVENTS_RECEIVERS_CRM_URL"],
    ["SIGN_IN_PROVIDERS_CORP_CLIENT_IDD", "SIGN_IN_PROVIDERS_CORP_CLIENT_ID"],
  ])("suggest %s for a name that is a letter off", async (name, meant) => {
    await expect(valuesOf({ [name]: "x" })).rejects.toMatchObject({
      problems: [`environment.${name}: unknown variable; did you mean "${meant}"?`],
    });
  });
});
