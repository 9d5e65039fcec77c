/** `docs/interactions.openapi.json`: the JSON interface of steps and account pages, for generators of clients and for tests. */
import { z } from "zod";
import { PERSON_PAGES } from "../interactions/account/pages.ts";
import type { PersonPage } from "../interactions/account/person-pages.ts";
import { accountPage, type PublishedView } from "../interactions/account/person-view.ts";
import { sampleStep } from "../interactions/samples/steps.ts";
import { step } from "../interactions/steps/described-step.ts";
import { signInClient, STEP_NAMES, type StepName } from "../interactions/steps/running-sign-in.ts";
import { type Documented, ROOT, withComments } from "./comments.ts";
import type { Page } from "./page.ts";

const text = (description: string) => z.string().describe(description);

const done = z.strictObject({
  done: z.literal(true),
  location: text("Navigate there: to the client, or to a new sign-in, for example for consent."),
});

const restarted = z.strictObject({
  location: text("Navigate there: the same authorization starts again."),
});

const gone = z.strictObject({
  error: z.literal("gone"),
  error_description: text("Technical, in English."),
  reason: z
    .enum(["expired", "complete", "elsewhere", "no-cookies"])
    .optional()
    .describe("`elsewhere`: it belongs to another browser. Missing at `/confirm`."),
  client: signInClient.optional(),
  again: text("As in a step.").optional(),
});

const error = z.strictObject({
  error: text("`invalid_request`, `forbidden` or `temporarily_unavailable`."),
  error_description: text("Technical, in English."),
});

/** The steps with the action `passkey`. */
const PASSKEY_STEPS: ReadonlySet<StepName> = new Set([
  "login",
  "reauthenticate",
  "second-factor",
  "enrol",
  "provider-known",
]);

const canAddPasskey = z
  .union([z.boolean(), z.string()])
  .optional()
  .describe(
    "`true` where `PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable()` says so: the step `offer-passkey` may follow.",
  );

/** What a submission of each step contains. */
function submission(name: StepName): z.ZodType {
  // With the fields of the first state.
  const { fields } = sampleStep(name);
  const members = fields.map((each) => {
    const value = z.string().describe(`autocomplete: ${each.autocomplete}`);
    return [each.name, each.required && name !== "email-code" ? value : value.optional()] as const;
  });
  if (name === "email-code") members.push(["code", text("autocomplete: one-time-code").optional()]);
  const form = name === "enrol" ? "RegistrationResponseJSON" : "AuthenticationResponseJSON";
  const credential = z.looseObject({}).optional().describe(`\`${form}\`, for \`passkey\`.`);
  return z.looseObject({
    csrf: z.string(),
    ...Object.fromEntries(members),
    ...(PASSKEY_STEPS.has(name) && { credential }),
    ...((name === "login" || name === "email-code") && { can_add_passkey: canAddPasskey }),
    ...(name === "recovery-codes" && { kept: z.union([z.literal(true), z.literal("true")]) }),
  });
}

/** A JSON Schema, as far as it is changed here. */
interface JsonSchema {
  description?: string;
  properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  [keyword: string]: unknown;
}

function schemaOf(type: z.ZodType): JsonSchema {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(type, {
    override({ jsonSchema }) {
      for (const ours of ["form", "readOnly"]) Reflect.deleteProperty(jsonSchema, ours);
    },
  });
  return schema as JsonSchema;
}

/** The paths of all members: those of the entries of a list are below the list. */
function pathsOf({ properties = {}, items }: JsonSchema, path: readonly string[]): (readonly string[])[] {
  const below = Object.entries(properties).flatMap(([key, child]) => {
    const inner: readonly string[] = path.concat(key);
    return [inner].concat(pathsOf(child, inner));
  });
  return items === undefined ? below : [...below, ...pathsOf(items, path)];
}

/** A schema with the comments of the members of a type as descriptions. */
function commentedSchema(type: z.ZodType, of: Documented): JsonSchema {
  const schema = schemaOf(type);
  const comments = withComments(ROOT, (commentsOf) => commentsOf(of, pathsOf(schema, [])));
  function describe({ properties = {}, items }: JsonSchema, path: readonly string[]): void {
    for (const [key, child] of Object.entries(properties)) {
      const inner = [...path, key];
      const comment = comments.get(inner.join("."))?.text ?? "";
      if (comment !== "") child.description = comment;
      describe(child, inner);
    }
    if (items !== undefined) describe(items, path);
  }
  describe(schema, []);
  return schema;
}

const stepSchema = (): JsonSchema =>
  commentedSchema(step, { file: "interactions/steps/described-step.ts", name: "StepDescription" });

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: object): object => ({ "application/json": { schema } });
const answer = (description: string, schema: object, headers?: object): object => ({
  description,
  content: json(schema),
  ...(headers && { headers }),
});

const RETRY = { "Retry-After": { description: "Seconds.", schema: { type: "integer" } } };

const ANSWERS = {
  "410": answer("The sign-in expired, is complete, or belongs to another browser.", ref("Gone")),
  "503": answer("Nothing has changed. Try again.", ref("Error"), RETRY),
};

const show = {
  summary: "Describes the step that the person is at",
  responses: { "200": answer("The step.", ref("Step")), ...ANSWERS },
};

const ACTION = {
  name: "action",
  in: "query",
  schema: {
    type: "string",
    enum: [
      "without-password",
      "email",
      "resend",
      "change",
      "allow",
      "deny",
      "another-account",
      "cancel",
      "passkey",
      "recovery",
      "app",
      "renew",
      "remove",
      "skip",
      "more-time",
    ],
  },
  description: "Part of the `href` of an action. Without it, the fields are submitted.",
};

const submit = (bodies: readonly string[], parameters: readonly object[] = [ACTION]): object => ({
  summary: "Submits the step",
  parameters,
  requestBody: { required: true, content: json({ anyOf: bodies.map(ref) }) },
  responses: {
    "200": answer("The next step, the end of this sign-in, or the address at which it starts again.", {
      anyOf: [ref("Step"), ref("Done"), ref("Restarted")],
    }),
    "400": answer("The step with its problems, or an error.", { anyOf: [ref("Step"), ref("Error")] }),
    "403": answer("`Origin`, `Content-Type` or `csrf` is wrong: the description says which.", ref("Error")),
    "429": answer("Too many attempts: the step with its problems.", ref("Step"), RETRY),
    ...ANSWERS,
  },
});

const parameter = (name: string, schema: object): object => ({ name, in: "path", required: true, schema });
const ID = parameter("id", { type: "string" });

/** The name of a schema: `ConfirmEmail`. */
const schemaName = (name: string): string =>
  name
    .split("-")
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join("");

const submissionName = (name: StepName): string => `${schemaName(name)}Submission`;
const pageName = ({ name }: PublishedView): string => `${schemaName(name)}Page`;

const loginRequired = z.strictObject({
  error: z.literal("login_required"),
  error_description: text("Technical, in English."),
  location: text("Navigate there: the person signs in, and comes back to this page."),
});

/** The schemas of what the account pages answer: what all have in common, and what each has besides. */
function pageSchemas(pages: readonly PersonPage[]): Readonly<Record<string, JsonSchema>> {
  const of = { file: "interactions/account/person-view.ts", name: "AccountPageDescription" };
  const { additionalProperties: _strict, ...common } = commentedSchema(accountPage, of);
  const own = pages.flatMap(({ views }) =>
    views.map((view) => {
      const members = z.looseObject({ page: z.literal(view.name), ...view.members });
      return [pageName(view), { allOf: [ref("AccountPage"), schemaOf(members)] }] as const;
    }),
  );
  return { AccountPage: common, ...Object.fromEntries(own) };
}

/** The paths of the account pages. */
function accountPaths(pages: readonly PersonPage[]): Readonly<Record<string, object>> {
  const answers = {
    "401": answer("The person has to sign in, or to sign in again.", ref("LoginRequired")),
    "503": ANSWERS["503"],
  };
  return Object.fromEntries(
    pages.map(({ path, views, submit: takesForms }) => {
      const shown = views.map((view) => ref(pageName(view)));
      const responses = {
        "200": answer("The page.", { anyOf: shown }),
        "303": { description: "Leads to another page." },
        ...answers,
      };
      const get = { summary: "Describes a page of the account", responses };
      return [
        path,
        takesForms === undefined ? { get } : { get, post: pageSubmission(views, shown, answers) },
      ];
    }),
  );
}

function pageSubmission(views: readonly PublishedView[], shown: readonly object[], answers: object): object {
  const takes = views.flatMap((view) => Object.entries(view.takes));
  const names = [...new Set(takes.map(([action]) => action))].filter((action) => action !== "submit");
  const bodies = takes.map(([, fields]) => {
    const members = fields.map((field) => [
      field,
      field === "credential" ? z.looseObject({}).optional() : z.string().optional(),
    ]);
    return schemaOf(z.looseObject({ csrf: z.string(), ...Object.fromEntries(members) }));
  });
  const parameters =
    names.length === 0 ? [] : [{ ...ACTION, schema: { type: "string", enum: names }, required: false }];
  return {
    summary: "Changes something of the account",
    parameters,
    requestBody: { required: true, content: json({ anyOf: bodies }) },
    responses: {
      "200": answer("What to go to, or the next page at this address.", { anyOf: [ref("Done"), ...shown] }),
      "400": answer("The page with its problems, or an error.", { anyOf: [...shown, ref("Error")] }),
      "403": answer("`Origin`, `Content-Type` or `csrf` is wrong: the description says which.", ref("Error")),
      "429": answer(
        "Too many attempts: the page with its problems, or an error.",
        { anyOf: [...shown, ref("Error")] },
        RETRY,
      ),
      ...answers,
    },
  };
}

export const openapiPage: Page = {
  file: "docs/interactions.openapi.json",
  generate: () => openapiDocument(PERSON_PAGES),
};

/** @param pages of the account. */
export function openapiDocument(pages: readonly PersonPage[]): string {
  const submissions = STEP_NAMES.map((name) => [submissionName(name), schemaOf(submission(name))] as const);
  const described = stepSchema();
  const ended = schemaOf(gone);
  ended.properties = { ...ended.properties, client: described.properties?.["client"] ?? {} };
  const names = submissions.map(([name]) => name);
  const document = {
    openapi: "3.1.0",
    info: {
      title: "The steps of a sign-in, and the pages of the account",
      version: "1",
      description: "For a UI on the host of the deployment. See docs/reference/sign-in-steps.md.",
    },
    servers: [{ url: "/", description: "The base URL of the deployment" }],
    paths: {
      "/interaction/{id}": { parameters: [ID], get: show, post: submit([...names, "RestartSubmission"]) },
      "/interaction/{id}/{step}": {
        parameters: [ID, parameter("step", { type: "string", enum: STEP_NAMES })],
        get: show,
        post: submit([...names, "RestartSubmission"]),
      },
      "/confirm": { get: show, post: submit(["UndoSubmission", submissionName("new-password")], []) },
      ...accountPaths(pages),
    },
    components: {
      schemas: {
        Step: described,
        Done: schemaOf(done),
        Error: schemaOf(error),
        Gone: ended,
        Restarted: schemaOf(restarted),
        RestartSubmission: schemaOf(
          z.strictObject({
            again: z.string(),
            username: text("What the person has typed: it becomes the `login_hint`.").optional(),
          }),
        ),
        UndoSubmission: schemaOf(z.looseObject({ csrf: z.string() })),
        ...Object.fromEntries(submissions),
        LoginRequired: schemaOf(loginRequired),
        ...pageSchemas(pages),
      },
    },
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
